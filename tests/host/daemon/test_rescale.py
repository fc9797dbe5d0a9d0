"""Windows of a query that goes on with another number of partitions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import muntin.host.daemon.rescale as rescale_module
from muntin import AsOf, Count, JoinSpec, Last, Sum, Watermark, WindowJoin
from muntin.host.cli import main
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.daemon.rescale import rescale
from muntin.host.daemon.windows import Windows, begun_with, query_place, windows_below
from muntin.host.engine.routes import RoutePlanner, RoutingTable
from muntin.host.engine.stateless_placement import EqualityPlacement, FullPlacement, Placement, open_placement
from muntin.host.engines import Partitions
from muntin.host.errors import StateError, StateLostError, StateTakenError, UnsupportedError, WindowError
from muntin.host.join.batch_summary import BatchSummary, summary_of
from muntin.host.join.join_part import JoinPart
from muntin.host.join.summary_part import SummaryPart, places_in
from muntin.host.predicates import AllOf, Band, Compare
from muntin.host.sides import OTHER, SIDES
from muntin.host.state import LocalStore, open_store
from muntin.host.state.tables import KeptTable, keep_part, keep_table
from tests.host.join.test_batch_summary import SCHEMA, WINDOWS, calls_of, content, ranks
from tests.host.state.test_state import bucket
from tests.random_routes import at_random

QUERY = "0-a/join"
ON = AllOf(Compare("k", "=", "k"), Band("t", "t", -60, 60))
PLACED = {
    "equality": Partitions(2, "equality"),
    "ranges": Partitions(2, "ranges", width=7),
    "subwindows": Partitions(2, "subwindows", width=13),
    "content": Partitions(2, "subwindows"),
}


class Query:
    """A query with its windows, as Spark's tasks and daemons have it."""

    def __init__(
        self,
        spec: JoinSpec,
        partitions: Partitions,
        place: Path | str,
        rng: np.random.Generator,
        table: KeptTable | None = None,
    ):
        self.spec, self.rng, self.place, self.table = spec, rng, place, table
        self.placement: Placement | None = None
        if partitions.count > 1 and partitions.by == "equality":
            self.placement = EqualityPlacement(spec, SCHEMA, SCHEMA, partitions.count)
        elif partitions.count > 1:
            self.placement = open_placement(spec, SCHEMA, SCHEMA, partitions)
        self.count = 1 if self.placement is None else self.placement.count
        self.windows = Windows(QUERY, None if self.placement is None else self.placement.name, self.count)
        self.joins = [self.opened(number) for number in range(self.count)]

    def opened(self, number: int) -> JoinPart:
        spec = self.spec if self.placement is None else self.placement.spec(number)
        state = query_place(str(self.place), self.windows.names[number])
        return JoinPart.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA, state=state, table=self.table)

    @property
    def follows(self) -> bool:
        return not isinstance(self.placement, FullPlacement | None) and self.placement.follows

    def split(self, batch: int, tables: list[pa.Table]) -> list[tuple[list[pa.Table], BatchSummary | None]]:
        """What each window is given of a batch, from two senders."""
        if self.placement is None:
            return [(tables, None)]
        routes = None
        if self.follows:
            known = [join.routes(batch, self.count).to_wire() for join in self.joins]
            assert all(each == known[0] for each in known)
            routes = RoutingTable.from_wire(known[0])
        parts: list[dict[str, Any]] = []
        places: list[list[pa.RecordBatch]] = [[] for _ in range(self.count)]
        own: list[list[list[pa.Table]]] = [[[], []] for _ in range(self.count)]
        senders = [self.rng.integers(0, 2, len(rows)) for rows in tables]
        for sender in range(2):
            loads = None
            if routes is not None:
                assert not isinstance(self.placement, FullPlacement)
                loads = self.placement.loads(routes.epoch)
            gathered = SummaryPart(self.spec, SCHEMA, SCHEMA, self.count, loads)
            for at, (side, rows) in enumerate(zip(SIDES, tables, strict=True)):
                for piece in rows.filter(pa.array(senders[at] == sender)).combine_chunks().to_batches():
                    counts = None if loads is None else np.zeros((2, len(loads.rows["divided"])), np.int64)
                    homes, masks = self.placement.targets(side, piece, routes, counts)
                    place = gathered.add(side, piece, homes, counts)
                    for number in range(self.count):
                        own[number][at].append(pa.Table.from_batches([piece.filter(pa.array(masks[number]))]))
                        if place is not None:
                            places[number].append(places_in(place, number, masks[number]))
            parts.append(gathered.to_wire())
        return [
            (
                [pa.concat_tables([SCHEMA.empty_table(), *pieces]) for pieces in own[number]],
                summary_of(parts, places[number], number, placed=self.spec.counted),
            )
            for number in range(self.count)
        ]

    def process(self, batch: int, tables: list[pa.Table], windows: range | None = None) -> list[str]:
        given = self.split(batch, tables)
        results = []
        for number in windows or range(self.count):
            rows, whole = given[number]
            results.append(self.joins[number].process(*self.sent(rows), batch=batch, whole=whole))
        return content(*results)

    def repeat(self, batch: int, tables: list[pa.Table]) -> list[str]:
        given = self.split(batch, tables)
        return content(*(join.repeat(*self.sent(rows)) for join, (rows, _) in zip(self.joins, given, strict=True)))

    def sent(self, rows: list[pa.Table]) -> list[pa.Table | None]:
        return [None if side == self.spec.static else each for side, each in zip(SIDES, rows, strict=True)]

    def close(self) -> None:
        for join in self.joins:
            join.close()


