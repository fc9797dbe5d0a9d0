"""Finds out what a command moves, and whether it can."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import RUN_PLACES, ErrorCode, Operation
from muntin.hw.control.layouts import CommandLayout

ARRAYS = ("keys_a", "rows_a", "keys_b", "rows_b", "keys_out", "rows_out", "index_out")
"""The arrays of a command: four that are read, three that are written, or at the last one limits that are read."""


class CommandPlan(wiring.Component):
    """Looks at one array of a command after the other: whether it has it, how long it is, whether it fits.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    start : In(1)
        `command` is a new one.
    command : In(CommandLayout)
        Stands still until `done`, and as long as the plan is used.
    buffer_rows : In(32)
        Rows in the insertion buffer.
    runs : In(64)
        Bit n: there is a run at place n, and its index is on chip.
    done : Out(1)
        For one cycle; from then on the others stand.
    code : Out(ErrorCode)
        The first thing found wrong, NONE if nothing is.
    address : Out(64)
        Of the array it was found at, else 0.
    used : Out(7)
        The arrays, in the order of `ARRAYS`, that the command has.
    bytes : Out(array of 7)
        How long they are.

    Timing
    ------
    `done` ten cycles after `start`.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = parameters
        super().__init__(
            {
                "start": In(1),
                "command": In(CommandLayout()),
                "buffer_rows": In(32),
                "runs": In(RUN_PLACES),
                "done": Out(1),
                "code": Out(ErrorCode),
                "address": Out(64),
                "used": Out(len(ARRAYS)),
                "bytes": Out(data.ArrayLayout(36, len(ARRAYS))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        command = self.command
        a, b = command.length_a, command.length_b
        both = Signal(33)
        index_a, index_both = Signal(32), Signal(32)
        round_up = p.partition_rows - 1
        m.d.comb += [
            both.eq(a + b),
            index_a.eq((a + round_up) >> p.partition_log2),
            index_both.eq((both + round_up) >> p.partition_log2),
        ]
        is_ = {operation: command.operation == operation for operation in BISORT.operations}
        merge, copy, insert = (is_[name] for name in (Operation.MERGE, Operation.COPY, Operation.INSERT))
        gather, count, index = is_[Operation.GATHER], is_[Operation.COUNT], is_[Operation.INDEX]
        found = (gather | count) & command.probe  # ranges that are found on the way
        ranges = (gather | count) & ~command.probe
        probe = is_[Operation.PROBE] | found
        in_memory = ~command.buffer
        pairs = gather & command.probe & in_memory  # for which the command says how much room there is
        key = (p.key_bits // 8).bit_length() - 1
        beat = C(p.beat_bytes, 32)
        # For each array: when a command has it, its items, and log2 of the bytes of one.
        cases: dict[str, list[tuple[ValueLike, ValueLike, int]]] = {
            "keys_a": [
                (merge | insert | index, a, key),
                (ranges & command.limits, b, 3),
                (copy, a, 0),
            ],
            "rows_a": [
                (merge | insert | (ranges & in_memory), a, 2),
                (index, index_a, key),
            ],
            "keys_b": [((merge & in_memory) | probe, b, key), (ranges, b, 2), (index, a, 2)],
            "rows_b": [(merge & in_memory, b, 2), (probe, b, key), (ranges, b, 2)],
            "keys_out": [
                (merge, both, key),
                (count, b, 2),
                ((gather & ~pairs) | is_[Operation.PROBE], beat, 0),
                (pairs, a, 3),
                (copy, a, 0),
            ],
            "rows_out": [(merge, both, 2), (gather | is_[Operation.PROBE], beat, 0)],
            "index_out": [(merge, index_both, key), (found & command.limits, b, 3)],
        }

        # What does not depend on addresses.
        shape_error = Signal(ErrorCode)
        rows = p.run_rows
        with m.If(~Cat(is_.values()).any()):
            m.d.comb += shape_error.eq(ErrorCode.UNKNOWN_OPERATION)
        with m.Elif(
            ((a == 0) & ~is_[Operation.NOP] & ~is_[Operation.DISCARD] & ~(probe & in_memory & ~pairs))
            | ((b == 0) & (merge | probe | ranges))
            | (probe & in_memory & (command.keys_a == 0))
        ):
            m.d.comb += shape_error.eq(ErrorCode.ZERO_LENGTH)
        with m.Elif((merge & (both > rows)) | ((index | ranges) & (a > rows))):
            m.d.comb += shape_error.eq(ErrorCode.RUN_TOO_LONG)
        with m.Elif(
            (insert & (a > p.buffer_rows - self.buffer_rows))
            | (merge & command.buffer & (b != self.buffer_rows))
            | ((probe | ranges) & command.buffer & (a != self.buffer_rows))
        ):
            m.d.comb += shape_error.eq(ErrorCode.BUFFER_ROWS)
        with m.Elif(
            (index & ((command.index_out + index_a > p.index_rows) | (b >= RUN_PLACES)))
            | (probe & in_memory & (command.keys_a & ~self.runs).any())
        ):
            m.d.comb += shape_error.eq(ErrorCode.BAD_INDEX)

        # The arrays, one a cycle: first its length, then whether that fits.
        step = Signal(range(len(ARRAYS) + 2))
        running = Signal()
        there, length, address = Signal(), Signal(36), Signal(64)
        looked, looked_length, looked_address = Signal(), Signal(36), Signal(64)
        last_byte = Signal(65)
        channel_bits = p.address_bits - (p.channels.bit_length() - 1)
        with m.Switch(step):
            for number, name in enumerate(ARRAYS):
                with m.Case(number):
                    m.d.comb += address.eq(command[name])
                    for when, items, shift in cases[name]:
                        with m.If(when):
                            m.d.comb += [there.eq(1), length.eq(items << shift)]
                    m.d.sync += [self.used[number].eq(there), self.bytes[number].eq(length)]
        m.d.sync += [looked.eq(there & running), looked_length.eq(length), looked_address.eq(address)]
        m.d.comb += last_byte.eq(looked_address + looked_length - 1)
        m.d.sync += self.done.eq(0)
        with m.If(self.start):
            m.d.sync += [running.eq(1), step.eq(0), self.code.eq(shape_error), self.address.eq(0)]
        with m.Elif(running):
            m.d.sync += step.eq(step + 1)
            with m.If(looked & (self.code == ErrorCode.NONE)):
                with m.If(looked_address[: (p.beat_bytes - 1).bit_length()].any()):
                    m.d.sync += [self.code.eq(ErrorCode.MISALIGNED_ADDRESS), self.address.eq(looked_address)]
                with m.Elif(
                    (looked_address >> p.address_bits).any()
                    | (last_byte >> channel_bits != looked_address >> channel_bits)
                ):
                    m.d.sync += [self.code.eq(ErrorCode.ADDRESS_RANGE), self.address.eq(looked_address)]
            with m.If(step == len(ARRAYS) + 1):
                m.d.sync += [running.eq(0), self.done.eq(1)]
        return m
