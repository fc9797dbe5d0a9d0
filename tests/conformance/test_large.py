"""Larger random streams against DuckDB: windows that roll over many times, batches of many sizes."""

import contextlib
import functools
import itertools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from muntin import Compare, JoinSpec, Rows, WindowJoin, Within
from muntin.host.cli import main
from muntin.host.daemon import DaemonClient, Limits
from muntin.host.daemon.daemon import Daemon, FlightOptions
from tests.conformance.predicates import for_host
from tests.oracles.duckdb_oracle import arrival_positions, join

ROWS = 12_000
KINDS = {
    "int32": lambda rng, n: pa.array(rng.integers(-30_000, 30_000, n, dtype=np.int32)),
    "int64": lambda rng, n: pa.array(rng.integers(-(2**63), 2**63 - 1, n) // 10**14 * 10**14),
    "uint64": lambda rng, n: pa.array(rng.integers(0, 2**64 - 1, n, dtype=np.uint64)),
    "float64": lambda rng, n: pa.array(np.round(rng.normal(0, 1000, n), 1)),
    "float32": lambda rng, n: pa.array(np.round(rng.normal(0, 1000, n), 1).astype(np.float32)),
    "skewed": lambda rng, n: pa.array(np.where(rng.random(n) < 0.02, 0, rng.integers(-9999, 9999, n))),
    "rising": lambda rng, n: pa.array(np.arange(n) * 3 + rng.integers(0, 9, n)),
}
BANDS = {"int64": 3 * 10**15, "uint64": 2**50, "float64": 0.3, "float32": 0.3}
LOW, HIGH = -300, 200
"""The time window."""


@dataclass(frozen=True)
class Streams:
    """Two streams in one random arrival order, and the pairs that DuckDB finds."""

    predicate: tuple
    tables: tuple[pa.Table, pa.Table]
    sequence: list[np.ndarray]
    expected: np.ndarray


@functools.cache
def streams_of(kind: str, batch: int, rows: tuple[int, int] | None, seed: int) -> Streams:
    """Streams for one kind of keys; `rows` are the count windows, None: a time window."""
    rng = np.random.default_rng([seed, *kind.encode(), batch])
    count = min(ROWS, 60 * batch)
    keys = [KINDS[kind](rng, n) for n in (count, count * 3 // 4)]
    width = BANDS.get(kind, 3)
    predicate = ("any", [("band", -width, 0), ("band", -width / 2 if width < 1 else 0, width * 2)])
    if rng.random() < 0.5:
        predicate = ("band", -width, 2 * width)
    # Rows of both sides at random places of one sequence; calls are stretches of it.
    places = rng.permutation(sum(map(len, keys)))
    sequence = [np.sort(places[: len(keys[0])]), np.sort(places[len(keys[0]) :])]
    times = [q // 4 + rng.integers(-40, 40, len(q)) for q in sequence]
    tables = tuple(pa.table({"k": k, "t": t, "q": q}) for k, t, q in zip(keys, times, sequence, strict=True))
    one_call = [np.zeros(len(q), np.int64) for q in sequence]
    within = (*times, LOW, HIGH) if rows is None else None
    expected = join(predicate, *keys, *arrival_positions(*one_call, *sequence), rows=rows, within=within)
    return Streams(predicate, tables, sequence, expected)


@pytest.mark.parametrize("index", ["auto", "bisort"], indirect=True)
@pytest.mark.parametrize("batch", [97, 1024, 5000])
@pytest.mark.parametrize("kind", list(KINDS))
def test_against_duckdb(kind, batch, index, device_case, device, seed):
    rows = None if batch == 1024 else (2000, 1111)
    if rows is None and not device_case.time_windows:
        pytest.skip(f"device {device_case.name}: no time windows")
    if rows and device_case.max_window and max(rows) > device_case.max_window:
        rows = (device_case.max_window, device_case.max_window // 2)
    streams = streams_of(kind, batch, rows, seed)
    window = {"left": Rows(rows[0]), "right": Rows(rows[1])} if rows else {"within": Within("t", "t", LOW, HIGH)}
    found = []
    with WindowJoin(
        on=for_host(streams.predicate, "k", "k"),
        **window,
        sequence="q",
        form="pairs",
        order="outer",
        index=index,
        device=device,
        left_schema=streams.tables[0].schema,
        right_schema=streams.tables[1].schema,
    ) as operator:
        last = sum(map(len, streams.sequence))
        for start, stop in itertools.pairwise(range(0, last + 2 * batch, 2 * batch)):
            at = [np.searchsorted(q, [start, stop]) for q in streams.sequence]
            result = operator.process(*(t.slice(a, b - a) for t, (a, b) in zip(streams.tables, at, strict=True)))
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
        assert operator.stats.matches == sum(map(len, found))
    pairs = np.concatenate(found)
    probing = np.maximum(streams.sequence[0][pairs[:, 0]], streams.sequence[1][pairs[:, 1]])
    assert (np.diff(probing) >= 0).all()
    assert len(streams.expected) > 1000
    np.testing.assert_array_equal(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], streams.expected)


@pytest.mark.parametrize("kind", ["rows", "within"])
def test_one_huge_call_equals_many_small_ones(kind, device_case, device, seed):
    """Half a million rows in one call, larger than any step a device takes at once."""
    if device_case.max_window is not None or not device_case.time_windows:
        pytest.skip(f"device {device_case.name} is too small")
    rng = np.random.default_rng(seed)
    count = 520_000
    keys, times = rng.integers(0, 120_000, count), np.arange(count) // 2 + rng.integers(-50, 50, count)
    right = rng.random(count) < 0.5
    window = {
        "rows": {"left": Rows(30_000), "right": Rows(9_000)},
        "within": {"within": Within("t", "t", -9_000, 20_000)},
    }[kind]
    results = []
    for batch in (count, 70_001):
        with WindowJoin(
            on=for_host(("band", 0, 1), "k", "k"), **window, sequence="q", form="pairs", order="inner", device=device
        ) as operator:
            parts = []
            for start in range(0, count, batch):
                at = np.arange(start, min(start + batch, count))
                sides = (at[~right[at]], at[right[at]])
                parts.append(
                    operator.process(*(pa.table({"k": keys[own], "t": times[own], "q": own}) for own in sides))
                )
        results.append(pa.concat_tables(parts).combine_chunks())
    assert results[0].num_rows > 100_000
    assert results[0].equals(results[1])


GIB = 1 << 30


@pytest.mark.full
def test_more_than_2_gib_of_text_in_a_window(tmp_path):
    """1.3 M rows of 2 KiB, through a state: each call's row comes out, again from the state, and by sequence."""
    rows, note = 65536, "x" * 2048
    spec = {"on": Compare("k", "=", "k2"), "left": Rows(2_000_000), "right": Rows(1000), "sequence": "q"}
    with WindowJoin(**spec, state=str(tmp_path)) as join:
        for call in range(20):
            keys = np.arange(call * rows, (call + 1) * rows)
            left = pa.table({"k": keys, "note": pa.array([note] * rows), "q": keys[::-1]})
            found = join.process(left, pa.table({"k2": [call * rows], "q": keys[-1:] + 1}))
            assert found["note"].to_pylist() == [note]
    with WindowJoin(**spec, state=str(tmp_path)) as join:
        assert join.repeat().equals(found)
        wanted = np.arange(0, 20 * rows, rows // 2 + 1)
        again = join.process(None, pa.table({"k2": wanted, "q": np.full(len(wanted), 20 * rows)}))
        assert sorted(again["k"].to_pylist()) == wanted.tolist()
        assert set(again["note"].to_pylist()) == {note}


LARGE = {
    "text": pa.array(["x" * 1_000_000]),
    "bytes": pa.array([b"x" * 1_000_000]),
    "list": pa.array([np.zeros(250_000, np.int32)]),
    "struct": pa.array([{"x": ["x" * 500_000] * 2, "y": 1}]),
    "dictionary": pa.array(["x" * 1_000_000]).dictionary_encode(),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", list(LARGE))
def test_a_result_of_more_than_2_gib(kind):
    """In a call, in blocks, by sequence from an input in chunks, and at the end of an outer join."""
    left = pa.table({"k": [1], "s": LARGE[kind], "q": [0]})
    right = pa.table({"k2": [1] * 2500, "q": [1] * 2500})
    with WindowJoin(on=Compare("k", "=", "k2")) as join:
        assert_large(join.process(left, right)["s"], LARGE[kind])
    with WindowJoin(on=Compare("k", "=", "k2")) as join:
        assert sum(map(len, join.process_blocks(left, right))) == 2500
    many = pa.concat_tables([left] * 2500).set_column(2, "q", pa.array(range(2500, 0, -1)))
    with WindowJoin(on=Compare("k", "=", "k2"), left=Rows(9999), right=Rows(9999), how="left", sequence="q") as join:
        assert len(join.process(many, right.slice(0, 0))) == 0
        assert_large(join.finish()["s"], LARGE[kind])


def assert_large(column, values):
    assert len(column) == 2500
    assert column.num_chunks == (1 if pa.types.is_dictionary(column.type) else 2)
    for chunk in column.chunks:
        chunk.validate(full=True)
        for at in (0, len(chunk) // 2, len(chunk) - 1):
            assert chunk.slice(at, 1).equals(values)


@pytest.mark.full
@pytest.mark.parametrize("address", [0, 1], ids=["unix", "flight"])
def test_a_result_of_more_than_2_gib_from_a_daemon(address, tmp_path):
    spec = JoinSpec(on=Compare("k", "=", "k2"), left=Rows(9), right=Rows(9999))
    left, right = pa.record_batch({"k": [1], "s": LARGE["text"]}), pa.record_batch({"k2": [1] * 2500})
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:  # pytest's is too long for a socket
        daemon = Daemon("cpu", Path(folder) / "d.sock", flight=FlightOptions("127.0.0.1", 0, "t"), limits=Limits())
        ends.callback(daemon.stop)
        client = ends.enter_context(DaemonClient(daemon.addresses[address], "t" if address else None))
        client.open_query("q", spec, left.schema, right.schema, streaming=True, state=str(tmp_path))
        for _ in range(2):
            found = client.process("q", 0, [("left", left), ("right", right)])
            assert sum(batch.num_rows for batch in found) == 2500


@pytest.mark.full
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_result_of_more_than_2_gib_in_a_file(ending, tmp_path):
    """From an input that has more in one batch."""
    left = pa.table({"k": [1] * 2500, "s": pa.chunked_array([LARGE["text"]] * 2500)})
    with pa.ipc.new_stream(tmp_path / "left.arrows", left.schema) as writer:
        writer.write_table(left)
    pyarrow.parquet.write_table(pa.table({"k2": [1]}), tmp_path / "right.parquet")
    files = [str(tmp_path / name) for name in ("left.arrows", "right.parquet", f"out.{ending}")]
    result = CliRunner().invoke(main, ["join", *files[:2], "--on", "k = k2", "-o", files[2]])
    assert result.exit_code == 0, result.output
    assert os.path.getsize(files[2]) > (2 * GIB if ending != "parquet" else 0)
    assert "2,500 matches" in result.output
