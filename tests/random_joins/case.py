"""What one seed draws: a join, where and how it runs, and its input."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any

import pyarrow as pa

from muntin import (
    AllOf,
    AnyOf,
    AsOf,
    Band,
    Compare,
    Count,
    First,
    JoinSpec,
    Last,
    Max,
    Mean,
    Min,
    Partitions,
    Rows,
    StdDev,
    Sum,
    Var,
    Watermark,
    Where,
    Within,
)
from muntin.engine import Inner, Outer, Shared, SplitJoin
from muntin.index import (
    Auto,
    BChain,
    BiSort,
    BurstTrie,
    IbChain,
    ImTree,
    PimTree,
    RapTable,
    Slices,
    SortedRuns,
    SpoJoin,
    WibTree,
)
from tests.oracles.exact import DAY
from tests.random_joins import values
from tests.random_joins.values import OPEN, Given

Push = tuple[pa.Table | None, pa.Table | None]
Call = tuple[Push, ...]
OPERATORS = ("=", "=", "<", "<=", ">", ">=", "!=", "<=>", "is distinct from")
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_anti")


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a condition, on one column of each side (of one side for ``"where"``).

    `kind` is ``"band"``, ``"sum"``, ``"compare"``, ``"where"`` or ``"any"``, of parts on the same columns.
    """

    kind: str
    left: str | None
    right: str | None
    op: str = ""
    low: Given = OPEN
    high: Given = OPEN
    closed: str = "both"
    value: Given = OPEN
    parts: tuple[Part, ...] = ()

    def host(self) -> Any:
        """As the operator takes it."""
        if self.kind == "any":
            return AnyOf(*(part.host() for part in self.parts))
        if self.kind == "where":
            side, column = ("left", self.left) if self.right is None else ("right", self.right)
            return Where(side, column, self.op, self.value.given)
        if self.kind == "compare":
            return Compare(self.left, self.op, self.right)
        return Band(self.left, self.right, self.low.given, self.high.given, sum=self.kind == "sum", closed=self.closed)

    def oracle(self, left: list[str], right: list[str]) -> tuple:
        """As the nested loop takes it, where it has the keys of these columns."""
        if self.kind == "where" or (self.kind == "any" and self.parts[0].kind == "where"):
            parts = self.parts if self.kind == "any" else (self,)
            side, at = ("left", left.index(self.left)) if self.right is None else ("right", right.index(self.right))
            tests = [_test(part.op, part.value.exact) for part in parts]
            return ("where-any", side, at, lambda value: any(test(value) for test in tests))
        at = left.index(self.left), right.index(self.right)
        if self.kind == "compare" and self.op in ("<=>", "is distinct from"):
            return ("same" if self.op == "<=>" else "distinct", *at)
        kind = "same-or" if any(part.op == "<=>" for part in self.parts) else "pair"
        return (kind, *at, self._predicate())

    def _predicate(self) -> tuple:
        if self.kind == "any":
            return ("any", [part._predicate() for part in self.parts])
        if self.kind == "compare":
            return ("compare", "=" if self.op == "<=>" else self.op)
        return (self.kind, self.low.exact, self.high.exact, self.closed)


def _test(op: str, constant: Any) -> Callable[[Any], bool]:
    """What `Where` asks of an exact value."""
    nan = lambda value: value != value  # noqa: E731
    tests: dict[str, Callable[[Any], bool]] = {
        "=": lambda v: v == constant,
        "!=": lambda v: v != constant,
        "<": lambda v: v < constant,
        "<=": lambda v: v <= constant,
        ">": lambda v: v > constant,
        ">=": lambda v: v >= constant,
    }
    if op == "<=>":
        return lambda v: v is constant is None or (v is not None and constant is not None and v == constant)
    if op == "is distinct from":
        return lambda v: (v is None) != (constant is None) or (v is not None and v != constant)
    return lambda v: v is not None and not nan(v) and tests[op](v)


