"""What a join takes on 8 to 64 machines, and what it sends over the network: a model, fitted to measured work.

``python -m bench.cluster_model`` runs in this process what Spark's tasks and daemons run, without Spark: the send stage
(`JoinTask.send`), and for each partition its daemon's part (decoding, `WindowJoin` with a state, encoding the result).
It counts rows, pairs and bytes, and takes processor time. Times are fitted as linear functions of the counts, without
the runs of 4 partitions, and tested on those. For more machines rows are placed by the same code; times come from the
fit. Windows grow with the machines, and a row meets about one row on any number of them.

A micro-batch takes the time of its two stages, as Spark has a barrier between them. Each takes as long as what it has
least of: cores, a machine's network in one direction, or the one core of the busiest partition.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import click
import matplotlib
import numpy as np
import pyarrow as pa
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt

import muntin.pyspark_bridge.join_task
from bench.machine import describe_machine
from muntin import AllOf, Band, Compare, JoinSpec, Watermark, Within
from muntin.host.daemon.rows import cut, decode, encode, encode_within
from muntin.host.daemon.staging import Part, PartKey, Sender
from muntin.host.daemon.unix_client import BYTES_OF_A_FRAME, ROWS_OF_A_FRAME
from muntin.host.engine.balance import UNEVEN
from muntin.host.engine.routes import RoutingTable, even_table, no_counts
from muntin.host.engine.stateless_placement import EqualityPlacement, StatelessPlacement, open_placement
from muntin.host.engines import Partitions
from muntin.host.join.join_part import JoinPart
from muntin.host.join.summary_part import SummaryPart
from muntin.host.sides import SIDES, Side
from muntin.pyspark_bridge.join_task import JoinTask

PLACEMENTS = ("equality", "ranges", "subwindows")
UNIFORM, HEAVY, WIDE = "uniform", "half of one key", "wide rows"
COUNTS, TESTED = (1, 2, 4, 8), 4
WINDOW = MEASURED = 4  # micro-batches
SETTLED = 4  # windows, after which routes that follow a heavy key change no more
ROWS_OF_SPARK = 10_000  # of a batch that Spark hands to Python
_SPAN = 1 << 20
COUNTED = ("rows", "pairs", "in_bytes", "out_bytes", "state_bytes", "join_s")


@dataclasses.dataclass(frozen=True)
class Case:
    """A join by one of `PLACEMENTS`, of keys that are equal or in a band, and of values in another band; its rows, with
    `batch` rows of a side in a micro-batch."""

    by: str
    data: str
    batch: int

    @property
    def spec(self) -> JoinSpec:
        key = Compare("k", "=", "k") if self.by == "equality" else Band("k", "k", -4, 4)
        reach = _SPAN // (self.batch * WINDOW) if self.data == HEAVY else _SPAN
        span = dt.timedelta(microseconds=self.batch * WINDOW)
        values, within = Band("v", "v", -reach, reach), Within("t", "t", -span, span)
        return JoinSpec(on=AllOf(key, values), within=within, watermark=Watermark(left="0 s", right="0 s", lag=0))

    def rows(self, side: Side, number: int) -> pa.RecordBatch:
        """The rows of a side of a micro-batch."""
        rng = np.random.default_rng([number, SIDES.index(side)])
        keys = rng.integers(0, self.batch * WINDOW * (1 if self.by == "equality" else 8), self.batch)
        if self.data == HEAVY:
            keys = np.where(rng.random(self.batch) < 0.5, 7, keys)
        at = number * self.batch + np.arange(self.batch)
        columns = {"k": keys, "v": rng.integers(0, _SPAN, self.batch), "t": pa.array(at, pa.timestamp("us")), "id": at}
        if self.data == WIDE:
            columns["s"] = pa.array([f"{row:0100d}" for row in at])
        return pa.RecordBatch.from_pydict(columns)

    @property
    def schema(self) -> pa.Schema:
        return dataclasses.replace(self, batch=1).rows("left", 0).schema

    def placed(self, given: list[tuple[Side, pa.RecordBatch]], count: int) -> list[np.ndarray]:
        """Of rows of both sides those that each partition is sent, bool, shape (partitions, n): by the routes that
        follow from them."""
        if count == 1:
            return [np.ones((1, rows.num_rows), np.bool_) for _, rows in given]
        placement = _placement(self, count)
        if not placement.follows:
            return [placement.targets(side, rows)[1] for side, rows in given]
        part = SummaryPart(self.spec, self.schema, self.schema, count, loads := placement.loads(0))
        for side, rows in given:
            placement.targets(side, rows, None, counts := no_counts(count))
            part.add(side, rows, None, counts)
        table = even_table(count)
        routes = RoutingTable(0, loads.better(table) if loads.unevenness(table) > UNEVEN else table)
        return [placement.targets(side, rows, routes)[1] for side, rows in given]


def tagged(side: Side, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows as Spark hands them to the send stage, where both sides have columns of the same types."""
    for start in range(0, rows.num_rows, ROWS_OF_SPARK):
        some = rows.slice(start, ROWS_OF_SPARK)
        nulls = [pa.nulls(some.num_rows, field.type) for field in some.schema]
        columns = [*some.columns, *nulls] if side == "left" else [*nulls, *some.columns]
        names = ["side", *(f"{letter}{at}" for letter in "lr" for at in range(some.num_columns))]
        sides = pa.array(np.full(some.num_rows, SIDES.index(side), np.int8))
        yield pa.RecordBatch.from_arrays([sides, *columns], names=names)


