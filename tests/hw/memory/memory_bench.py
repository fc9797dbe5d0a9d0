"""What the cocotb benches of readers, writers and copies share."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiReadBus, AxiResp, AxiWriteBus
from cocotbext.axi.axi_ram import AxiRamRead, AxiRamWrite
from cocotbext.axi.sparse_memory import SparseMemory

from tests.hw.memory.stalls import stalls, watch

READ_CHANNELS = {
    "ar": ("araddr", "arlen", "arsize", "arburst"),
}
WRITE_CHANNELS = {
    "aw": ("awaddr", "awlen", "awsize", "awburst"),
    "w": ("wdata", "wstrb", "wlast"),
}


class MemoryBench:
    """A component at its AXI4 ports, with one memory behind them all.

    Parameters
    ----------
    dut
        The component.
    read_ports, write_ports : sequence of str
        Prefixes of its read and write halves.
    share : float
        Share of cycles that each channel is paused.

    Attributes
    ----------
    memory : SparseMemory
        What the memory holds.
    bad : range
        Addresses at which the memory answers `response`.
    rams : list of AxiRamRead and AxiRamWrite
        Behind the ports.
    bursts : list of tuple
        Direction, address and bytes of every burst, in order of their addresses.
    """

    def __init__(self, dut: Any, read_ports: Sequence[str], write_ports: Sequence[str], share: float):
        self.dut = dut
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.memory = SparseMemory(1 << 32)
        self.bad = range(0)
        self.response = AxiResp.SLVERR
        self.bursts: list[tuple[str, int, int]] = []
        self.pausing = share > 0
        self.rams: list[Any] = []
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        for port in read_ports:
            ram = AxiRamRead(AxiReadBus.from_prefix(dut, f"{port}_"), dut.clk, dut.rst, mem=self.memory_of(port))
            self.rams.append(ram)
            self._guard(port, ram, "_read", ram.r_channel, "rresp")
            self.pause(share, ram.ar_channel, ram.r_channel)
            self._watch(port, "ar", READ_CHANNELS["ar"])
        for port in write_ports:
            ram = AxiRamWrite(AxiWriteBus.from_prefix(dut, f"{port}_"), dut.clk, dut.rst, mem=self.memory_of(port))
            self.rams.append(ram)
            self._guard(port, ram, "_write", ram.b_channel, "bresp")
            self.pause(share, ram.aw_channel, ram.w_channel, ram.b_channel)
            for channel, names in WRITE_CHANNELS.items():
                self._watch(port, channel, names)

    def pause(self, share: float, *channels: Any) -> None:
        """Pause channels at random for a share of all cycles."""
        if share:
            for channel in channels:
                channel.set_pause_generator(stalls(self.random.getrandbits(32), share))

    def memory_of(self, port: str) -> Any:
        """What lies behind a port: the same memory behind them all, unless a bench has others."""
        return self.memory

    def _guard(self, port: str, ram: Any, access: str, channel: Any, field: str) -> None:
        """Make a memory that answers `response` at bad addresses."""
        plain_access, plain_send = getattr(ram, access), channel.send

        async def guarded_access(address: int, *rest: Any) -> Any:
            if getattr(self.memory_of(port), "base", 0) + address in self.bad:
                raise LookupError(f"bad address {address:#x}")
            return await plain_access(address, *rest)

        async def guarded_send(answer: Any) -> None:
            if getattr(answer, field) == AxiResp.SLVERR:
                setattr(answer, field, self.response)
            await plain_send(answer)

        setattr(ram, access, guarded_access)
        channel.send = guarded_send

    def withhold(self, channels: str) -> None:
        """Let the memory answer on these channels, of `r` and `b`, no more."""
        for ram in self.rams:
            for channel in channels:
                if source := getattr(ram, f"{channel}_channel", None):
                    source.clear_pause_generator()
                    source.pause = True

    async def withhold_behind_an_error(self, ports: Sequence[str]) -> None:
        """Let the memory answer no more once it has answered a read with an error."""
        signals = [[getattr(self.dut, f"{port}__r{end}") for end in ("valid", "ready", "resp")] for port in ports]
        while not any(int(valid.value) and int(ready.value) and int(resp.value) for valid, ready, resp in signals):
            await RisingEdge(self.dut.clk)
        self.withhold("rb")

    def _watch(self, port: str, channel: str, names: Sequence[str]) -> None:
        def signal(name: str) -> Any:
            return getattr(self.dut, f"{port}__{name}")

        valid, ready = signal(f"{channel}valid"), signal(f"{channel}ready")
        cocotb.start_soon(watch(self.dut.clk, self.dut.rst, valid, ready, *map(signal, names)))
        if channel != "w":
            cocotb.start_soon(self._record(port, channel, valid, ready, signal))

    async def _record(self, port: str, channel: str, valid: Any, ready: Any, signal: Any) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            if valid.value == 1 and ready.value == 1:
                address = int(signal(f"{channel}addr").value)
                size = (int(signal(f"{channel}len").value) + 1) << int(signal(f"{channel}size").value)
                assert address // 4096 == (address + size - 1) // 4096, f"burst at {address:#x} crosses 4 KiB"
                self.bursts.append((channel, address, size))

    async def reset(self) -> None:
        """Reset the component."""
        self.dut.rst.value = 1
        for _ in range(4):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def send(self, stream: str, payload: int) -> None:
        """Put one payload into a stream of the component."""
        valid, ready = getattr(self.dut, f"{stream}__valid"), getattr(self.dut, f"{stream}__ready")
        getattr(self.dut, f"{stream}__payload").value = payload
        valid.value = 1
        await RisingEdge(self.dut.clk)
        while ready.value != 1:
            await RisingEdge(self.dut.clk)
        valid.value = 0

    async def take(self, stream: str) -> int:
        """Take one payload from a stream of the component."""
        valid, ready = getattr(self.dut, f"{stream}__valid"), getattr(self.dut, f"{stream}__ready")
        ready.value = 1
        await RisingEdge(self.dut.clk)
        while valid.value != 1:
            await RisingEdge(self.dut.clk)
        payload = int(getattr(self.dut, f"{stream}__payload").value)
        ready.value = 0
        return payload

    async def idle(self) -> None:
        """Wait a random number of cycles, if this bench stalls at all."""
        if self.pausing and self.random.random() < 0.3:
            for _ in range(self.random.randint(1, 6)):
                await RisingEdge(self.dut.clk)
