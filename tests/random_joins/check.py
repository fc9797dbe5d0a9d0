"""Runs a case, and compares all that comes out with the nested loop, call by call."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import re
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin import WindowJoin
from muntin.errors import (
    CapacityError,
    DeviceError,
    KeyTypeError,
    MuntinError,
    OrderError,
    PredicateError,
    SchemaError,
    SumOverflowError,
    UnsupportedError,
    WindowError,
)
from muntin.hardware import open_device
from muntin.host.daemon import DaemonClient, Limits
from muntin.host.daemon.daemon import Daemon
from muntin.index import RangeMirror
from tests.oracles.aggregates import NUMBER, assert_same, numbered
from tests.oracles.as_of import AsOfLoop
from tests.oracles.nested_loop import NestedLoop, Pair
from tests.random_joins import values
from tests.random_joins.case import Call, Case, Part

#: What may be said of a join or its rows. Any other error is a fault.
REFUSALS = (
    *(PredicateError, WindowError, SchemaError, KeyTypeError, OrderError, UnsupportedError, CapacityError),
    SumOverflowError,
)
SIDES = ("left", "right")
#: Ways that give what several calls give as one result, in another order.
AS_ONE = ("request", "shell", "spark")
Numbers = list[tuple[int | None, int | None]]


class WrongError(AssertionError):
    """A result is not the nested loop's."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes
    ----------
    verdict : str
        ``"right"``, ``"refused"``, ``"wrong"`` or ``"failed"``.
    text : str
        Why, where it is not right.
    kind : str
        Of the text what cases of one cause have in common.
    pairs : int
        Rows that came out.
    """

    verdict: str
    text: str = ""
    kind: str = ""
    pairs: int = 0

    @property
    def fault(self) -> bool:
        return self.verdict in ("wrong", "failed")


def run(case: Case) -> Outcome:
    """The outcome of a case; raises nothing."""
    checker = None
    try:
        checker = Checker(case)
        checker.run()
    except WrongError as error:
        return Outcome("wrong", str(error), f"wrong {case.options['form']} {case.options['how']}")
    except REFUSALS as error:
        if not isinstance(error, MuntinError) or " failed: " in str(error):
            return Outcome("failed", _traced(error), _kind(error))
        return Outcome("refused", str(error), _kind(error), 0 if checker is None else checker.found)
    except Exception as error:  # any other is a fault
        return Outcome("failed", _traced(error), _kind(error))
    return Outcome("right", pairs=checker.found)


def _traced(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _kind(error: BaseException) -> str:
    """An error without its names and numbers."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\b(Band|Compare|AnyOf|AllOf|AsOf|Where)\(.*\)", "…", str(error))
    text = re.sub(r"-?\b\d[\d,.]*(e[+-]?\d+)?\b", "n", text)
    text = re.sub(
        r"\b(u?int|float|half|double|decimal\d*|string|binary|timestamp|date|duration|time|bool|dictionary|struct|large"
        r"|null|fixed_size_binary)\w*(\[[^\]]*\]|<.*>|\([^)]*\))?",
        "T",
        text,
    )
    return f"{type(error).__name__}: {text[:160]}"