@cache
def _placement(case: Case, count: int) -> EqualityPlacement | StatelessPlacement:
    if case.by == "equality":
        return EqualityPlacement(case.spec, case.schema, case.schema, count)
    found = open_placement(case.spec, case.schema, case.schema, Partitions(count, case.by))
    assert isinstance(found, StatelessPlacement)
    return found


class _Wire:
    """In the place of a daemon's client: keeps what a task would send to one partition."""

    def __init__(self, routes: Callable[[], RoutingTable]) -> None:
        self._routes = routes
        self.bodies: list[tuple[str, pa.Buffer]] = []
        self.call: dict[str, Any] = {}

    def __enter__(self) -> _Wire:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open_query(self, *_: object, **__: object) -> None:
        pass

    def routes(self, *_: object) -> RoutingTable:
        return self._routes()

    def stage(self, name: str, batch: int, rows: Iterator, part: Callable[[], tuple[PartKey, dict]], **_: str) -> None:
        for side, each in rows:
            for piece in cut([each], ROWS_OF_A_FRAME, BYTES_OF_A_FRAME):
                bodies = encode_within([piece], 1 << 30)
                self.bodies += [(side, pa.py_buffer(b"".join(body.parts))) for _, body in bodies]
        self.call = part()[1]


def measure(case: Case, count: int) -> dict[str, Any]:
    """The work of a micro-batch with so many partitions: means, and medians of times.

    Returns
    -------
    dict
        ``send_s``: processor time of the send stage; ``read``: rows of both sides. Lists of one for each partition:
        ``rows`` that it is sent (each is stored, and probes), ``pairs``, ``in_bytes``, ``out_bytes``, ``state_bytes``,
        ``join_s``. ``result``: the rows of all measured micro-batches.
    """
    schema = case.schema
    packed = schema.serialize().to_pybytes()
    task = JoinTask(
        address="", token=None, tls_ca=None, private=False, join="", named=True, instance="", spec=case.spec.to_json(),
        left_schema=packed, right_schema=packed, streaming=True, partitions=count, by=case.by,
    )  # fmt: skip
    found: list[np.ndarray] = []
    sending, results = [], []
    wires: list[_Wire] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        ends.enter_context(mock.patch.object(muntin.pyspark_bridge.join_task, "_partition", return_value=0))
        ends.enter_context(mock.patch.object(JoinTask, "_identity", return_value=("model", 0, "")))
        ends.enter_context(mock.patch.object(JoinTask, "_client", lambda _, at, *__, **___: wires[at]))
        schemas = {"left_schema": schema, "right_schema": schema}
        joins: list[Any] = []  # of `JoinPart`
        for at in range(count):
            join = JoinPart.from_spec(case.spec, device="cpu:threads=1", **schemas, state=f"{folder}/{at}")
            joins.append(ends.enter_context(join))
        before = WINDOW * (SETTLED if case.data == HEAVY else 1)
        for number in range(before + MEASURED):
            batches = [each for side in SIDES for each in tagged(side, case.rows(side, number))]
            wires[:] = [_Wire(partial(joins[0].routes, number, count)) for _ in range(count)]
            begun = time.process_time()
            list(task.send(iter(batches)))
            sending.append(time.process_time() - begun)
            found.append(np.zeros((len(COUNTED), count)))
            for at, (join, wire) in enumerate(zip(joins, wires, strict=True)):
                known = _files(f"{folder}/{at}")
                begun = time.process_time()
                decoded = [(side, batch) for side, body in wire.bodies for batch in decode(body)]
                left, right = (pa.Table.from_batches([b for of, b in decoded if of == side], schema) for side in SIDES)
                part = Part(left, right, [], wire.call, Sender(), 0, 0.0)
                table = join.process(left, right, batch=number, whole=part.whole([part], counted=False))
                out = [encode([piece]) for piece in cut(table.to_batches(), ROWS_OF_A_FRAME, BYTES_OF_A_FRAME)]
                spent = time.process_time() - begun
                if number >= before:
                    sizes = [sum(body.size for body in bodies) for bodies in ((b for _, b in wire.bodies), out)]
                    written = sum(size for _, size in _files(f"{folder}/{at}") - known)
                    found[-1][:, at] = len(left) + len(right), len(table), *sizes, written, spent
                    results.append(table)
    means = dict(zip(COUNTED, np.mean(found[before:], axis=0).tolist(), strict=True))
    means["join_s"] = np.median(found[before:], axis=0)[-1].tolist()
    more = {"send_s": float(np.median(sending[before:])), "read": 2 * case.batch, "result": pa.concat_tables(results)}
    return {"by": case.by, "data": case.data, "partitions": count, **means, **more}


