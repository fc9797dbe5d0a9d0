"""A kernel that is reached by requests, and a model that is given the same."""

import numpy as np

from muntin.contract.designs.bisort import BISORT
from muntin.contract.opencl import Request, request
from muntin.contract.registers import ErrorCode
from muntin.sim.models.kernel import KernelModel
from tests.hw.bisort.kernel_scenarios import Scenarios, same

OFFSET = {register.name: register.offset for register in BISORT.registers()}
DONE = next(register for register in BISORT.registers() if register.name == "CONTROL").field("done").mask


class Twin:
    """Runs commands on a kernel of BI-Sort and on its model, and compares. A bench beside it has `random`, `memory`,
    and the methods `call`, `place` and `bytes`."""

    def compare(self, parameters):
        self.parameters = parameters
        self.model = KernelModel(parameters, 1 << parameters.address_bits)
        channel = (1 << parameters.address_bits) // parameters.channels
        self.scenarios = Scenarios(parameters, self.random.getrandbits(32), channel // 2)
        self.tag = 0

    async def run(self, *commands):
        """Pushes commands, starts, waits for the end, and gives the error."""
        words = []
        for command in commands:
            self.tag += 1
            for word in command.words(self.tag):
                words.append(request(Request.WRITE, OFFSET["QUEUE_PUSH"], word))
                self.model.write_register(OFFSET["QUEUE_PUSH"], word)
        words += [
            request(Request.WRITE, OFFSET["CONTROL"], 1),
            request(Request.WAIT, OFFSET["CONTROL"], DONE),
            request(Request.READ, OFFSET["ERROR_CODE"]),
        ]
        *_, control, code = await self.call(*words)
        assert control & DONE
        self.model.write_register(OFFSET["CONTROL"], 1)
        assert code == self.model.read_register(OFFSET["ERROR_CODE"])
        return ErrorCode(code)

    async def check(self, operation, rows):
        scenario = self.scenarios.make(operation, rows)
        for address, content in scenario.writes:
            self.memory.write(self.place(address), content.tobytes())
            self.model.write_memory(address, content)
        assert await self.run(scenario.command) == ErrorCode.NONE, scenario.command
        key = np.dtype(np.uint32 if self.parameters.key_bits == 32 else np.uint64)
        differs = same(scenario, key, self.bytes, self.model.read_memory)
        assert not differs, (differs, scenario.command)