class Checker:
    """Runs one case.

    Parameters
    ----------
    case : Case

    Attributes
    ----------
    found : int
        Rows that came out.
    """

    def __init__(self, case: Case):
        self.case = case
        self.found = 0
        self.form, self.how = case.options["form"], case.options["how"]
        self.order = case.options.get("order", "none")
        self.rows: dict[str, list[tuple[Any, ...]]] = {side: [] for side in SIDES}  # by arrival number
        self.numbers: dict[str, dict[int, int]] = {side: {} for side in SIDES}  # by id
        self.schemas = dict(zip(SIDES, case.schemas, strict=True))
        self.paired = self.form in ("rows", "pairs")
        self.left_alone = self.how in ("left_semi", "left_anti")

    def run(self) -> None:
        """Raises WrongError where a result is wrong, and what the join raises."""
        case = self.case
        spec = case.spec()  # what cannot be said is refused here, before any way
        self.spec = spec
        self.loop: Any = self._as_of_loop() if case.as_of is not None else self._loop()
        self.mirror = None
        if self.form == "ranges":
            self.mirror = RangeMirror(spec, *case.schemas)
        ways = {
            "state": _with_state,
            "stream": _by_daemon,
            "request": _by_daemon,
            "shell": _in_shell,
            "spark": _in_spark,
        }
        way = ways.get(case.way.name, _in_process)
        calls, number = _calls(case), 0
        with contextlib.closing(way(case, self)) as results:
            for kind, tables in results:
                if kind == "again":
                    self._same(tables, f"repeat() of call {number - 1}")
                    continue
                end = kind == "end"
                if kind == "all":
                    due = [pair for call in calls for pair in self._due(call)] + self._rest()
                    self.before = dict.fromkeys(SIDES, 0)
                elif end:
                    due = self._rest()
                else:
                    due = self._due(calls[number])
                self._compare(tables, due, "finish()" if end else f"call {number}", ended=kind != "call")
                number += 1

    # What is due

    def _loop(self) -> NestedLoop:
        case = self.case
        left, right = case.sides
        within = None
        if case.within is not None:
            left_time, right_time, low, high = case.within
            within = left_time, right_time, low.exact, high.exact
        delays, more = (None, None), {}
        if case.delays is not None:
            delays = tuple(delay.given for delay in case.delays)
            delays = delays[:1] * 2 if case.self_join else delays
            more = {"lag": case.watermark["lag"], "watermark_policy": case.watermark["policy"]}
        options = case.options
        return NestedLoop(
            ("all", [part.oracle(left, right) for part in case.parts]), left, right, rows=case.rows, within=within,
            sequence=options.get("sequence"), delays=delays, self_join=case.self_join,
            itself=options.get("itself", False), how=self.how, **more,
        )  # fmt: skip

    def _as_of_loop(self) -> AsOfLoop:
        about, case = self.case.as_of, self.case
        assert about is not None
        times = [schema.field(about[f"{side}_time"]).type for side, schema in self.schemas.items()]
        more: dict[str, Any] = {}
        if case.delays is not None:
            more = {
                "delays": tuple(delay.exact for delay in case.delays),
                "lag": case.watermark["lag"],
                "policy": case.watermark["policy"],
                "tick": 10**6 if any(values.is_temporal(kind) for kind in times) else 1,
                "resolution": min(values.unit(kind) for kind in times),
            }
        return AsOfLoop(
            about["left_time"], about["right_time"], list(about["by"]), about["direction"], about["tolerance"].exact,
            about["exact"], how=self.how, sequence=case.options.get("sequence"),
            where=[self._test(part) for part in about["where"]], **more,
        )  # fmt: skip

    def _test(self, part: Part) -> tuple[str, str, Callable[[Any], bool]]:
        """A part about one side as its side, column, and what it asks of an exact value."""
        names = [part.left], [part.right]
        _, side, _, test = part.oracle(*names)
        return side, names[SIDES.index(side)][0], test

    def _due(self, call: Call) -> list[Any]:
        """What comes out of a call: pairs of row numbers, or what the form has in their place."""
        self._arrive(call)
        if isinstance(self.loop, AsOfLoop):
            return self.loop.process(list(call))
        self.pairs = self.loop.process_pushes(list(call))
        if self.paired:
            return self.loop.results(self.pairs)
        return self.pairs

    def _rest(self) -> list[Any]:
        if isinstance(self.loop, AsOfLoop):
            return self.loop.finish()
        return self.loop.finish() if self.paired else []

    def _arrive(self, call: Call) -> None:
        """Numbers the rows of a call in the order of their arrival."""
        self.before = {side: len(rows) for side, rows in self.rows.items()}
        sequence = self.case.options.get("sequence")
        for at, side in enumerate(SIDES):
            tables = [push[0 if self.case.self_join else at] for push in call]
            columns: list[list[Any]] = [[] for _ in self.schemas[side]]
            for table in tables:
                for values_, column in zip(columns, table.columns if table is not None else (), strict=False):
                    values_.extend(values.plain(column))
            rows = list(zip(*columns, strict=True))
            if sequence is not None:
                place = self.schemas[side].get_field_index(sequence)
                rows.sort(key=lambda row: row[place])
            identity = self.schemas[side].get_field_index("id")
            for row in rows:
                self.numbers[side][row[identity]] = len(self.rows[side])
                self.rows[side].append(row)

    # What came

    def _compare(self, tables: list[pa.Table], due: list[Any], place: str, *, ended: bool) -> None:
        for table in tables:
            table.validate(full=True)
        self.tables, self.last = tables, due
        self.found += sum(map(len, tables))
        if place == "finish()" and not self.paired and self.spec.at == "arrival":
            if any(map(len, tables)):
                raise WrongError(f"{place} gives rows, {tables}")
        elif self.form == "counts":
            self._counts(tables, due, place)
        elif self.form == "aggregate":
            self._aggregates(tables, due, place, ended=ended)
        elif self.form == "ranges":
            _multiset([pair for table in tables for pair in _row_numbers(table)], _numbers(due), place)
        else:
            found = self._found(tables)
            _multiset(found, due, place)
            if self.case.way.name not in AS_ONE:
                self._in_order(found, due, place)

    def _same(self, tables: list[pa.Table], place: str) -> None:
        """What is repeated is what came, the order of rows aside."""
        if self.paired:
            _multiset(self._found(tables), self.last, place)
            return
        again, before = (Counter(repr(row) for table in each for row in _rows(table)) for each in (tables, self.tables))
        if again != before:
            raise WrongError(f"{place} gives {again - before} in place of {before - again}")

    def _found(self, tables: list[pa.Table]) -> Numbers:
        """The rows that came out as row numbers; raises where the values of a row are not those that came in."""
        if self.form == "pairs":
            return [pair for table in tables for pair in _row_numbers(table)]
        found: Numbers = []
        names = self._names()
        for table in tables:
            if table.column_names != [name for _, _, name in names]:
                raise WrongError(f"the result has the columns {table.column_names}, not {[n for _, _, n in names]}")
            columns = {}
            for side, at, name in names:
                kind = self.schemas[side].field(at).type
                if table.schema.field(name).type != kind:
                    raise WrongError(f"column {name} has type {table.schema.field(name).type}, not {kind}")
                columns[side, at] = values.plain(table[name])
            own = {side: self.schemas[side].get_field_index("id") for side in SIDES}
            ids = {side: columns.get((side, own[side]), [None] * len(table)) for side in SIDES}
            for row, pair in enumerate(zip(ids["left"], ids["right"], strict=True)):
                numbers = [
                    None if each is None else self.numbers[side][each] for side, each in zip(SIDES, pair, strict=True)
                ]
                for side, number in zip(SIDES, numbers, strict=True):
                    mine = [column[row] for (of, _), column in columns.items() if of == side]
                    given = [None] * len(mine) if number is None else list(self.rows[side][number])
                    if mine != given and mine:
                        raise WrongError(f"a {side} row came out as {mine}, and had come as {given}")
                found.append((numbers[0], numbers[1]))
        return found

    def check_late(self, join: WindowJoin) -> None:
        """Raises WrongError where the late rows of the newest call are others, if they are kept."""
        if join.spec.late == "drop" or isinstance(self.loop, AsOfLoop):
            return
        for side, table in join.late.items():
            new = self.loop.streams[side].rows[self.before[side] :]
            due = [self.rows[side][row.number] for row in new if row.late]
            found = list(zip(*map(values.plain, table.columns), strict=True))
            if repr(found) != repr(due) or table.schema.types != self.schemas[side].types:
                raise WrongError(f"late {side} rows come as {found} of {table.schema.types}, and had come as {due}")

    def _names(self) -> list[tuple[str, int, str]]:
        """Side, place and name of each column of a result of rows."""
        suffix = self.case.options.get("suffix", "_right")
        left, right = (schema.names for schema in self.case.schemas)
        names = [("left", at, name) for at, name in enumerate(left)]
        if not self.left_alone:
            names += [("right", at, name + suffix if name in left else name) for at, name in enumerate(right)]
        return names

    def _in_order(self, found: Numbers, due: Numbers, place: str) -> None:
        if isinstance(self.loop, AsOfLoop):
            return
        alone = 0 if self.how == "left_semi" else sum(None in pair for pair in due)
        if found[len(found) - alone :] != due[len(due) - alone :]:
            raise WrongError(f"{place}: unmatched rows come as {found[len(found) - alone :]}, not as {due[-alone:]}")
        pairs = found[: len(found) - alone]
        if self.order == "inner" and pairs != due[: len(pairs)]:
            raise WrongError(f"{place}: pairs come as {pairs}, not as {due[: len(pairs)]}")
        if self.order == "outer" and not self.left_alone:
            probing = [self._probing(pair) for pair in pairs]
            if probing != sorted(probing):
                raise WrongError(f"{place}: pairs come by the probing rows {probing}, which is not their order")

    def _probing(self, pair: tuple[int | None, int | None]) -> int:
        left, right = (self.loop.streams[side].rows[row].position for side, row in zip(SIDES, pair, strict=True))
        return max(left, right)

    def _counts(self, tables: list[pa.Table], pairs: list[Pair], place: str) -> None:
        due = {(side, row): 0 for side in SIDES for row in range(self.before[side], len(self.rows[side]))}
        for pair in pairs:
            due[pair.side, pair.left if pair.side == "left" else pair.right] += 1
        lines = [row for table in tables for row in table.to_pylist()]
        found = {(row["side"], row["row"]): row["matches"] for row in lines}
        if found != due or len(lines) != len(due):
            wrong = {key: (found.get(key), due.get(key)) for key in {**found, **due} if found.get(key) != due.get(key)}
            raise WrongError(f"{place}: counts of (side, row) are (found, due) {wrong}")

    def _aggregates(self, tables: list[pa.Table], pairs: list[Pair], place: str, *, ended: bool) -> None:
        """Each row of the call, or left rows whose windows are over, with what they have met."""
        lines = [row for table in tables for row in _rows(table)]
        history = self._history()
        if not self.spec.closing:
            met: dict[tuple[str, int], list[tuple[str, int]]] = {
                (side, row): [] for side in SIDES for row in range(self.before[side], len(self.rows[side]))
            }
            for pair in pairs:
                mine, other = (pair.left, pair.right) if pair.side == "left" else (pair.right, pair.left)
                met[pair.side, mine].append(("right" if pair.side == "left" else "left", other))
            places = [(line["side"], line["row"]) for line in lines]
            if Counter(places) != Counter(list(met)):
                raise WrongError(f"{place}: there are lines for {sorted(places)}, not for {sorted(met)}")
            for at, line in zip(places, lines, strict=True):
                other = "right" if at[0] == "left" else "left"
                self._line(line, [history[side][row] for side, row in met[at]], other, f"{place}, {at}")
            return
        if not hasattr(self, "closed"):
            self.closed: set[int] = set()
            self.met: dict[int, list[int]] = {}
        for pair in pairs:
            self.met.setdefault(pair.left, []).append(pair.right)
        stored = self.loop.streams["left"].rows
        alone = [
            row.number
            for row in stored
            if not row.late and row.number not in self.closed and (ended or self.loop._alone("left", row))
        ]
        alone.sort(key=lambda number: not self.loop._alone("left", stored[number]))  # finish() gives the rest
        self.closed.update(alone)
        identity = [self.rows["left"][number][self.schemas["left"].get_field_index("id")] for number in alone]
        if self.case.way.name in AS_ONE[1:]:  # a condition in SQL may tell sooner that nothing can match
            lines.sort(key=lambda line: identity.index(line["id"]) if line["id"] in identity else -1)
        if [line["id"] for line in lines] != identity:
            raise WrongError(f"{place}: the left rows {[line['id'] for line in lines]} come out, not {identity}")
        for number, line in zip(alone, lines, strict=True):
            own = {name: line[name] for name in self.schemas["left"].names}
            given = dict(zip(own, self.rows["left"][number], strict=True))
            if own != given:
                raise WrongError(f"{place}: a left row comes out as {own}, and had come as {given}")
            self._line(line, [history["right"][row] for row in self.met.get(number, [])], "right", f"{place}, {number}")

    def _history(self) -> dict[str, list[dict[str, Any]]]:
        """Rows with the values that aggregates are made of."""
        return {
            side: numbered([dict(zip(self.schemas[side].names, row, strict=True)) for row in self.rows[side]], 0)
            for side in SIDES
        }

    def _line(self, line: dict[str, Any], met: list[dict[str, Any]], side: str, place: str) -> None:
        time = None if self.spec.within is None else getattr(self.spec.within, f"{side}_time")
        for aggregate in self.spec.aggregates:
            got = line[aggregate.output]
            known = [row for row in met if aggregate.column is None or aggregate.column in row]
            if met and not known:
                if got is not None:
                    raise WrongError(f"{place}: {aggregate.output} is {got} without such a column")
                continue
            if not met and aggregate.column is not None and got is None:
                continue  # of no rows, or of a side without the column
            if aggregate.column is not None:
                known = [
                    {time: time and row[time], aggregate.column: _number(row[aggregate.column]), NUMBER: row[NUMBER]}
                    for row in known
                ]
            try:
                assert_same(aggregate, _number(got), known, time=time)
            except AssertionError as error:
                raise WrongError(f"{place}: {aggregate.output} is {got}: {error}") from error