def _files(folder: str) -> set[tuple[str, int]]:
    """Files and their bytes."""
    return {(str(path), path.stat().st_size) for path in Path(folder).rglob("*") if path.is_file()}


@dataclasses.dataclass(frozen=True)
class Fit:
    """Processor time as a linear function: `seconds` of each of what is named. Relative errors: the median of what was
    fitted, and the greatest of what was not."""

    names: tuple[str, ...]
    seconds: list[float]
    error: float
    tested: float

    @classmethod
    def of(cls, names: tuple[str, ...], points: list[tuple[float, ...]]) -> Fit:
        """Least squares of relative errors. Of each point: how many of each there were, seconds, and whether it is kept
        for the test. Nothing takes less than no time."""
        values = np.array(points, float)
        scaled, tested = values[:, :-2] / values[:, -2:-1], values[:, -1].astype(np.bool_)
        used, costs = np.ones(len(names), np.bool_), np.full(len(names), -1.0)
        while (costs < 0).any():
            costs = np.zeros(len(names))
            costs[used] = np.linalg.lstsq(scaled[~tested][:, used], np.ones((~tested).sum()), rcond=None)[0]
            used &= costs > 0
        errors = np.abs(scaled @ costs - 1)
        return cls(names, costs.tolist(), float(np.median(errors[~tested])), float(errors[tested].max(initial=0)))

    def __str__(self) -> str:
        costs = [f"{1e9 * cost:,.3g} ns x {name}" for cost, name in zip(self.seconds, self.names, strict=True) if cost]
        return f"{' + '.join(costs)}; median error {self.error:.0%}, at {TESTED} partitions at most {self.tested:.0%}"


