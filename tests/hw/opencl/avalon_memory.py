"""Memory behind Avalon ports that read and ports that write, under cocotb, and the rules that a host keeps there."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.hw.memory.stalls import stalls


@dataclass
class _Port:
    """What is under way at one port."""

    reading: dict[str, Any]  # the port's signals, by name
    writing: dict[str, Any]
    waits: Any
    pauses: Any
    held: tuple[int, ...] | None = None  # what the host must hold, as it was made to wait
    held_write: tuple[int, ...] | None = None
    wait: bool = False
    wait_write: bool = False
    beats: deque = field(default_factory=deque)  # addresses of beats to be read
    burst: list[int] = field(default_factory=list)  # address and beats left of the burst that is written
    commits: deque = field(default_factory=deque)  # address, bytes, whether a burst ends: taken, not yet in memory
    asked: bool = False


class AvalonMemory:
    """Memory behind Avalon ports, each a pair of one that reads and one that writes.

    Beats are written some time after they were taken, and only then acknowledged; reads are answered with what is in
    memory when they are. So whoever reads what is not acknowledged reads what was there before.

    Parameters
    ----------
    dut
        Has the signals ``read_0_address``, ``write_0_address``, ...
    ports : int
    seed : int
    share : float
        Share of cycles in which a port waits, or has no beat.
    by_burst : bool
        Whether bursts are acknowledged, or beats.
    burst_bytes : int
        No burst crosses a multiple of it, and none is longer.

    Attributes
    ----------
    memory : dict of int to int
        Bytes that are not zero, by address.
    spaces : list of range
        Where there is memory.
    """

    def __init__(self, dut: Any, ports: int, seed: int, share: float, *, by_burst: bool, burst_bytes: int):
        def signals(kind: str, number: int, *names: str) -> dict[str, Any]:
            return {name: getattr(dut, f"{kind}_{number}_{name}") for name in names}

        self.random = random.Random(seed)
        self.memory: dict[int, int] = {}
        self.spaces: list[range] = []
        self.by_burst = by_burst
        self.burst_bytes = burst_bytes
        self.beat_bytes = len(dut.read_0_readdata) // 8
        self.ports = [
            _Port(
                signals(
                    "read",
                    number,
                    "enable",
                    "read",
                    "address",
                    "burstcount",
                    "waitrequest",
                    "readdata",
                    "readdatavalid",
                ),
                signals(
                    "write",
                    number,
                    *("enable", "write", "address", "burstcount", "waitrequest", "writedata", "byteenable", "writeack"),
                ),
                stalls(self.random.getrandbits(32), share),
                stalls(self.random.getrandbits(32), share),
            )
            for number in range(ports)
        ]

    def read(self, address: int, length: int) -> bytes:
        """Bytes of the memory."""
        return bytes(self.memory.get(at, 0) for at in range(address, address + length))

    def write(self, address: int, content: bytes) -> None:
        """Puts bytes into the memory."""
        self.memory.update(enumerate(content, address))

    def cycle(self) -> None:
        """What happens at one rising edge of the clock, before it: to be called at each."""
        for port in self.ports:
            self._read(port)
            self._write(port)

    def _check_burst(self, address: int, count: int) -> None:
        last = address + count * self.beat_bytes - 1
        assert count, "a burst of no beats"
        assert address % self.beat_bytes == 0, f"{address:#x} is not aligned"
        assert address // self.burst_bytes == last // self.burst_bytes, (
            f"{count} beats at {address:#x} cross a boundary"
        )
        assert any(address in space and last in space for space in self.spaces), f"there is no memory at {address:#x}"

    def _read(self, port: _Port) -> None:
        s = port.reading
        assert s["enable"].value == 1
        asks = s["read"].value == 1
        now = (int(s["address"].value), int(s["burstcount"].value)) if asks else None
        assert port.held is None or now == port.held, "a request to read moved while it had to wait"
        port.held = now if asks and port.wait else None
        taken = asks and not port.wait
        if taken:
            assert not port.asked, "no pause between two requests to read"
            self._check_burst(*now)
            port.beats.extend(now[0] + beat * self.beat_bytes for beat in range(now[1]))
        port.asked = taken
        answer = bool(port.beats) and not next(port.pauses)
        s["readdatavalid"].value = answer
        if answer:
            s["readdata"].value = int.from_bytes(self.read(port.beats.popleft(), self.beat_bytes), "little")
        else:
            s["readdata"].value = self.random.getrandbits(8 * self.beat_bytes)
        port.wait = next(port.waits)
        s["waitrequest"].value = port.wait

    def _write(self, port: _Port) -> None:
        s = port.writing
        assert s["enable"].value == 1
        asks = s["write"].value == 1
        now = None
        if asks:
            first = (int(s["address"].value), int(s["burstcount"].value)) if not port.burst else ()
            now = (*first, int(s["writedata"].value), int(s["byteenable"].value))
        assert port.held_write is None or now == port.held_write, "a beat to write moved while it had to wait"
        port.held_write = now if asks and port.wait_write else None
        if asks and not port.wait_write:
            if not port.burst:
                self._check_burst(*now[:2])
                port.burst = list(now[:2])
            address, left = port.burst
            content, enable = now[-2].to_bytes(self.beat_bytes, "little"), now[-1]
            kept = {address + at: byte for at, byte in enumerate(content) if enable >> at & 1}
            port.commits.append((kept, left == 1))
            port.burst = [address + self.beat_bytes, left - 1] if left > 1 else []
        acknowledged = False
        # A beat is a while on its way, in which others may follow.
        if port.commits and self.random.random() < 0.5 and (len(port.commits) > 3 or self.random.random() < 0.2):
            kept, ends = port.commits.popleft()
            self.memory.update(kept)
            acknowledged = ends or not self.by_burst
        s["writeack"].value = acknowledged
        port.wait_write = next(port.waits)
        s["waitrequest"].value = port.wait_write
