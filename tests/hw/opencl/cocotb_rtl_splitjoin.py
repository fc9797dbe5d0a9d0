"""Cocotb tests of the RTL module with SplitJoin, at the ports that the OpenCL SDK gives it."""

import random
from collections import Counter

import cocotb

from muntin.contract.designs.splitjoin import RESULT_BYTES, SPLITJOIN, SUMMARY_FIELDS, Order, SplitJoinParameters
from muntin.contract.opencl import Request, request
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.host.fpga.splitjoin import JoinRows
from muntin.sim.models.splitjoin import JoinResult, SplitJoin
from muntin.sim.stream_bench import settings
from tests.hw.benches.join_cases import cases
from tests.hw.benches.order_monitor import check_order
from tests.hw.opencl.module_bench import ModuleBench

PARAMETERS = SplitJoinParameters(**settings()["parameters"])
DONE = next(register for register in SPLITJOIN.registers() if register.name == "CONTROL").field("done").mask
DRAINED = next(field for field in SUMMARY_FIELDS[2] if field.name == "drained").mask
ROWS_AT, RESULTS_AT = 1 << 12, 1 << 15


class JoinBench(ModuleBench):
    """The module, and joins that are carried out by it."""

    def __init__(self, dut, share, *, by_burst):
        super().__init__(dut, PARAMETERS, SPLITJOIN.registers(), share, by_burst=by_burst)
        self.tag = 0

    async def configure(self, now):
        words = now.words(PARAMETERS).items()
        await self.call(*(request(Request.WRITE, self.offset[name], word) for name, word in words))
        await self.run(Command(operation=Operation.CLEAR))

    async def run(self, command):
        """Carries out a command without a fault."""
        self.tag += 1
        words = [request(Request.WRITE, self.offset["QUEUE_PUSH"], word) for word in command.words(self.tag)]
        words += [
            request(Request.WRITE, self.offset["CONTROL"], 1),
            request(Request.WAIT, self.offset["CONTROL"], DONE),
            request(Request.READ, self.offset["ERROR_CODE"]),
        ]
        *_, control, code = await self.call(*words)
        assert control & DONE
        assert code == ErrorCode.NONE

    async def join(self, rows, room):
        """Results of rows, with room for so many at a time."""
        made = JoinRows.zeros(len(rows))
        for name in ("side", "null", "mark", "again", "more", "key", "lower", "upper", "time"):
            getattr(made, name)[:] = [getattr(row, name) for row in rows]
        made.number[:] = [row.row for row in rows]
        words = made.words(PARAMETERS)
        results = []
        taken = 0
        drained = False
        while not drained:
            self.memory.write(self.place(ROWS_AT), words[taken:].tobytes())
            left = len(words) - taken
            await self.run(
                Command(operation=Operation.JOIN, length_a=left, length_b=room, keys_a=ROWS_AT, keys_out=RESULTS_AT)
            )
            took, count, state = self.bytes(0, 12).view("u4").tolist()
            raw = self.bytes(RESULTS_AT, count * RESULT_BYTES).view("u4").reshape(-1, 2)
            for one, other in raw.tolist():
                star = other >> 31
                result = JoinResult(one & 0x7FFFFFFF, None if star else other, bool(star and other & 1))
                results.append((one >> 31, result))
            taken += took
            drained = bool(state & DRAINED)
        assert taken == len(words)
        return results


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], by_burst=[False, True])
async def joins(dut, share, by_burst):
    bench = JoinBench(dut, share, by_burst=by_burst)
    await bench.start()
    assert await bench.read("BUILD_ID") == SPLITJOIN.build_id
    p = PARAMETERS
    size = {name: getattr(p, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds")}
    rng = random.Random(bench.random.getrandbits(32))
    for case in cases(rng, **size, count=6, length=40, orders=(Order.OUTER, Order.INNER)):
        await bench.configure(case.settings)
        model = SplitJoin(case.settings, cores=p.cores, rows=p.rows)
        expected = [(side, result) for side, results in enumerate(model.take(case.rows)) for result in results]
        found = await bench.join(case.rows, rng.choice([8, 1024]))
        assert Counter(found) == Counter(expected), case.settings
        check_order(case.rows, case.settings, found, cores=p.cores)
