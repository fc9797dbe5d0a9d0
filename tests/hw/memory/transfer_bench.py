"""What the benches of burst reader and burst writer share."""

from collections.abc import Iterator

from muntin.hw.memory.layouts import TransferStatus
from muntin.sim.stream_bench import settings
from tests.hw.memory.memory_bench import MemoryBench

SETTINGS = settings()
BEAT = SETTINGS["beat_bytes"]
ADDRESS_WIDTH = SETTINGS["address_width"]
SPAN = 1 << 15
"""Bytes that transfers lie in."""

MOVED = (TransferStatus.OK, TransferStatus.MEMORY_ERROR, TransferStatus.DECODE_ERROR)
"""How a transfer ends that was not refused."""

Transfer = tuple[int, int, TransferStatus]
"""Address, length, and how it must end."""


class TransferBench(MemoryBench):
    """A bench of a block with a stream `transfer` and a stream `status`."""

    async def ask(self, transfers: list[Transfer]) -> None:
        """Asks for all transfers."""
        for address, length, _ in transfers:
            await self.idle()
            await self.send("transfer", address | length << ADDRESS_WIDTH)

    async def statuses(self, transfers: list[Transfer]) -> None:
        """Takes their statuses, each of which must be the one expected."""
        for transfer in transfers:
            await self.idle()
            assert await self.take("status") == transfer[2], f"status of {transfer}"

    def random_transfers(self, count: int) -> Iterator[Transfer]:
        """Transfers that end well."""
        for _ in range(count):
            length = self.random.choice([1, BEAT - 1, BEAT, self.random.randint(1, 64), self.random.randint(1, 5000)])
            yield self.random.randrange(0, SPAN - 5120, BEAT), length, TransferStatus.OK

    def mistakes(self) -> list[Transfer]:
        """What a host can get wrong: alone, between transfers that end well, and before them."""
        memory, longest = SETTINGS["memory_bytes"], SETTINGS["max_transfer_bytes"]
        wrong = [
            (BEAT, 0, TransferStatus.ZERO_LENGTH),
            (BEAT + 1, 8, TransferStatus.MISALIGNED),
            (0, longest + 1, TransferStatus.TOO_LONG),
            (memory - BEAT, BEAT + 1, TransferStatus.OUT_OF_RANGE),
        ]
        good = list(self.random_transfers(len(wrong)))
        mixed = [transfer for pair in zip(good, wrong, strict=True) for transfer in pair]
        return [*wrong, *mixed, *good]