def _number(value: Any) -> Any:
    """A float that `values.plain` made text of, as a float again."""
    return float(value) if isinstance(value, str) and _FLOAT.fullmatch(value) else value


_FLOAT = re.compile(r"-?(inf|nan|[0-9.]+(e[-+]?[0-9]+)?)")


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as `values.plain` has them."""
    columns = [values.plain(table[name]) for name in table.column_names]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _numbers(pairs: list[Pair]) -> Numbers:
    return [(pair.left, pair.right) for pair in pairs]


def _row_numbers(table: pa.Table) -> Numbers:
    left = table["left_row"].to_pylist()
    right = table["right_row"].to_pylist() if "right_row" in table.column_names else [None] * len(left)
    return list(zip(left, right, strict=True))


def _multiset(found: Numbers, due: Numbers, place: str) -> None:
    missing, extra = Counter(due) - Counter(found), Counter(found) - Counter(due)
    if missing or extra:
        order = lambda pairs: sorted(pairs.elements(), key=repr)[:12]  # noqa: E731
        raise WrongError(
            f"{place}: of {len(due)} rows {missing.total()} are missing, {order(missing)}, and {extra.total()} are too "
            f"many, {order(extra)} (left and right row numbers)"
        )


# Ways in

Results = Iterator[tuple[str, list[pa.Table]]]


def _calls(case: Case) -> list[Call]:
    """What is joined together: pushes until there are `max_rows` rows."""
    if case.way.name != "push":
        return list(case.calls)
    calls, waiting, rows = [], [], 0
    for push in itertools.chain(*case.calls):
        waiting.append(push)
        rows += sum(table.num_rows for table in push if table is not None)
        if rows >= case.way.max_rows:
            calls.append(tuple(waiting))
            waiting, rows = [], 0
    return [*calls, tuple(waiting)]


def _arguments(case: Case) -> dict[str, Any]:
    schemas = {"left_schema": case.schemas[0]}
    if not case.self_join:
        schemas["right_schema"] = case.schemas[1]
    kept = {"late": "keep"} if case.seed % 2 and (case.within or case.as_of) is not None else {}
    return case.arguments() | schemas | kept


def _given(case: Case, push: Any) -> tuple[Any, ...]:
    return push[:1] if case.self_join else push


def _in_process(case: Case, checker: Checker) -> Results:
    join = WindowJoin(
        **_arguments(case), device=_device(case.device), partitions=case.partitions, max_rows=case.way.max_rows
    )
    with join:
        if case.way.name == "push":
            for push in itertools.chain(*case.calls):
                if (table := join.push(*_given(case, push))) is not None:
                    yield "call", [table]
                    checker.check_late(join)
            yield "call", [join.flush()]
        else:
            for call in case.calls:
                (push,) = call
                if case.way.name == "blocks":
                    yield "call", list(join.process_blocks(*_given(case, push), block_bytes=case.way.block_bytes))
                else:
                    table = join.process(*_given(case, push))
                    if checker.mirror is not None:
                        table = checker.mirror.pairs(table, *push)
                    yield "call", [table]
                checker.check_late(join)
        yield "end", [join.finish()]
        stats, loop = join.stats, checker.loop
        late = loop.late if isinstance(loop, AsOfLoop) else {side: loop.streams[side].late for side in SIDES}
        told = {f"rows_{side}": len(checker.rows[side]) for side in SIDES} | {f"late_{s}": late[s] for s in SIDES}
        found = {name: getattr(stats, name) for name in told}
        if found != told:
            raise WrongError(f"stats are {found}, not {told}")


def _with_state(case: Case, checker: Checker) -> Results:
    """A join with state that is opened again now and then."""
    reopened = {call: more for call, *more in case.way.reopened}
    with tempfile.TemporaryDirectory(prefix="muntin-") as folder:
        join = WindowJoin(**_arguments(case), device=_device(case.device), partitions=case.partitions, state=folder)
        try:
            for number in range(len(case.calls) + 1):
                if number in reopened:
                    repeat, device, partitions, given = reopened[number]
                    arguments = _arguments(case)
                    if device != case.device:
                        arguments |= {"index": "auto", "engine": "auto"}
                    join.close()
                    join = WindowJoin(**arguments, device=_device(device), partitions=partitions, state=folder)
                    if repeat:
                        rows = _given(case, case.calls[number - 1][0]) if given else ()
                        yield "again", [join.repeat(*rows)]
                        checker.check_late(join)
                if number < len(case.calls):
                    yield "call", [join.process(*_given(case, case.calls[number][0]))]
                    checker.check_late(join)
            yield "end", [join.finish()]
        finally:
            join.close()


def _by_daemon(case: Case, checker: Checker) -> Results:
    """By a client of a daemon in this process."""
    streaming = case.way.name == "stream"
    query = f"query {next(_queries)}"
    client = _daemon(case.device)
    schema = client.open_query(query, checker.spec, *case.schemas, streaming=streaming)
    try:
        for number, call in enumerate(case.calls):
            rows = []
            for side, table in zip(SIDES, call[0], strict=True):
                rows += [(side, batch) for batch in table.to_batches(max_chunksize=7)] if table is not None else []
            result = pa.Table.from_batches(client.process(query, number, rows), schema=schema)
            yield "call" if streaming else "all", [result]
    finally:
        client.close_query(query)


def _in_shell(case: Case, checker: Checker) -> Results:
    from tests.random_joins import shell

    return shell.results(case)


def _in_spark(case: Case, checker: Checker) -> Results:
    from tests.random_joins import spark

    return spark.results(case)


_queries = itertools.count()


@cache
def _daemon(device: str) -> DaemonClient:
    """A client of a daemon that lives as long as this process."""
    _device(device)  # or there is none here
    folder = Path(tempfile.mkdtemp(prefix="muntin-"))
    daemon = Daemon(open_device(device), folder / "d.sock", limits=Limits(grace=1.0))
    client = DaemonClient(daemon.addresses[0], timeout=60)

    def stop() -> None:
        client.close()
        daemon.stop()
        shutil.rmtree(folder)

    atexit.register(stop)
    return client


@cache
def _device(name: str) -> Any:
    """The device, open as long as this process; one that is absent refuses its joins."""
    try:
        return open_device(name)
    except DeviceError as error:
        raise UnsupportedError(f"there is no device {name} here: {error}") from error