def fitted(runs: list[dict[str, Any]]) -> tuple[Fit, Fit]:
    """The costs of the send stage, and of a partition."""
    sends: list[tuple[float, ...]] = []
    joins: list[tuple[float, ...]] = []
    for run in runs:
        tested, count = run["partitions"] == TESTED, run["partitions"]
        ranged = run["read"] * (run["by"] == "ranges" and count > 1)
        sends.append((run["read"], ranged, count * run["read"], sum(run["in_bytes"]), run["send_s"], tested))
        for rows, pairs, into, out, _, spent in zip(*(run[name] for name in COUNTED), strict=True):
            joins.append((1, rows, pairs, into + out, spent, tested))
    return (
        Fit.of(("row read", "row placed by ranges", "row read and partition", "byte sent"), sends),
        Fit.of(("micro-batch", "row stored and probing", "pair", "byte in or out"), joins),
    )


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Machines that are alike: cores, Gbit/s each way, partitions and input rows of a micro-batch of each, and the
    microseconds of a core that Spark takes for a row by itself."""

    cores: int
    gbit: float
    partitions: int
    batch: int
    spark: float


def predict(case: Case, one: dict[str, Any], fits: tuple[Fit, Fit], cluster: Cluster, machines: int) -> dict[str, Any]:
    """A micro-batch on a number of machines; `one` is what `measure` gave for one partition."""
    count, total = machines * cluster.partitions, machines * cluster.batch
    scale = total / (one["read"] * MEASURED)
    given = [(side, case.rows(side, WINDOW + at)) for side in SIDES for at in range(MEASURED)]
    matched = one["result"].select(case.schema.names).combine_chunks().to_batches()
    # A pair is found where its left row is divided, or its right one; the matches of the heavy key are spread evenly.
    masks = case.placed([*given, *(("left", each) for each in matched)], count)
    rows = scale * sum(mask.sum(axis=1) for mask in masks[: len(given)])
    pairs = scale * sum((mask / mask.sum(axis=0)).sum(axis=1) for mask in masks[len(given) :])
    into, out = rows * one["in_bytes"][0] / one["rows"][0], pairs * one["out_bytes"][0] / max(one["pairs"][0], 1)
    ranged = total * (case.by == "ranges" and count > 1)
    send = float(np.dot(fits[0].seconds, [total, ranged, count * total, into.sum()]))
    join = np.stack([np.ones(count), rows, pairs, into + out], axis=1) @ np.array(fits[1].seconds)
    keys = count * count * machines * cluster.cores  # each task of the second stage names all parts to all partitions
    named, naming = (keys * each / machines for each in _key())
    away, speed = (machines - 1) / machines, cluster.gbit * 1e9 / 8

    def busiest(of: np.ndarray) -> float:  # machine; partitions go to them in turn
        return float(of.reshape(-1, machines).sum(axis=0).max())

    stages = (
        {
            "cores": (cluster.spark * 1e-6 * total + send) / (machines * cluster.cores),
            "network in": away * busiest(into) / speed,
            "network out": away * into.sum() / machines / speed,
        },
        {
            "cores": (busiest(join) + naming) / cluster.cores,
            "one partition": float(join.max()),
            "network in": away * named / speed,
            "network out": away * (busiest(out) + named) / speed,
        },
    )
    took = [max(stage.items(), key=lambda item: item[1]) for stage in stages]
    return {
        "by": case.by, "data": case.data, "machines": machines, "partitions": count,
        "rows_per_s": total / sum(seconds for _, seconds in took), "bound": max(took, key=lambda item: item[1])[0],
        "stages_s": [seconds for _, seconds in took], "busiest": float(join.max() / join.mean()),
        "bytes_per_row": float(away * (into.sum() + out.sum() + machines * named) / total),
    }  # fmt: skip


@cache
def _key() -> tuple[float, float]:
    """Bytes of what a part is known by, as it is named to a daemon, and seconds to write and read it."""
    begun = time.process_time()
    text = json.dumps([[at, 123_456, (1 << 62) + at] for at in range(4096)])
    keys = [PartKey(*key) for key in json.loads(text)]
    return len(text) / len(keys), (time.process_time() - begun) / len(keys)


def draw(predicted: list[dict[str, Any]], path: Path) -> None:
    """Rows a second and bytes a row over the machines."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    titles = ("million input rows/s", "bytes over the network for an input row")
    for axis, name, unit, title in zip(axes, ("rows_per_s", "bytes_per_row"), (1e6, 1), titles, strict=True):
        for colour, by in zip(("#2f6db3", "#e08a2e", "#4a9a5a"), PLACEMENTS, strict=True):
            for data, line in ((UNIFORM, "o-"), (HEAVY, "s--")):
                points = [p for p in predicted if (p["by"], p["data"]) == (by, data) and p["machines"] > 1]
                values = [point[name] / unit for point in points]
                axis.plot([p["machines"] for p in points], values, line, color=colour, label=f"{by}, {data}", ms=4)
        axis.set(xscale="log", yscale="log", xlabel="machines")
        axis.set_xticks([8, 16, 32, 64], ["8", "16", "32", "64"])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_title(title, fontsize=9)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


