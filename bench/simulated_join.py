"""Counts what a whole windowed join costs a BI-Sort kernel: beats of memory, and cycles where the kernel is simulated.

``python -m bench.simulated_join`` prints a table and writes it as JSON.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from bench.filled_board import FilledBoard
from bench.workloads import ROWS, Workload
from muntin import Band, Rows, WindowJoin
from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import COMMAND_FLAGS, COMMAND_WORDS, Operation
from muntin.contract.simulations import INDEX_ROWS, board_parameters
from muntin.host.devices.device import DeviceInfo
from muntin.host.engine.sorted_runs import CountRing
from muntin.host.fpga.bisort import SCRATCH_BYTES
from muntin.host.fpga.device import FpgaDevice
from muntin.host.fpga.driver import BoardLink
from muntin.sim.board.kernel_board import open_board
from muntin.sim.models.kernel import KernelModel

_OFFSETS = {register.name: register.offset for register in BISORT.registers()}
_PROBES = next(flag.mask for flag in COMMAND_FLAGS if flag.name == "probe")
_COUNTED = ("cycles", "read_beats", "write_beats")
INDEXES = ("bisort", "sorted_runs")


class CountingLink:
    """The way to a board, which notes what each operation costs; it has all of a `BoardLink`.

    Parameters
    ----------
    link : BoardLink

    Attributes
    ----------
    costs : dict of str to dict of str to int
        For each operation, cycles and beats since `clear`.
    """

    def __init__(self, link: BoardLink):
        self._link = link
        self._operations: set[str] = set()
        self.costs: dict[str, dict[str, int]] = {}
        self.parameters = link.parameters
        self.memory_bytes = link.memory_bytes
        self.read_registers = link.read_registers
        self.write_registers = link.write_registers
        self.write_memory = link.write_memory
        self.read_memory = link.read_memory
        self.reset = link.reset
        self.close = link.close

    def clear(self) -> None:
        """Forget what was noted."""
        self.costs = {}

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """As the board's."""
        self._link.write_registers([(_OFFSETS["COUNTER_CLEAR"], 1)])
        # The indexes that probes take are a part of what they cost, and so are pairs and counts without ranges between.
        heads = words[::COMMAND_WORDS]
        self._operations = {
            "PROBE" if head & _PROBES or head & 0xFF == Operation.INDEX else Operation(head & 0xFF).name
            for head in heads
        }
        self._link.push_words(offset, words)

    def wait(self) -> None:
        """As the board's."""
        self._link.wait()
        # Commands of several kinds that were pushed together cannot be distinguished.
        cost = self.costs.setdefault("+".join(sorted(self._operations)), dict.fromkeys(_COUNTED, 0))
        for name in _COUNTED:
            low, high = self._link.read_registers([_OFFSETS[f"{name.upper()}_{end}"] for end in ("LOW", "HIGH")])
            cost[name] += low | high << 32


@dataclasses.dataclass(frozen=True)
class JoinCost:
    """What a stretch of a windowed join cost.

    Attributes
    ----------
    index : str
    window, subwindow, batch : int
        Rows a side: in the window, in a subwindow of it, in one call.
    rows : int
        That came while it was counted, both sides together.
    beat_bytes : int
    costs : dict of str to dict of str to int
        As in `CountingLink`.
    """

    index: str
    window: int
    subwindow: int
    batch: int
    rows: int
    beat_bytes: int
    costs: dict[str, dict[str, int]]

    def bytes_per_row(self, *operations: str) -> float:
        """Bytes of memory read and written for each row that came, by some operations or by all."""
        costs = [cost for name, cost in self.costs.items() if not operations or name in operations]
        return sum(cost["read_beats"] + cost["write_beats"] for cost in costs) * self.beat_bytes / self.rows

    @property
    def cycles(self) -> int:
        """Of all commands; 0 where the kernel was a model."""
        return sum(cost["cycles"] for cost in self.costs.values())