@pytest.mark.parametrize("by", PLACED)
@pytest.mark.parametrize("window", WINDOWS)
@mock.patch.object(RoutePlanner, "_wanted", at_random)
@settings(max_examples=4, deadline=None)
@given(
    how=st.sampled_from(["inner", "left", "right", "left_semi", "left_anti", "full", "closing", "prevailing"]),
    steps=st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from(["repeated", "cut short", "final"])), max_size=2
    ),
    seed=st.integers(0, 2**32),
)
@example("closing", [(3, "repeated"), (1, "cut short")], 0)
@example("prevailing", [(3, "repeated"), (5, "cut short")], 0)
@example("inner", [(1, "cut short")], 0)  # one has let a call go, the other not
@example("full", [(5, "repeated"), (1, "repeated")], 0)  # the windows of one side have let calls go, the others not
def test_as_one_join(
    tmp_path_factory: pytest.TempPathFactory,
    by: str,
    window: str,
    how: str,
    steps: list[tuple[int, str]],
    seed: int,
) -> None:
    """Routes change as fast as they can. Each batch gives what one window gives, through several changes of the number
    of partitions, at each of which the newest batch is final, comes again, or has been joined by some of the windows
    alone."""
    if "within" not in WINDOWS[window] and by == "subwindows":
        return
    if by == "equality" and how == "full":
        return
    if how in ("closing", "prevailing"):
        if "within" not in WINDOWS[window] or (how == "prevailing" and by != "equality"):
            return
        kept = how == "prevailing"
        made = [Count(prevailing=kept, name="rows"), Sum("n"), Last("n", prevailing=kept, within=(-2, 0))]
        options = {"form": "aggregate", "at": "close", "aggregates": made}
        spec = JoinSpec(on=Compare("k", "=", "k") if kept else ON, **WINDOWS[window], **options)
    else:
        spec = JoinSpec(on=ON, **WINDOWS[window], how=how)
    rng = np.random.default_rng(seed)
    calls = calls_of(seed, 4 * (len(steps) + 1))
    if how == "prevailing":  # values that stay away for longer than a window
        calls = [[rows.set_column(0, "k", pa.array(rng.integers(0, 60, len(rows)))) for rows in each] for each in calls]
    one = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    place = tmp_path_factory.mktemp("state")
    query = Query(spec, PLACED[by], place, rng)
    partitions = 2
    for at, tables in enumerate(calls):
        places = ranks(spec, tables)
        ordered = [rows.take(pa.array(np.argsort(each))) for rows, each in zip(tables, places, strict=True)]
        due = content(one.process(*ordered, batch=at))
        if at % 4 or not at:
            assert query.process(at, ordered) == due
            continue
        wanted, end = steps[at // 4 - 1]
        if wanted != partitions:
            if end == "cut short":
                query.process(at, ordered, range(max(1, query.count // 2)) if query.count > 1 else None)
                if query.count == 1:
                    end = "repeated"
            elif end == "repeated":
                assert query.process(at, ordered) == due
            query.close()
            lost = by in ("ranges", "subwindows") and wanted == 1  # rows without a key are in no log
            if lost and spec.counted:
                return
            options = {} if partitions > 1 else {"by": PLACED[by].by, "width": PLACED[by].width}
            done = rescale(str(place), wanted, **options)
            assert done.batch == at - (end != "repeated")
            query = Query(spec, dataclasses.replace(PLACED[by], count=wanted), place, rng)
            assert done.after == query.windows
            partitions = wanted
            if end == "repeated":
                if lost:
                    continue
                assert query.repeat(at, ordered) == due
                continue
        assert query.process(at, ordered) == due
    query.close()


SPEC = JoinSpec(on=ON, **WINDOWS["time"], how="left")


@mock.patch.object(RoutePlanner, "_wanted", at_random)
def test_rows_of_later_times_are_not_left_behind(tmp_path: Path) -> None:
    """Routes do not change before the rows from before the rescaling are out of the window."""
    spec = JoinSpec(on=Compare("k", "=", "k"), **WINDOWS["time"])

    def rows(time: int, count: int = 30) -> pa.Table:
        return pa.table([pa.array(np.arange(count)), *[pa.array(np.full(count, time))] * 3], schema=SCHEMA)

    query = Query(spec, PLACED["equality"], tmp_path, np.random.default_rng(1))
    assert query.process(0, [rows(500), rows(0)]) == []
    for batch in range(1, 12):
        if batch == 3:
            query.close()
            rescale(str(tmp_path), 3)
            query = Query(spec, dataclasses.replace(PLACED["equality"], count=3), tmp_path, np.random.default_rng(1))
        assert len(query.process(batch, [rows(40 * batch), rows(40 * batch)])) == 30
    assert len(query.process(12, [rows(480), rows(500)])) == 60
    assert query.joins[0].routes(13, 3).epoch == 1


@settings(max_examples=8, deadline=None)
@given(
    how=st.sampled_from(["inner", "left", "left_semi", "left_anti"]),
    static=st.sampled_from(SIDES),
    steps=st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_a_stream_that_meets_a_table(
    tmp_path_factory: pytest.TempPathFactory,
    how: str,
    static: str,
    steps: list[tuple[int, bool, bool]],
    seed: int,
) -> None:
    """Each window has all of it; a batch that comes again meets the table of its commit, others that of the start."""
    if static == "left":
        how = {"left": "right", "left_semi": "inner", "left_anti": "right_anti"}.get(how, how)
    spec = JoinSpec(on=AllOf(Compare("k", "=", "k"), Band("t", "t", -5, 9)), how=how, static=static)
    place, rng = str(tmp_path_factory.mktemp("state")), np.random.default_rng(seed)
    tables = [given[0] for given in calls_of(seed % 1000, len(steps) + 1)]
    store = open_store(f"{place}/tables")
    kept = [KeptTable(store.place, keep_table(store, SCHEMA, [keep_part(store, table)[0]])) for table in tables]

    def joined(rows: pa.Table, table: int) -> list[str]:
        sides = {"left_table" if static == "left" else "right_table": tables[table]}
        with WindowJoin(on=spec.on, how=how, left_schema=SCHEMA, right_schema=SCHEMA, **sides) as join:
            return content(join.process(**{OTHER[static]: rows}))

    def rows_of(rows: pa.Table) -> list[pa.Table]:
        return [rows if side != static else SCHEMA.empty_table() for side in SIDES]

    partitions, table = 1, 0
    query = Query(spec, Partitions(1), place, rng, kept[0])
    for batch, (count, changes, again) in enumerate(steps):
        rows = calls_of(seed % 1000 + 1, batch + 1)[batch][0]
        assert query.process(batch, rows_of(rows)) == joined(rows, table)
        query.close()
        if count != partitions:
            rescale(place, count)
        partitions, before = count, table
        table = batch + 1 if changes else table
        query = Query(spec, Partitions(count, "subwindows"), place, rng, kept[table])
        if again:
            assert query.repeat(batch, rows_of(rows)) == joined(rows, before)
    with pytest.raises(UnsupportedError, match="leave --by and --width out"):
        rescale(place, partitions + 1, by="ranges")
    query.close()


def test_what_a_query_began_with(tmp_path: Path) -> None:
    """A state goes on with it alone, in any number of partitions, and says what it is."""
    place, names = str(tmp_path), {"one/join": True, "other/join": False, "third/more": True}

    def opened(name: str, value: bool) -> WindowJoin:
        given = {"left_schema": SCHEMA, "right_schema": SCHEMA, "state": query_place(place, name)}
        return WindowJoin.from_spec(SPEC, **given, fixed={"no_data_batches": value})

    assert begun_with(f"{place}/none", "join") == {}
    for name, value in names.items():
        with opened(name, value) as join:
            join.process(*calls_of(1, 1)[0], batch=0)
        with pytest.raises(StateError, match=f"to a join with no_data_batches={value}, not {not value}: go on"):
            opened(name, not value)
    known = {"one": {"no_data_batches": True}, "other": {"no_data_batches": False}}
    assert begun_with(place, "join") == known
    rescale(place, 2, "one/join", delete_old=True)
    assert begun_with(place, "join") == known
    (commit,) = Path(query_place(place, "other/join")).glob("*.commit")
    commit.write_bytes(b"damaged")
    with pytest.raises(StateError, match=r"\.commit is damaged"):
        begun_with(place, "join")


def fed(place: Path, partitions: Partitions, spec: JoinSpec = SPEC, batches: int = 3) -> Query:
    query = Query(spec, partitions, place, np.random.default_rng(1))
    for batch, tables in enumerate(calls_of(1, batches)):
        query.process(batch, tables)
    return query


def files_of(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_the_command(tmp_path: Path) -> None:
    """There and back, and what it says."""
    query = fed(tmp_path, PLACED["ranges"])
    told = CliRunner().invoke(main, ["rescale", str(tmp_path), "--query", "join", "--partitions", "3"])
    assert told.exit_code == 0, told.output
    assert "0-a/join: 2 windows are 3 now" in told.output
    assert "up to 2; start the query with partitions=3" in told.output
    for name in query.windows.names:
        assert f"may be deleted: {query_place(str(tmp_path), name)}" in told.output
    with pytest.raises(StateTakenError):  # it was not stopped
        query.process(3, calls_of(1, 4)[3])
    with pytest.raises(StateError, match="was rescaled: start the query with partitions=3"):
        query.opened(0)
    told = CliRunner().invoke(main, ["rescale", str(tmp_path), "--partitions", "2", "--delete-old"])
    assert "deleted: " in told.output
    assert told.exit_code == 0, told.output
    assert len(list(tmp_path.iterdir())) == 2
    again = Query(SPEC, PLACED["ranges"], tmp_path, np.random.default_rng(1))
    assert [join.last_batch for join in again.joins] == [2, 2]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no folder"):
        rescale(str(tmp_path / "none"), 3)
    for place in (str(tmp_path), f"file:{tmp_path}"):
        with pytest.raises(StateError, match=r"the state is to be of one join .* there are none"):
            rescale(place, 3)
    fed(tmp_path, PLACED["equality"])
    with pytest.raises(WindowError, match="partitions must be from 1 to 32,768, not 0"):
        rescale(str(tmp_path), 0)
    with pytest.raises(StateError, match=r"query 'other' .* there are '0-a/join'"):
        rescale(str(tmp_path), 3, "other")
    with pytest.raises(StateError, match=r"has 2 partitions in .* already"):
        rescale(str(tmp_path), 2)
    names = Windows(QUERY, "equality-bins", 2).names
    place = Path(query_place(str(tmp_path), names[1]))
    place.rename(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="the partition '0-a/join/equality-bins/1-of-2' is missing"):
        rescale(str(tmp_path), 3, "join")
    (tmp_path / "elsewhere").rename(place)
    for commit in sorted(place.glob("*.commit"))[-2:]:
        commit.unlink()
    for rows in sorted(place.glob("*.rows"))[-2:]:
        rows.unlink()
    with pytest.raises(StateError, match="has batch 2, and another partition none after 0"):
        rescale(str(tmp_path), 3)


def test_other_refusals(tmp_path: Path) -> None:
    full = JoinSpec(on=ON, **WINDOWS["time"], how="full")
    for name in Windows(QUERY, None, 2).names:  # as Spark places rows itself
        WindowJoin.from_spec(
            full, left_schema=SCHEMA, right_schema=SCHEMA, state=query_place(str(tmp_path / "a"), name)
        ).process(*calls_of(1, 1)[0], batch=0)
    with pytest.raises(UnsupportedError, match="Spark's own hash of equal values"):
        rescale(str(tmp_path / "a"), 3)
    fed(tmp_path / "b", PLACED["ranges"], JoinSpec(on=ON, **WINDOWS["count"]))
    known = files_of(tmp_path / "b")
    with pytest.raises(UnsupportedError, match="right rows that are in no partition, as they have no key"):
        rescale(str(tmp_path / "b"), 1)
    assert files_of(tmp_path / "b") == known
    for version in ("equality", "ranges-7"):
        for name in Windows(QUERY, version, 2).names:
            WindowJoin.from_spec(
                SPEC, left_schema=SCHEMA, right_schema=SCHEMA, state=query_place(str(tmp_path / version), name)
            ).process(*calls_of(1, 1)[0], batch=0)
        with pytest.raises(StateError, match="by another version"):
            rescale(str(tmp_path / version), 3)
    fed(tmp_path / "c", PLACED["ranges"])
    fed(tmp_path / "c", dataclasses.replace(PLACED["ranges"], count=3))
    with pytest.raises(StateError, match="windows of 2, 3"):
        rescale(str(tmp_path / "c"), 4)


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("after", [0, 1, 4, 9, 13])
def test_it_fails_and_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, killed: bool) -> None:
    """After so many files. Where its process ends, no window can be opened before it has run again."""
    query = fed(tmp_path, PLACED["equality"])
    query.close()
    known, create, left = files_of(tmp_path), LocalStore.create, [after]

    def create_some(self: LocalStore, *arguments: Any) -> None:
        if not left[0]:
            raise StateError("no space left on device")
        left[0] -= 1
        create(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", create_some)
        if killed:
            patch.setattr(rescale_module, "_clear", lambda store: None)
            patch.setattr(rescale_module, "_revive", lambda store: None)
        with pytest.raises(StateError, match="no space left"):
            rescale(str(tmp_path), 3)
    third = dataclasses.replace(PLACED["equality"], count=3)
    if not killed:
        assert files_of(tmp_path) == known
        assert [query.opened(number).last_batch for number in range(2)] == [2, 2]
    elif after >= 4:
        for each in (third, PLACED["equality"]):
            with pytest.raises(StateError, match=r"not complete|was rescaled"):
                Query(SPEC, each, tmp_path, np.random.default_rng(1))
    assert rescale(str(tmp_path), 3).batch == 2
    assert [join.last_batch for join in Query(SPEC, third, tmp_path, np.random.default_rng(1)).joins] == [2, 2, 2]


def test_a_query_with_another_number_is_told(tmp_path: Path) -> None:
    fed(tmp_path, PLACED["equality"]).close()
    names = Windows(QUERY, "equality-bins", 3).names
    with start_private("cpu", state=str(tmp_path)) as daemon, DaemonClient(daemon.address) as client:
        client.open_query(names[0], SPEC, SCHEMA, SCHEMA, streaming=True)
        for _ in range(2):  # another task of the batch, after the query was closed for the first one
            with pytest.raises(StateLostError, match="windows of 2 partitions are there: see `muntin rescale"):
                list(client.process(names[0], 3, iter([])))
        with pytest.raises(StateLostError, match="windows of 2 partitions are there: see `muntin rescale"):
            client.routes(names[0], 3, 3)
        client.open_query(names[0], SPEC, SCHEMA, SCHEMA, streaming=True)
        assert client.routes(names[0], 0, 3).epoch == 0


def test_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket(monkeypatch) as place:
        spec = JoinSpec(on=ON, **WINDOWS["count"], how="left")
        calls = calls_of(5, 4)
        one = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
        query = Query(spec, PLACED["equality"], place, np.random.default_rng(1))
        for batch, tables in enumerate(calls):
            ordered = [
                rows.take(pa.array(np.argsort(at))) for rows, at in zip(tables, ranks(spec, tables), strict=True)
            ]
            due = content(one.process(*ordered, batch=batch))
            if batch == 2:
                rescale(place, 3, delete_old=True)
                query = Query(spec, dataclasses.replace(PLACED["equality"], count=3), place, np.random.default_rng(1))
            assert query.process(batch, ordered) == due
        assert list(windows_below(place)) == [query.windows]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of(tmp_path: Path, how: str, seed: int) -> None:
    on = AsOf("t", "t", by=("k",), tolerance=20)
    spec = JoinSpec(on=on, watermark=Watermark(left=5, right=10, lag=1, initial=0), how=how)
    one = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    query = Query(spec, PLACED["content"], tmp_path, np.random.default_rng(seed))
    found = 0
    for batch, tables in enumerate(calls_of(seed, 12)):
        # Right rows of one key and time: any of them is right.
        tables[1] = tables[1].set_column(3, "n", pa.array(np.zeros(len(tables[1]), np.int64)))
        tables[1] = tables[1].set_column(2, "s", pa.array(np.zeros(len(tables[1]), np.int64)))
        due = content(one.process(*tables, batch=batch))
        if batch in (4, 8):
            query.close()
            assert rescale(str(tmp_path), batch // 4 + 2).batch == batch - 1
            query = Query(
                spec, dataclasses.replace(PLACED["content"], count=batch // 4 + 2), tmp_path, np.random.default_rng(1)
            )
        assert query.process(batch, tables) == due
        found += len(due)
    assert found > 50
