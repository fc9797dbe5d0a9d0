"""A board with a link, in simulation, at a pseudo-terminal and a UDP port."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import tty
import weakref
from collections.abc import Callable
from typing import Literal

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.boards.board_build import build_of
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.hw.boards.linked_kernel import LinkedKernel, kernel_of
from muntin.hw.conversion import to_verilog
from muntin.sim.board.board_top import board_top, ticks
from muntin.sim.board.compile_board import compile_texts, port_files
from muntin.sim.board.ethernet_computer import EthernetComputer
from muntin.sim.board.link_models import simulated_dram, simulated_ethernet
from muntin.sim.board.simulated_board import SimulatedBoard
from muntin.sim.compact_verilog import compact_verilog
from muntin.sim.netlist import NETLIST_OPTIONS, made_by
from muntin.sim.undefined import colliding_reads, with_drawn_values

_ETHERNET = {"clk": In(1), "rx_valid": In(1), "rx_data": In(8), "tx_valid": Out(1), "tx_data": Out(8)}


class LinkedTop(wiring.Component):
    """A linked kernel and its memory controller, a module ``dram`` with ``clk`` and ``rst``.

    Where it is at Ethernet, with its UDP core too, a module ``ethernet``.

    Parameters
    ----------
    design : LinkedKernel

    Attributes
    ----------
    rx, tx, busy : In(1), Out(1), Out(1)
        As of the design.
    eth_clk, eth_rx_valid, eth_rx_data, eth_tx_valid, eth_tx_data : In(1), In(1), In(8), Out(1), Out(8)
        As of `muntin.sim.board.link_models`; only where it is at Ethernet.
    """

    def __init__(self, design: LinkedKernel):
        self._design = design
        wire = {f"eth_{name}": member for name, member in _ETHERNET.items() if design.ethernet}
        super().__init__({"rx": In(1, init=1), "tx": Out(1), "busy": Out(1), **wire})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.design = design = self._design
        m.submodules.dram = Instance("dram", i_clk=ClockSignal(), i_rst=ResetSignal(), **design.memory_wires())
        if design.ethernet:
            wires = design.ethernet_wires()
            for name, member in _ETHERNET.items():
                wires[f"{'i' if member.flow == In else 'o'}_eth_{name}"] = getattr(self, f"eth_{name}")
            m.submodules.ethernet = Instance("ethernet", i_clk=ClockSignal(), i_rst=ResetSignal(), **wires)
        m.d.comb += [design.rx.eq(self.rx), self.tx.eq(design.tx), self.busy.eq(design.busy)]
        return m


DIVISOR = 4
"""Cycles of a bit on the line, which need not wait for a real one."""
_LOCKS = 1 << 18  # cycles, in which the clocks of a whole top lock
_SETTLES = 256  # cycles of the controller, in which its resets end behind that


class LinkedBoard:
    """A board with a link, in simulation: what is built for the board, if not said otherwise but its clocks, pins and
    physical layer.

    Its serial line is a pseudo-terminal, where whoever opens it finds the board, and its Ethernet a UDP port of this
    machine. The simulated clock runs while the board has something to do.

    Parameters
    ----------
    name : str
        The board: one of `muntin.contract.boards`.
    design : str, optional
        One of the board's.
    progress : callable, optional
        As in `compile_board`.
    top : {"rtl", "netlist"}, optional
        The whole top, with its pins, before or after synthesis, as of `board_top`; of a design without Ethernet.

    Attributes
    ----------
    path : str
        The pseudo-terminal.
    address : (str, int) or None
        The UDP port, if it has Ethernet.
    computer : EthernetComputer or None
        What its Ethernet is joined to, if it has any.

    Raises
    ------
    BoardBuildError
        If it cannot be compiled.
    ParameterError
        If there is no such top of the design.
    """

    def __init__(
        self,
        name: str,
        design: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        top: Literal["rtl", "netlist"] | None = None,
    ):
        board = build_of(name)
        chosen = board.design(design)
        netlist = top == "netlist"
        folder = compile_texts(
            lambda: board_top(board, chosen, DIVISOR, netlist=netlist) if top else _texts(board, chosen),
            f"{top or 'linked'}-{board.name}-{chosen}",
            key=repr((board, chosen, top, made_by() if top else None)),
            progress=progress,
            options=NETLIST_OPTIONS if netlist else (),
        )
        self.board = SimulatedBoard(folder)
        cycles = ticks(board.dram_of(chosen)) if top else 1
        if top:
            self.board.run_until("locked", 1, _LOCKS)
            self.board.run(_SETTLES * cycles)
        file, far_end = os.openpty()
        tty.setraw(far_end)
        os.set_blocking(file, False)
        # The far end stays open here too: a terminal that nobody has open hangs up.
        self.path = os.ttyname(far_end)
        self.computer: EthernetComputer | None = None
        wires: list[socket.socket] = []
        if (ethernet := board.ethernet_of(chosen)) is not None:
            wires = list(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
            wires[0].setblocking(False)
            self.computer = EthernetComputer(ethernet, wires[1])
        self.address = None if self.computer is None else self.computer.address
        wire = wires[0].fileno() if wires else -1
        stop = ctypes.c_int32(0)
        thread = threading.Thread(
            target=self.board.serve, args=(file, DIVISOR * cycles, wire, stop), name=self.path, daemon=True
        )
        thread.start()
        self._free = weakref.finalize(self, _give_back, stop, thread, self.computer, wires, (file, far_end), self.board)

    def close(self) -> None:
        """Free the board. Idempotent; done also when it is dropped."""
        self._free()

    def __enter__(self) -> LinkedBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _give_back(
    stop: ctypes.c_int32,
    thread: threading.Thread,
    computer: EthernetComputer | None,
    wires: list[socket.socket],
    files: tuple[int, int],
    board: SimulatedBoard,
) -> None:
    """Ends what uses the files and the board, then frees them."""
    stop.value = 1
    thread.join()
    if computer is not None:
        computer.close()
    for end in wires:
        end.close()
    for file in files:
        os.close(file)
    board.close()


def _texts(board: Ecp5Board, design: str) -> dict[str, str]:
    dram = board.dram_of(design)
    core = simulated_dram(dram, "dram")
    kernel, shape = kernel_of(board.parameters[design])
    linked = LinkedKernel(
        kernel,
        shape,
        divisor=DIVISOR,
        description=board.description_of(design, core.start),
        ports=dram.ports,
        stride=core.row_bytes,
        ethernet=(ethernet := board.ethernet_of(design)) is not None,
    )
    text = to_verilog(LinkedTop(linked), "board")
    text = with_drawn_values(colliding_reads(compact_verilog(text)))
    texts = {"board.v": text, "dram.v": core.verilog, **port_files(text)}
    if ethernet is not None:
        texts["ethernet.v"] = simulated_ethernet(ethernet, "ethernet", clock_hz=dram.clock_hz)
    return texts