def join_cost(
    link: CountingLink,
    memory_bytes: int,
    *,
    index: str,
    window: int,
    batch: int,
    calls: int,
    seed: int,
    filled: FilledBoard | None = None,
) -> JoinCost:
    """Fill both windows, then count some calls.

    Parameters
    ----------
    link : CountingLink
        To a kernel with 32-bit keys.
    memory_bytes : int
        Of the board.
    index : str
    window, batch : int
        Rows a side.
    calls : int
        Calls that are counted; each brings `batch` rows on each side.
    seed : int
    filled : FilledBoard, optional
        What the link leads to, if it is to hand over when the windows are full; one more call, which loads the
        indexes, is then not counted.
    """
    info = DeviceInfo("sim:counted", "sim", "a kernel whose beats are counted", memory_bytes - SCRATCH_BYTES)
    device = FpgaDevice(info, {"bisort": link.parameters}, lambda builds: link)
    workload = Workload(kind="uniform", window=window, seed=seed)
    join = WindowJoin(
        on=Band("key", "key", *workload.band),
        left=Rows(window),
        right=Rows(window),
        form="pairs",
        device=device,
        index=index,
    )
    filling = min(window, max(batch, window // 32))
    at = 0
    while at < window:
        join.process(*(workload.rows(side, at, at + filling).table for side in (0, 1)))
        at += filling
    if filled is not None:
        filled.hand_over()
        device.open_board(32).lanes[0].forget_indexes()
        join.process(*(workload.rows(side, at, at + batch).table for side in (0, 1)))
        at += batch
    link.clear()
    for _ in range(calls):
        join.process(*(workload.rows(side, at, at + batch).table for side in (0, 1)))
        at += batch
    subwindow = CountRing(window).subwindow_rows
    cost = JoinCost(index, window, subwindow, batch, 2 * batch * calls, link.parameters.beat_bytes, dict(link.costs))
    join.close()
    return cost


def main_array_cost(link: CountingLink, memory_bytes: int, *, window: int, batch: int, seed: int) -> JoinCost:
    """What one batch costs BI-Sort as published: one main array that holds the whole window.

    The batch probes the array and is merged into it; nothing is gathered and nothing expires. Parameters as of
    `join_cost`.
    """
    info = DeviceInfo("sim:counted", "sim", "a kernel whose beats are counted", memory_bytes - SCRATCH_BYTES)
    device = FpgaDevice(info, {"bisort": link.parameters}, lambda builds: link)
    workload = Workload(kind="uniform", window=window, seed=seed)
    low, high = workload.band
    store = device.open_store(key_bits=32, rows=2 * (window + batch), what="the main array")
    main, batches = np.sort(workload.rows(0, 0, window).keys), workload.rows(1, 0, batch).keys
    run = store.load(main, np.arange(window, dtype=np.uint32))
    new = np.sort(batches)
    link.clear()
    store.probe([run], new - np.int32(high), new - np.int32(low))
    added = store.load(new, np.arange(batch, dtype=np.uint32))
    store.merge(run, added)
    cost = JoinCost("one array", window, window, batch, batch, link.parameters.beat_bytes, dict(link.costs))
    store.close()
    return cost


def board_of(window: int, partition: int) -> Parameters:
    """The simulated board with DDR3, and room on chip for the indexes of both windows."""
    rows = max(2 * window // partition, INDEX_ROWS)
    return board_parameters(32, "litedram", index_rows=1 << (rows - 1).bit_length(), partition_rows=partition)


@click.command(context_settings={"max_content_width": 110})
@click.option("--window", "windows", multiple=True, type=ROWS, help="Rows a side; repeatable.  [default: 8M]")
@click.option("--batch", type=ROWS, default="32K", show_default=True, help="Rows a side in one call.")
@click.option("--calls", type=click.IntRange(min=1), help="That are counted.  [default: those of a subwindow]")
@click.option(
    "--cycles-window",
    "cycles_windows",
    multiple=True,
    type=ROWS,
    help="Simulate this window cycle by cycle; repeatable.",
)
@click.option("--only-cycles", is_flag=True, help="Leave out the windows that a model counts.")
@click.option("--cycles-calls", type=click.IntRange(min=1), default=8, show_default=True)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=4),
    default=(64,),
    show_default=True,
    help="Keys of a partition, a power of two; repeatable. Room on chip is for all indexes.",
)
@click.option("--index", "indexes", multiple=True, type=click.Choice(INDEXES), help="Repeatable.  [default: both]")
@click.option("--seed", type=int, default=20, show_default=True)
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path),
    default=Path("build/bench/simulated_join.json"),
    show_default=True,
)
def main(
    windows: tuple[int, ...],
    batch: int,
    calls: int | None,
    cycles_windows: tuple[int, ...],
    only_cycles: bool,
    cycles_calls: int,
    partitions: tuple[int, ...],
    indexes: tuple[str, ...],
    seed: int,
    path: Path,
) -> None:
    """What a windowed join costs a BI-Sort kernel with DDR3 on one channel."""
    console = Console(width=150, highlight=False)
    line = "{:>11} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>7} {:>7} {:>10} {:>10}"
    head = ("index", "window", "subwindow", "batch", "partition", "on chip", "insert", "probe", "all")
    console.print(line.format(*head, "rows/cycle", "counted by"))
    console.print("(bytes of memory for each row that comes)")
    found = []

    def show(cost: JoinCost, parameters: Parameters, by: str) -> None:
        on_chip = parameters.index_rows * parameters.key_bits // 8
        of = {"partition_rows": parameters.partition_rows, "index_bytes": on_chip}
        found.append(dataclasses.asdict(cost) | of | {"by": by})
        rate = f"{cost.rows / cost.cycles:.4f}" if cost.cycles else ""
        parts = [cost.bytes_per_row(name) for name in ("MERGE", "PROBE")]
        sizes = cost.window, cost.subwindow, cost.batch, parameters.partition_rows, f"{on_chip >> 10} KiB"
        console.print(
            line.format(cost.index, *sizes, *(f"{part:.0f}" for part in parts), f"{cost.bytes_per_row():.0f}", rate, by)
        )

    for window, partition in itertools.product(() if only_cycles else windows or (8 << 20,), partitions):
        # As on the simulated board, with more memory where the window needs it.
        parameters = board_of(window, partition)
        memory = max(1 << 29, window * 64)
        parameters = dataclasses.replace(parameters, address_bits=(memory - 1).bit_length())

        def model(parameters: Parameters = parameters) -> CountingLink:
            return CountingLink(KernelModel(parameters, 1 << parameters.address_bits))

        memory_bytes = 1 << parameters.address_bits
        cost = main_array_cost(model(), memory_bytes, window=window, batch=batch, seed=seed)
        show(cost, parameters, "model")
        for index in indexes or INDEXES:
            turns = calls or -(-CountRing(window).subwindow_rows // batch)
            cost = join_cost(model(), memory_bytes, index=index, window=window, batch=batch, calls=turns, seed=seed)
            show(cost, parameters, "model")
    for window, partition in itertools.product(cycles_windows, partitions):
        parameters = board_of(window, partition)
        for index in indexes or INDEXES:
            filled = FilledBoard(open_board(parameters, "litedram"))
            link = CountingLink(filled)
            cost = join_cost(
                link,
                link.memory_bytes,
                index=index,
                window=window,
                batch=min(batch, window),
                calls=cycles_calls,
                seed=seed,
                filled=filled,
            )
            link.close()
            show(cost, parameters, "simulation")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"bench": "simulated_join", "costs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