@dataclasses.dataclass(frozen=True)
class Way:
    """How the calls are made.

    Attributes
    ----------
    name : str
        ``"process"``, ``"blocks"``, ``"push"``, ``"state"`` (in one process), ``"stream"`` or ``"request"`` (by a
        daemon), ``"shell"`` (by the command, over files) or ``"spark"`` (of DataFrames), which are made of drawn cases.
    block_bytes, max_rows
        For blocks and pushes; rows of a batch of a file.
    reopened : tuple of (int, bool, str, Partitions or int, bool)
        Before which call a join with state is opened again, whether the newest call is repeated, on which device, with
        how many partitions, and whether rows are given to `repeat`.
    """

    name: str = "process"
    block_bytes: int = 1 << 20
    max_rows: int = 1 << 16
    reopened: tuple[tuple[int, bool, str, Any, bool], ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """A join, its input, and how it runs.

    Attributes
    ----------
    parts : tuple of Part
        Of the condition, where it is no as-of join.
    as_of : dict or None
        Parameters of `AsOf`, the tolerance as `Given`, parts about one side as `Part`.
    rows, within, delays
        Windows: rows of each side, or time columns and ends; and delays of the watermark.
    options : dict
        More parameters of `JoinSpec`.
    calls : tuple of Call
        Each of one push, but for joins that are pushed to.
    """

    seed: int
    parts: tuple[Part, ...]
    as_of: dict[str, Any] | None
    rows: tuple[int, int] | None
    within: tuple[str, str, Given, Given] | None
    delays: tuple[Given, Given] | None
    watermark: dict[str, Any]
    options: dict[str, Any]
    schemas: tuple[pa.Schema, pa.Schema]
    calls: tuple[Call, ...]
    device: str
    partitions: Any
    way: Way

    def on(self) -> Any:
        """The condition, as the operator takes it."""
        if self.as_of is not None:
            where = tuple(part.host() for part in self.as_of["where"])
            return AsOf(**self.as_of | {"tolerance": self.as_of["tolerance"].given, "where": where})
        parts = [part.host() for part in self.parts]
        return parts[0] if len(parts) == 1 and self.parts[0].kind != "where" else AllOf(*parts)

    def arguments(self) -> dict[str, Any]:
        """Of `JoinSpec`; raises what the constructors of conditions and windows do."""
        found = {"on": self.on(), **self.options}
        if self.rows is not None:
            found |= {"left": Rows(self.rows[0]), "right": Rows(self.rows[1])}
        if self.within is not None:
            left, right, low, high = self.within
            found["within"] = Within(left, right, low.given, high.given)
        if self.delays is not None:
            left, right = self.delays
            found["watermark"] = Watermark(left=left.given, right=right.given, **self.watermark)
        return found

    def spec(self) -> JoinSpec:
        """The join. Raises as its constructors."""
        return JoinSpec(**self.arguments())

    @property
    def self_join(self) -> bool:
        return bool(self.options.get("self_join"))

    @cached_property
    def sides(self) -> tuple[list[str], list[str]]:
        """The columns of each side that the parts name."""
        found: tuple[list[str], list[str]] = ([], [])
        for part in self.parts:
            for names, name in zip(found, (part.left, part.right), strict=True):
                if name is not None and name not in names:
                    names.append(name)
        return found

    def told(self) -> str:
        """All of it, for whoever reads of a failure."""
        lines = [f"seed {self.seed}, device {self.device}, partitions {self.partitions}, {self.way}"]
        try:
            lines.append(f"{self.spec()!r}")
        except Exception:  # which is what the case is about then
            lines.append(f"{self.parts or self.as_of} rows={self.rows} within={self.within} {self.options}")
        if self.delays is not None:
            lines.append(f"delays {self.delays} {self.watermark}")
        for side, schema in zip(("left", "right"), self.schemas, strict=True):
            lines.append(f"{side}: " + ", ".join(f"{field.name}: {field.type}" for field in schema))
        for at, call in enumerate(self.calls):
            for push in call:
                for side, table in zip(("left", "right"), push, strict=True):
                    if table is not None:
                        columns = {name: values.plain(table[name]) for name in table.column_names}
                        lines.append(f"call {at} {side} ({table.num_rows} rows): {columns}")
        return "\n".join(lines)


class Draw:
    """Draws one case."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.seed = seed
        self.columns: tuple[dict[str, _Column], dict[str, _Column]] = ({}, {})

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def case(self) -> Case:
        rng = self.rng
        options: dict[str, Any] = {}
        as_of = self.chance(0.15)
        self_join = not as_of and self.chance(0.15)
        if self_join:
            options["self_join"] = True
            if self.chance(0.5):
                options["itself"] = True
        way = rng.choice(["process"] * 5 + ["blocks", "push", "push", "state", "state", "state", "stream", "request"])
        sequence = self.chance(0.35)
        parts: tuple[Part, ...] = ()
        rows = within = delays = about = None
        watermark: dict[str, Any] = {}
        if as_of:
            about, times = self._as_of()
        else:
            parts = self._condition()
            kind = rng.choice(["rows", "rows", "within", "within", "none"])
            if kind == "rows":
                rows = rng.choice([1, 2, 3, 8, 30]), rng.choice([1, 2, 3, 8, 30])
            times = None
            if kind == "within":
                times = self._times(rng.choice(["int", "stamp", "stamp", "zoned", "date"]), same=self_join)
                within = self._within(times)
        form, how = self._form(as_of, within is not None, options)
        way = "process" if form == "ranges" else way
        streams = within is not None or as_of
        if streams and times is not None and times.watermarked and self.chance(0.75):
            delays, watermark = self._watermark(times, how, as_of, within, self_join, form)
        self._order(form, as_of, options)
        if sequence:
            options["sequence"] = "q"
        bounded = (form == "aggregate" and options.get("at") == "close") or how not in ("inner", "left_semi")
        if way == "stream" and not self.chance(0.1) and ((bounded or as_of) and delays is None):
            way = "request"  # a stream could not let its rows go
        device, engine, index, partitions = self._device(form, as_of, options, rows)
        options |= {name: each for name, each in (("engine", engine), ("index", index)) if each is not None}
        self._payload(form, options)
        calls = self._calls(way, times, sequence, self_join)
        schemas = tuple(
            pa.schema([pa.field(name, column.kind) for name, column in side.items()]) for side in self._all(self_join)
        )
        return Case(
            self.seed, parts, about, rows, within, delays, watermark, options, schemas, calls, device, partitions,
            self._way(way, len(calls), device, partitions, only_cpu=as_of or form == "aggregate", engine=engine),
        )  # fmt: skip

    # Conditions

    def _kinds(self, ordered: bool) -> tuple[str, pa.DataType, pa.DataType]:
        """A family, and a type of each side."""
        rng = self.rng
        names = [name for name in values.FAMILIES if not ordered or name in (*values.ORDERED, "mixed")]
        weights = [values.FAMILIES[name][1] for name in names]
        if not ordered and self.chance(0.12):
            fields = [self._kinds(ordered=False) for _ in range(rng.randint(1, 3))]
            both = [pa.struct([pa.field(f"f{at}", kinds[side]) for at, kinds in enumerate(fields)]) for side in (1, 2)]
            return "struct", both[0], both[1]
        (family,) = rng.choices(names, weights)
        if self.chance(0.02):
            family = "mixed"
        kinds = list(values.FAMILIES[family][0])
        left = rng.choice(kinds)
        right = left if self.chance(0.5) else rng.choice(kinds)
        if not ordered:
            if self.chance(0.1):
                left = pa.dictionary(rng.choice([pa.int8(), pa.int32(), pa.uint16()]), left)
            if self.chance(0.1):
                right = pa.dictionary(rng.choice([pa.int8(), pa.int32(), pa.int64()]), right)
            if self.chance(0.02):
                left = pa.null()
        return family, left, right

    def _pair(self, ordered: bool) -> tuple[str, str, str, list[Any]]:
        """New columns of both sides: their family, names and pool."""
        family, left, right = self._kinds(ordered)
        at = len(self.columns[0])
        names = (f"k{at}", f"k{at}") if left == right and self.chance(0.5) else (f"a{at}", f"b{at}")
        pool = values.pool(self.rng, left, right)
        for side, (name, kind) in enumerate(zip(names, (left, right), strict=True)):
            self.columns[side][name] = _Column(kind, pool, self.rng.choice([0, 0.1, 0.3]))
        return family, *names, pool

    def _condition(self) -> tuple[Part, ...]:
        rng = self.rng
        parts = [self._part() for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
        if self.chance(0.2):
            parts.append(self._where())
        if self.chance(0.02):
            parts = parts[-1:] if parts[-1].kind == "where" else parts
        return tuple(parts)

    def _part(self) -> Part:
        rng = self.rng
        kind = rng.choice(["compare", "compare", "band", "band", "any", "sum"])
        op = rng.choice(OPERATORS)
        ordered = kind != "compare" or op in ("<", "<=", ">", ">=")
        family, left, right, _ = self._pair(ordered)
        if kind == "sum" and family not in ("number", "decimal", "duration"):
            kind = "band"
        return self._made(kind, op, family, left, right)

    def _made(self, kind: str, op: str, family: str, left: str, right: str) -> Part:
        rng = self.rng
        if kind == "any":
            inner = rng.choices(["band", "compare"], k=rng.randint(1, 3))
            ops = rng.choices(["=", "<", "<=", ">", ">=", "!=", "<=>"], k=3)
            parts = tuple(self._made(each, op, family, left, right) for each, op in zip(inner, ops, strict=False))
            return Part("any", left, right, parts=parts)
        if kind == "compare":
            return Part("compare", left, right, op=op)
        low, high = self._ends(family, self.columns[0][left], self.columns[1][right])
        closed = "both" if low.exact == high.exact else rng.choice(["both", "both", "left", "right", "neither"])
        return Part(kind, left, right, low=low, high=high, closed=closed)

    def _ends(self, family: str, left: _Column, right: _Column) -> tuple[Given, Given]:
        """Of a band."""
        rng = self.rng
        kinds = left.kind, right.kind
        if any(pa.types.is_floating(kind) for kind in kinds):
            ends = sorted(rng.choice([-1e308, -2.5, -1, -0.1, 0, -0.0, 0.1, 0.25, 1, 0.3, 5, 1e308]) for _ in range(2))
            given = [Given(end, float(end)) for end in ends]
        else:
            steps = [values.unit(kind) for kind in kinds]
            step = rng.choice([min(steps), max(steps)])
            far = rng.choice([3, 3, 3, 20, 10**6, 2**64])
            ends = sorted(rng.randint(-far, far) * step for _ in range(2))
            temporal = any(values.is_temporal(kind) for kind in kinds)
            given = [values.length(rng, Fraction(end), temporal=temporal) for end in ends]
        if self.chance(0.15):
            given[rng.randrange(2)] = OPEN
        return given[0], given[1]

    def _where(self) -> Part:
        """About a column that is there, or one of its own."""
        rng = self.rng
        side = rng.randrange(2)
        if self.columns[side] and self.chance(0.5):
            name = rng.choice(list(self.columns[side]))
        else:
            names = self._pair(ordered=self.chance(0.5))[1:3]
            name = names[side]
        column = self.columns[side][name]
        ops = ["=", "<=>", "!=", "is distinct from"]
        inner = values.scalar_type(column.kind)
        plain = not (values.is_text(inner) or values.is_bytes(inner) or pa.types.is_boolean(inner))
        ops += ["<", "<=", ">", ">="] if plain or self.chance(0.3) else []
        null = pa.types.is_struct(inner) or pa.types.is_null(inner)

        def made() -> Part:
            op = rng.choice(ops)
            if null or (op in ("<=>", "is distinct from") and self.chance(0.4)):
                op, value = rng.choice(["<=>", "is distinct from"]), OPEN
            else:
                value = values.constant(rng, column.pool, column.kind)
            return Part("where", *((name, None) if side == 0 else (None, name)), op=op, value=value)

        if self.chance(0.3):
            first = made()
            return Part("any", first.left, first.right, parts=(first, made()))
        return made()

    # Windows

    def _times(self, kind: str, *, same: bool = False) -> _Times:
        rng = self.rng
        kinds = {
            "int": values.INTEGERS[:-1],
            "stamp": values.STAMPS,
            "zoned": values.ZONED,
            "date": values.DATES,
            "duration": values.DURATIONS,
            "float": values.FLOATS,
            "decimal": values.DECIMALS[2:5],
            "time": values.TIMES,
        }[kind]
        left = rng.choice(kinds)
        right = left if same or self.chance(0.6) else rng.choice(kinds)
        names = ("t", "t") if left == right and (same or self.chance(0.5)) else ("t", "u")
        return _Times(kind, left, right, names, rng)

    def _within(self, times: _Times) -> tuple[str, str, Given, Given]:
        rng = self.rng
        far = rng.choice([0, 2, 5, 12])
        low, high = sorted(rng.randint(-far, far) for _ in range(2))
        ends = [values.length(rng, end * times.step, temporal=times.temporal) for end in (low, high)]
        ends = [Given(int(end.given), end.exact) if isinstance(end.given, float) else end for end in ends]
        if self.chance(0.08):
            ends[rng.randrange(2)] = OPEN
        return (*times.names, *ends)

    def _watermark(
        self, times: _Times, how: str, as_of: bool, within: Any, self_join: bool, form: str
    ) -> tuple[tuple[Given, Given] | None, dict[str, Any]]:
        rng = self.rng
        delays = []
        for _ in range(2):
            exact = rng.choice([0, 1, 3, 8]) * times.step
            if times.temporal:
                delay = Given(dt.timedelta(microseconds=int(exact) // 1000), int(exact))
            else:
                delay = Given(int(exact), int(exact))
            delays.append(delay)
        if self_join:
            delays[1] = OPEN
        elif self.chance(0.3):
            delays[0 if as_of or self.chance(0.5) else 1] = OPEN
        return (delays[0], delays[1]), {"lag": rng.choice([0, 0, 1, 2]), "policy": rng.choice(["min", "min", "max"])}

    def _as_of(self) -> tuple[dict[str, Any], _Times]:
        rng = self.rng
        times = self._times(rng.choice(["int", "stamp", "stamp", "zoned", "date", "float", "duration", "decimal"]))
        by = [self._pair(ordered=False)[1:3] for _ in range(rng.choice([0, 1, 1, 2]))]
        tolerance = OPEN
        if self.chance(0.6):
            away = rng.choice([0, 1, 3, 9]) * times.step
            if times.kind == "float":
                away = rng.choice([0.0, 0.1, 1.5, 1e308])
                tolerance = Given(away, Fraction(away))
            else:
                tolerance = values.length(rng, away, temporal=times.temporal)
        about = {
            "left_time": times.names[0],
            "right_time": times.names[1],
            "direction": rng.choice(["backward", "forward", "nearest"]),
            "tolerance": tolerance,
            "by": tuple(by),
            "exact": self.chance(0.75),
            "where": tuple(self._where() for _ in range(rng.choice([0, 0, 0, 1, 2]))),
        }
        if tolerance is OPEN and self.chance(0.8):
            about["direction"] = "backward"
        return about, times

    # What comes out, and where

    def _form(self, as_of: bool, timed: bool, options: dict[str, Any]) -> tuple[str, str]:
        rng = self.rng
        form = rng.choice(["rows"] * 4 + ["pairs"] * 4 + ["counts", "ranges", "aggregate", "aggregate"])
        if as_of:
            form = rng.choice(["rows", "pairs"])
        if form == "ranges" and "self_join" in options:
            form = "pairs"
        how = "inner"
        if form in ("rows", "pairs"):
            how = rng.choice(["inner", "left"] if as_of else ["inner", "inner", *HOWS])
        options["form"] = form
        options["how"] = how
        if (
            form == "aggregate"
            and timed
            and self.chance(0.5)
            and not ("self_join" in options and "itself" not in options)
        ):
            options["at"] = "close"
        return form, how

    def _order(self, form: str, as_of: bool, options: dict[str, Any]) -> None:
        if form in ("rows", "pairs") and not as_of:
            orders = ["none", "none", "outer", "inner", "inner", Outer(3), Inner(2)]
            options["order"] = self.rng.choice(orders)

    def _device(self, form: str, as_of: bool, options: dict[str, Any], rows: Any) -> tuple[str, Any, Any, Any]:
        rng = self.rng
        device = rng.choice(["cpu"] * 8 + ["cpu:threads=1", "cpu:threads=2", "numpy", "numpy", "opencl"])
        if self.chance(0.03):
            device = rng.choice(["sim:bisort-model", "sim:splitjoin-model"])
        if as_of or form in ("ranges", "aggregate"):
            device = rng.choice(["cpu", "cpu", "cpu:threads=1"])
        engine: Any = None
        index: Any = None
        partitions: Any = 1
        cpu = device.startswith("cpu")
        if cpu and not as_of and form not in ("ranges", "aggregate"):
            engine = rng.choice(
                [None, None, None, None, "steps", "shared", Shared(task_size=1), "splitjoin",
                 SplitJoin(cores=2, fan_out=2), SplitJoin(cores=5, fan_out=2, queue_rows=1)]
            )  # fmt: skip
        steps = engine in (None, "steps")
        if cpu and not as_of and self.chance(0.7):
            if form in ("ranges", "aggregate"):
                index = rng.choice(["sorted_runs", SortedRuns(growth=2, base_rows=2)])
                if form == "ranges":
                    index = rng.choice([index, "bisort", BiSort(buffer_rows=4)])
            elif steps:
                index = rng.choice(self._indexes())
            elif engine == "shared" or isinstance(engine, Shared):
                index = rng.choice(
                    ["pim_tree", "im_tree", "bplus_tree", "b_chain", "ib_chain", BChain(length=3),
                     PimTree(insertion_depth=1, merge_ratio=0.5), ImTree(merge_ratio=1)]
                )  # fmt: skip
            else:
                indexes = [each for each in self._indexes() if each != "spo_join" and not isinstance(each, SpoJoin)]
                index = rng.choice([*indexes, "nested_loop", Auto(border_rows=2)])
        elif not cpu and "splitjoin" not in device:
            index = rng.choice([None, "sorted_runs", "bisort", BiSort(buffer_rows=4)])
        if steps and "sim" not in device and self.chance(0.25) and (not as_of or self.chance(0.5)):
            partitions = rng.choice([2, 3, 5])
            if self.chance(0.5) and not as_of:
                partitions = Partitions(
                    partitions, rng.choice(["auto", "auto", "ranges", "subwindows", "equality"]),
                    subwindow_rows=rng.choice([None, None, 1, 3, 10]),
                )  # fmt: skip
        return device, engine, index, partitions

    def _indexes(self) -> list[Any]:
        rng = self.rng
        slices = rng.choice(
            ["csb_tree", "bplus_tree", "pim_tree", "wib_tree", "sorted_runs", "rap_table", "radix_tree"]
        )
        return [
            *("sorted_runs", "bisort", "sorted_array", "bplus_tree", "b_chain", "ib_chain", "im_tree", "pim_tree"),
            *("csb_tree", "burst_trie", "radix_tree", "slices", "rap_table", "wib_tree", "spo_join"),
            *(SortedRuns(growth=2, base_rows=2), BiSort(buffer_rows=3), WibTree(leaf_rows=2, subwindow_rows=5)),
            BiSort(buffer_rows=2, partitions=2, subwindow_rows=6),
            *(RapTable(partitions=3, subwindow_rows=7), WibTree(leaf_rows=3, late_rows=1), BurstTrie(container_rows=1)),
            *(ImTree(merge_ratio=0.5), PimTree(insertion_depth=1, merge_ratio=0.25), BChain(length=3)),
            *(IbChain(length=4), Slices(of=slices), SpoJoin(slide=8, sub_intervals=2), SpoJoin(slide=3)),
            *(SpoJoin(slide=6, mutable="hash", immutable="css_hash"), SpoJoin(slide=4, immutable="po_join_bits")),
        ]

    def _payload(self, form: str, options: dict[str, Any]) -> None:
        """Columns that come out, or are added up."""
        rng = self.rng
        for at, side in enumerate(self.columns):
            side["id"] = _Column(pa.int64(), [], 0)
            if form == "rows" and self.chance(0.6):
                _, left, right = self._kinds(ordered=False)
                side[f"p{at}"] = _Column(left, values.pool(rng, left, right), 0.2)
        if form == "rows" and self.chance(0.15):
            options["suffix"] = "_r"
        if form != "aggregate":
            return
        aggregates: list[Any] = [Count()]
        for at in range(rng.randint(1, 3)):
            kind = rng.choice(
                [*values.INTEGERS, *values.FLOATS, *values.DECIMALS[:6], *values.DATES, *values.STAMPS, *values.TIMES,
                 *values.DURATIONS, *values.TEXTS, pa.bool_(), *values.BYTES, pa.dictionary(pa.int8(), pa.string())]
            )  # fmt: skip
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            functions = [Count, First, Last, *([Min, Max] if number or pa.types.is_temporal(kind) else [])]
            functions += [Sum, Mean, Var, StdDev] if number else []
            aggregates += [function(f"v{at}") for function in functions if self.chance(0.6)]
            for side in self.columns if self.chance(0.8) else self.columns[1:]:
                pool = values.pool(rng, kind, kind)
                pool = [value for value in pool if not isinstance(value, float) or abs(value) < 1e30]
                if pa.types.is_timestamp(kind):
                    pool = [value for value in pool if abs(value) < 2**62]
                side[f"v{at}"] = _Column(kind, pool or [1], 0.2)
        options["aggregates"] = tuple(aggregates)

    # Rows

    def _all(self, self_join: bool) -> tuple[dict[str, _Column], dict[str, _Column]]:
        """The columns of each side's table."""
        if self_join:
            both = self.columns[1] | self.columns[0]
            return both, both
        return self.columns

    def _calls(self, way: str, times: _Times | None, sequence: bool, self_join: bool) -> tuple[Call, ...]:
        rng = self.rng
        if times is not None:
            for at, name in enumerate(times.names):
                self.columns[at][name] = _Column(times.kinds[at], [], rng.choice([0, 0, 0.05]))
        if sequence:
            kind = rng.choice([pa.int64(), pa.int32(), pa.timestamp("us"), pa.date32(), pa.uint64()])
            for side in self.columns:
                side["q"] = _Column(kind, [], 0)
        sides = self._all(self_join)
        most = rng.choice([3, 8, 8, 20, 60])
        calls: list[Call] = []
        numbers = [0, 0]
        at = 0
        for call in range(1 if way == "request" else rng.randint(1, 6)):
            pushes = []
            for _ in range(rng.randint(1, 4) if way == "push" else 1):
                tables: list[pa.Table | None] = []
                places = [rng.randint(0, most) for _ in range(2)]
                spread = rng.choice([1, 2]) if sequence else 1
                order = list(range(at, at + sum(places) * spread + 1))
                for side, columns in enumerate(sides):
                    count = places[side]
                    if (self_join and side == 1) or (call and self.chance(0.1)):
                        tables.append(None)
                        continue
                    data = {}
                    for name, column in columns.items():
                        if name == "id":
                            found: list[Any] = list(range(numbers[side], numbers[side] + count))
                        elif name == "q":
                            found = rng.choices(order, k=count) if self.chance(0.5) else rng.sample(order, count)
                        elif times is not None and name in times.names:
                            role = side if not self_join else times.names.index(name)
                            found = times.draw(rng, role, count, call, column.nulls)
                        else:
                            found = values.draw(rng, column.pool, column.kind, count, column.nulls)
                        data[name] = values.array(found, column.kind)
                    numbers[side] += count
                    schema = pa.schema([pa.field(name, column.kind) for name, column in columns.items()])
                    tables.append(pa.table(list(data.values()), schema=schema))
                at += len(order) - (1 if self.chance(0.5) and way != "push" else 0)
                pushes.append((tables[0], tables[1]))
            calls.append(tuple(pushes))
        return tuple(calls)

    def _way(self, name: str, calls: int, device: str, partitions: Any, *, only_cpu: bool, engine: Any) -> Way:
        rng = self.rng
        reopened = []
        if name == "state":
            for call in range(1, calls + 1):
                if self.chance(0.5):
                    others = ["cpu", "cpu:threads=1", *([] if only_cpu else ["numpy"])]
                    other = device if self.chance(0.6) else rng.choice(others)
                    if other != device and not device.startswith(("cpu", "numpy")):
                        other = device
                    count = partitions if self.chance(0.7) or engine not in (None, "steps") else rng.choice([1, 2, 4])
                    reopened.append((call, self.chance(0.6), other, count, self.chance(0.5)))
        return Way(name, rng.choice([1, 64, 1000, 1 << 20]), rng.choice([1, 5, 20, 1 << 16]), tuple(reopened))


@dataclasses.dataclass
class _Column:
    kind: pa.DataType
    pool: list[Any]
    nulls: float


class _Times:
    """The time columns of both sides."""

    def __init__(self, kind: str, left: pa.DataType, right: pa.DataType, names: tuple[str, str], rng: random.Random):
        self.kind, self.kinds, self.names = kind, (left, right), names
        self.temporal = kind not in ("int", "float", "decimal")
        self.watermarked = kind in ("int", "stamp", "zoned", "date")
        units = [values.unit(each) for each in self.kinds]
        self.fine = min(units)
        self.step = max(max(units), Fraction(10**6) if kind in ("stamp", "zoned") else Fraction(0))
        small = all(not pa.types.is_integer(each) or each.bit_width > 8 for each in self.kinds)
        self.pace = rng.choice([0, 2, 5]) if small else 2
        self.origin = Fraction(0)
        if kind in ("stamp", "zoned", "date") and rng.random() < 0.5:
            self.origin = Fraction(20_000 * DAY)
        self.wild = rng.random() < 0.1
        unsigned = any(pa.types.is_unsigned_integer(each) for each in self.kinds)
        self.least = 0 if unsigned or kind == "time" else -6

    def draw(self, rng: random.Random, side: int, count: int, call: int, nulls: float) -> list[Any]:
        """Times of one call, as `values.draw`: those of calls follow one another and overlap."""
        kind = self.kinds[side]
        if self.kind == "float":
            pool: list[Any] = [each * 0.1 for each in range(-10, 11)] + [float("inf"), float("-inf"), 1e308, 5e-324]
            return values.draw(rng, pool, kind, count, nulls)
        pool = []
        for _ in range(count):
            tick = call * self.pace + rng.randint(self.least, 8)
            exact = self.origin + tick * self.step
            if rng.random() < 0.2:
                exact += rng.randint(0, 3) * self.fine
            if self.wild and rng.random() < 0.1:
                exact = rng.choice(values.ends(kind)) * values.unit(kind)
            pool.append(exact)
        low, high = values.ends(kind)
        found = [min(max(int(exact // values.unit(kind)), low), high) for exact in pool]
        return [None if rng.random() < nulls else value for value in found]


def draw(seed: int) -> Case:
    """The case of a seed."""
    return Draw(seed).case()
