"""SPO-Join, Fig. 16 to 19: its processing elements, on `clusters.Elements`; and what elements are sent that are
processes."""

from __future__ import annotations

import datetime as dt
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.clusters import Elements, Processes
from bench.papers.figure import Figure, Scale, in_turns
from bench.papers.spo_streams import PAPER, TURNS, Keys, rows_of
from muntin import JoinSpec, Watermark, Within
from muntin.host.index import SpoJoin
from muntin.host.join import WindowJoin
from muntin.host.predicates import AllOf, Compare
from muntin.host.windows import Rows

Q3 = AllOf(Compare("a", ">", "a"), Compare("b", "<", "b"))  # a trip that is longer and cheaper than another
ELEMENTS = (
    "Elements are partitions of one process: rates are not those of ten machines; rows, messages and pairs are exact"
)


class FullElements:
    """The self join of Q3 over processing elements, its window full.

    Parameters
    ----------
    count : int
    slide : int
        Rows; the window has five, as in the paper's example (section 4.2).
    more : int
        Rows that the window has beside.
    in_step : str
        As of `clusters.Elements`.
    """

    def __init__(self, count: int, slide: int, in_step: str = "counts", form: str = "counts", more: int = 0):
        self.slide, self.window = slide, 5 * slide + more
        self._rng = np.random.default_rng(slide)
        options: dict[str, Any] = {
            "on": Q3, "left": Rows(self.window), "right": Rows(self.window), "self_join": True, "form": form,
            "left_schema": pa.schema({"a": pa.int64(), "b": pa.int64()}),
        }  # fmt: skip
        self._elements: Elements | None = None
        if count > 1:
            self._elements = Elements(count, slide, in_step=in_step, interval=max(slide // 50, 1), **options)
        self.join = self._elements.join if self._elements else WindowJoin(index=SpoJoin(slide=slide), **options)
        self.rows: list[Keys] = []
        while self.arrived < self.window:
            self.step(min(slide // 8 + 1, self.window - self.arrived))

    @property
    def arrived(self) -> int:
        """Rows so far."""
        return sum(len(a) for a, _ in self.rows)

    def step(self, rows: int) -> pa.Table:
        """The result of so many rows more."""
        self.rows.append(rows_of("Q3", rows, self._rng))
        table = pa.table(dict(zip("ab", self.rows[-1], strict=True)))
        return self._elements.process(table) if self._elements else self.join.process(table)

    @property
    def parts(self) -> list[dict]:
        """What each of several elements does, as `Elements.parts` has it."""
        assert self._elements is not None
        return self._elements.parts

    @property
    def messages(self) -> int:
        """As of `Elements`."""
        return self._elements.messages if self._elements else 0


def _slide(scale: Scale) -> int:
    return 400 if scale.quick else 20_000 >> scale.smaller


def _elements(counts: Sequence[int], scale: Scale) -> tuple[dict[int, FullElements], dict[int, Any]]:
    """Runs over so many elements, and of each turn by turn the milliseconds that each element takes for a row, the
    slowest last; a single element's are those of the whole."""
    runs = {count: FullElements(count, _slide(scale)) for count in counts}

    def turn(run: FullElements) -> list[float]:
        several = run.messages > 0
        before = [part["seconds"] for part in run.parts] if several else [0.0]
        done, start, own = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < scale.seconds / TURNS or done < 2:
            run.step(64)
            done += 1
        after = [part["seconds"] for part in run.parts] if several else [time.process_time() - own]
        return sorted((b - a) / done / 64 * 1e3 for a, b in zip(before, after, strict=True))

    found: dict[int, Any] = in_turns({count: partial(turn, run) for count, run in runs.items()}, TURNS)
    return runs, found


def fig_16(scale: Scale) -> Figure:
    """Time that a row takes on the slowest and the fastest element, by nodes of five elements."""
    nodes = (1, 3) if scale.quick else (1, 3, 5, 7, 9)
    runs, found = _elements([5 * count for count in nodes], scale)
    points, most = [], []
    for count, run in runs.items():
        for name, at in (("slowest element", -1), ("fastest element", 0)):
            values = [turn[at] for turn in found[count]]
            points.append({"series": name, "x": count // 5, "y": statistics.median(values), "turns": values})
        most.append(max(part["stored_left"] for part in run.parts))
        run.join.close()
    note = f"An element stores at most {' to '.join(f'{rows:,}' for rows in (most[0], most[-1]))} rows. {ELEMENTS}."
    title = "time of a row by nodes"
    return Figure(PAPER, "16", title, "", "nodes of five elements", "ms", points, log_y=True, note=note)


def fig_17(scale: Scale) -> Figure:
    """Rows a second by elements: what the slowest one can carry, as each has a core of its own in the paper."""
    runs, found = _elements((2, 5) if scale.quick else (2, 5, 10, 20), scale)
    points: list[dict[str, Any]] = []
    for count, run in runs.items():
        values = [1e3 / turn[-1] for turn in found[count]]
        points.append({"series": "what the slowest element carries", "x": count, "y": statistics.median(values)})
        points[-1]["turns"] = values
        parts = run.parts
        points.append({"series": "rows of an element", "x": count, "y": max(part["stored_left"] for part in parts)})
        run.join.close()
    note = f"A row probes all elements here as there; what shrinks is what each looks through. {ELEMENTS}."
    title = "rate by elements"
    return Figure(PAPER, "17", title, "", "elements", "rows/s, and rows", points, log_y=True, note=note)


def _right(run: FullElements, batches: int) -> tuple[int, int]:
    """Of some rows more, those whose pairs are those of a nested loop; and all."""
    right = total = 0
    for _ in range(batches):
        first = run.arrived
        result = run.step(32)
        found = set(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True))
        a, b = (np.concatenate(column) for column in zip(*run.rows, strict=True))
        for row in range(first, run.arrived):
            met = np.arange(max(row - run.window, 0), row)
            due = {(row, int(m)) for m in met[(a[row] > a[met]) & (b[row] < b[met])]}
            due |= {(int(m), row) for m in met[(a[met] > a[row]) & (b[met] < b[row])]}
            right += due == {pair for pair in found if max(pair) == row}
            total += 1
    return right, total


def fig_18(scale: Scale) -> Figure:
    """The share of rows whose result is right, by elements."""
    found = []
    for count in (2, 10) if scale.quick else (10, 20, 30, 40):
        run = FullElements(count, 200, form="pairs")
        right, total = _right(run, 4 if scale.quick else 16)
        found.append({"series": "here", "x": count, "y": 100 * right / total, "rows": total})
        run.join.close()
    claim = (
        "without a hash table 0.3 % of rows are right at 10 elements and 5,000 rows/s, 8 % at 40 and 500 rows/s; 100 % "
        "with it"
    )
    note = "compared with a nested loop. The results of a row's conditions meet in the element that holds the run, by "
    note += f"bits of its own, so that none can overtake another. {ELEMENTS}"
    return Figure(PAPER, "18", "rows whose result is right", claim, "elements", "% of rows", found, note=note)


def _expired(run: FullElements) -> tuple[int, int]:
    """Rows that elements hold and no row may meet, and the pairs that the next 32 rows would have with them."""
    a, b = (np.concatenate(column) for column in zip(*run.rows, strict=True))
    parts, each = run.parts, run.slide // len(run.parts)
    new = rows_of("Q3", 32, np.random.default_rng(run.arrived))
    rows = pairs = 0
    for at, part in enumerate(parts):
        held = np.arange(part["oldest_left"], max(run.arrived - run.window, 0))
        held = held[held // each % len(parts) == at]
        rows += len(held)
        for x, y in zip(*new, strict=True):
            pairs += int(((x > a[held]) & (y < b[held])).sum() + ((a[held] > x) & (b[held] < y)).sum())
    return rows, pairs


def fig_19(scale: Scale) -> Figure:
    """Expired rows that elements hold, by how they learn of the window; and what they cost."""
    found, told, false = [], [], 0
    for slide in (400, 800) if scale.quick else [slide >> scale.smaller for slide in (5000, 10_000, 20_000)]:
        for in_step, name in (("replaced", "replaced runs"), ("counts", "counts, to all"), ("cache", "cache")):
            # An element's own rows tell it of the window's end only where that is a multiple of what all take in turn.
            run = FullElements(4, slide, in_step, more=slide // 3)
            rows, pairs, before = [], [], run.messages
            for _ in range(16):
                run.step(slide // 8 + 1)
                seen = _expired(run)
                rows.append(seen[0])
                pairs.append(seen[1])
            messages = run.messages - before
            found.append({"series": name, "x": slide, "y": statistics.mean(rows), "expired_pairs": pairs})
            told.append(f"{name} {messages:,}")
            false = max(false, *pairs)
            run.join.close()
    right, total = _right(FullElements(4, 200, "replaced", form="pairs"), 16)
    claim = "a cache keeps elements 13 to 94 times nearer to each other than counts sent by the partitioner"
    note = (
        f"messages at the largest slide: {', '.join(told[-3:])}. 32 rows would find up to {false:,} pairs with expired "
        f"rows; as probes carry their limits they find none, and miss none: {right:,} of {total:,} rows are right. "
        f"{ELEMENTS}"
    )
    return Figure(PAPER, "19", "expired rows held", claim, "slide [rows]", "rows", found, note=note)


def fig_wire(scale: Scale) -> Figure:
    """Bytes that elements are sent, and send, which are processes."""
    slide, calls, each = (200, 2, 64) if scale.quick else (4000, 8, 512)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("t", pa.timestamp("us"))])
    window = dt.timedelta(microseconds=5 * slide)
    found, told = [], []
    for count in (2,) if scale.quick else (2, 4, 8):
        rng = np.random.default_rng(slide)
        spec = JoinSpec(
            on=Q3, within=Within("t", "t", -window, window), watermark=Watermark(left="0 s", right="0 s", lag=0),
            index=SpoJoin(slide=slide // count, sub_intervals=1), select=("t", "t_right"),
        )  # fmt: skip
        with Processes(count, spec, schema, dt.timedelta(microseconds=slide // count)) as cluster:
            arrived, pairs = 0, 0
            before = dict.fromkeys(cluster.crossed, 0)
            for call in range(10 + calls):  # ten fill the window
                if call == 10:
                    before, pairs = cluster.crossed, 0
                rows = slide // 2 if call < 10 else each
                times = pa.array(np.arange(arrived, arrived + rows), pa.timestamp("us"))
                table = pa.table([*rows_of("Q3", rows, rng), times], schema)
                pairs += len(cluster.process(table, table))
                arrived += rows
            crossed = {name: value - before[name] for name, value in cluster.crossed.items()}
        for name, way in (("to elements", "in"), ("of results", "out")):
            y = crossed[f"bytes_{way}"] / calls / each
            found.append({"series": name, "x": count, "y": y, "pairs": pairs})
        told.append(f"{(crossed['messages_in'] + crossed['messages_out']) / calls:.0f} to and from {count}")
    note = (
        f"Q3, a window of {5 * slide:,} rows; elements are daemons, and take {slide:,} rows over their number in turn. "
        f"A call of {each} rows takes so many messages: {', '.join(told)}. A row is 24 bytes, a pair 16, in Arrow's "
        "streams. It goes to one element as a left row, and to all as a right one, which they store too, where the "
        "paper stores it on one."
    )
    title = "bytes on the wire by elements"
    return Figure(PAPER, "wire", title, "", "elements", "bytes of a row", found, log_y=True, note=note)
