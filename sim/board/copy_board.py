"""A board with nothing but a copy engine on it."""

from muntin.hw.memory.copy_engine import CopyEngine
from muntin.hw.memory.layouts import CopyLayout, CopyOperation, TransferStatus
from muntin.hw.memory.port_shape import PortShape
from muntin.sim.board.compile_board import compile_board
from muntin.sim.board.litedram_settings import LitedramSettings
from muntin.sim.board.memories import MemorySettings
from muntin.sim.board.simulated_board import SimulatedBoard


class CopyBoard(SimulatedBoard):
    """A board with nothing but a copy engine on it: it tells what the memory can do.

    Parameters
    ----------
    channels : int
        1: read and write the same channel. 2: read the first, write the second.
    turn_bytes : int
        Bytes read before as many are written, with one channel; also what the reader and the writer buffer.
    settings : MemorySettings or None
        Of each channel; by default the fastest DRAM known.

    Attributes
    ----------
    shape : PortShape
        Of the engine's ports.
    """

    def __init__(self, *, channels: int = 1, turn_bytes: int = 8192, settings: MemorySettings | None = None):
        settings = settings or LitedramSettings()
        self.shape = PortShape(
            address_width=28,
            data_width=settings.beat_bits,
            length_width=28,
            burst_bytes=2048,
            buffer_bytes=turn_bytes,
            max_transfer_bytes=1 << 27,
        )
        super().__init__(
            compile_board(
                lambda: CopyEngine(self.shape, turn_bytes=turn_bytes, ports=channels),
                [settings] * channels,
                self.shape,
                f"copy_{channels}",
            )
        )

    def command(
        self, operation: CopyOperation, source: int, destination: int, length: int
    ) -> tuple[TransferStatus, int]:
        """Run one command to its end.

        Returns
        -------
        status : TransferStatus
        cycles : int
            From the command's first cycle to its status.
        """
        layout = CopyLayout(self.shape.address_width, self.shape.length_width)
        fields = {"operation": operation, "source": source, "destination": destination, "length": length}
        start = self.cycles
        self.send("command", layout.const(fields).as_value().value)
        status = TransferStatus(self.take("status", 10_000 + 100 * length))
        return status, self.cycles - start