@click.command(context_settings={"max_content_width": 110})
@click.option("--rows", type=click.IntRange(64), default=1 << 15, show_default=True, help="Measured, a side and batch.")
@click.option("--cores", type=click.IntRange(1), default=8, show_default=True, help="Of a machine.")
@click.option("--gbit", type=float, default=10.0, show_default=True, help="Of a machine's network, each way.")
@click.option("--partitions", type=click.IntRange(1, 4), default=2, show_default=True, help="Of a machine.")
@click.option("--batch", type=int, default=1 << 20, show_default=True, help="Rows of a micro-batch for each machine.")
@click.option("--spark", type=float, default=6.0, show_default=True, help="Spark's own time for a row, in core-us.")
@click.option("--json", "out", type=click.Path(path_type=Path), default=Path("build/bench/cluster_model.json"))
@click.option("--plot", type=click.Path(path_type=Path), default=Path("build/bench/cluster_model.png"))
def main(rows: int, out: Path, plot: Path, **given: Any) -> None:
    """Fit what a join takes to work that is measured here, and predict it for 8 to 64 machines."""
    console, cluster = Console(width=None if Console().is_terminal else 150), Cluster(**given)

    def show(title: str, heads: str, lines: list[list[str]]) -> None:
        table = Table(*heads.split(" | "), title=title, title_justify="left")
        for line in lines:
            table.add_row(*line)
        console.print(table)

    cases = [Case(by, data, rows) for data in (UNIFORM, HEAVY, WIDE) for by in PLACEMENTS]
    runs = {(case, count): measure(case, count) for case in cases for count in COUNTS}
    names = ("rows", "pairs", "in_bytes", "out_bytes", "state_bytes")
    lines, balance = [], []
    for (case, count), run in runs.items():
        per_row = [f"{np.sum(run[name]) / run['read']:.{2 if at < 2 else 0}f}" for at, name in enumerate(names)]
        times = [f"{1e9 * np.sum(run[name]) / run['read']:,.0f}" for name in ("send_s", "join_s")]
        lines.append([case.data, case.by, str(count), *per_row, *times])
        if count == TESTED:
            balance.append([case.data, case.by, *(f"{max(run[n]) / np.mean(run[n]):.2f}" for n in (*names, "join_s"))])
    heads = "rows | by | P | stored and probing | pairs | bytes in | bytes out | bytes of state | send, ns | join, ns"
    show(f"measured, for each of {2 * rows:,} input rows of a micro-batch", heads, lines)
    heads = "rows | by | stored and probing | pairs | bytes in | bytes out | bytes of state | join time"
    show(f"balance of {TESTED} partitions: the most over the mean", heads, balance)
    fits = fitted(list(runs.values()))
    for name, fit in zip(("send stage", "partition"), fits, strict=True):
        console.print(f"{name}: {fit}")
    predicted = []
    for case in cases:
        points = [predict(case, runs[case, 1], fits, cluster, machines) for machines in (1, 8, 16, 32, 64)]
        for point in points if case.data != WIDE else ():
            share = point["rows_per_s"] / (point["machines"] * points[0]["rows_per_s"])
            predicted.append(point | {"efficiency": share})
    lines = [
        [p["data"], p["by"], f"{p['machines']}", f"{p['partitions']}", f"{p['rows_per_s'] / 1e6:.1f} M", p["bound"],
         f"{p['efficiency']:.0%}", f"{p['bytes_per_row']:,.0f}", f"{p['busiest']:.1f}"]
        for p in predicted
    ]  # fmt: skip
    title = (
        f"predicted: {cluster.cores} cores, {cluster.gbit:g} Gbit/s each way, {cluster.partitions} partitions and "
        f"{cluster.batch:,} rows of a micro-batch a machine, {cluster.spark:g} us of a core for a row in Spark itself"
    )
    heads = "rows | by | machines | P | input rows/s | bound by | efficiency | bytes sent a row | busiest over mean"
    show(title, heads, lines)
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [{name: value for name, value in run.items() if name != "result"} for run in runs.values()]
    made = {"rows": rows, "cluster": dataclasses.asdict(cluster), "fits": [dataclasses.asdict(fit) for fit in fits]}
    out.write_text(json.dumps({**describe_machine(), **made, "runs": kept, "predicted": predicted}, indent=1))
    draw(predicted, plot)
    console.print(f"drawn in {plot}, figures in {out}")


if __name__ == "__main__":
    main()
