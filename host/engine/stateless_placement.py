"""Which partitions a row goes to, where whoever sends it knows no other row: the same whenever it is sent, and by whom.

One side is *divided*: each of its rows lies in one partition. A row of the other side is *copied* to each partition
that may hold rows it meets. So each pair is found once, and a divided row meets all that it can match in its own
partition: whether it is unmatched, and what it matches first or nearest, is known there.

Divided rows go by *cells* of a width on an axis, the keys of a band or the times of a window, which partitions take in
turn; a copied row goes to the cells that it reaches. Or they go by their content, and copied rows everywhere. In each
round of turns the partitions have another order, so that values at regular distances do not all meet one of them. In
streams cells are bins of `RoutingTable`, which follow the data.

Source: DeWitt, Naughton and Schneider, An evaluation of non-equijoin algorithms (VLDB 1991), for bands with one side
copied where ranges overlap; Okcan and Riedewald, Processing theta-joins using MapReduce (SIGMOD 2011), for rows spread
at random. Cells in turn, which need no sample, are ours.
"""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.engine.routes import BinHistogram, RoutingTable, bins_of
from muntin.host.engines import Partitions
from muntin.host.errors import UnsupportedError, WindowError
from muntin.host.keys.boundary_generator import exact_bound
from muntin.host.keys.columns import column_of, column_type
from muntin.host.keys.condition import Condition
from muntin.host.keys.content import row_hashes
from muntin.host.keys.key_type import Family, KeyType, decode_float
from muntin.host.predicates import Band, Compare, Predicate, one_sided
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec import JoinSpec

WIDTH = 4
"""Of a cell, in bands: a copied row goes to one cell and a quarter, on the mean."""
_FAR = 2.0**62


class StatelessPlacement:
    """Partitions of rows.

    Parameters
    ----------
    spec : JoinSpec
    left, right : pyarrow.Schema
    partitions : Partitions
        By ranges or subwindows.
    name : str, optional
        That of the placement, which has the width of its cells; else it is that of `partitions`.

    Attributes
    ----------
    count : int
        Of partitions.
    by : str
        "ranges" or "subwindows".
    divided : str
        The side whose rows lie in one partition each.
    name : str
        The same for all placements that put all rows in the same partitions.
    parts : tuple of StatelessPlacement
        This one; see `FullPlacement`.
    follows : bool
        Rows go by `RoutingTable`, which follow the data.

    Raises
    ------
    UnsupportedError
        The join cannot be cut so.
    WindowError, PredicateError
        The width does not fit the keys or times.
    """

    def __init__(
        self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, partitions: Partitions, name: str | None = None
    ):
        self.count, self.by, self._spec = partitions.count, partitions.by, spec
        self.parts = (self,)
        self.divided: Side = "right" if spec.how in ("right", "right_anti") or spec.static == "left" else "left"
        self._kept = spec.kept_columns(self.divided, left, right)
        self._copied = spec.kept_columns(OTHER[self.divided], left, right)
        width = None if name is None else _width_in(name)
        self._cells: _Cells | None = None
        if partitions.by == "ranges":
            band = _band(spec, left, right)
            if band is None:
                raise UnsupportedError(
                    "partitions by ranges need a part of the condition that is a band with two ends, and this one has "
                    "none: use by='subwindows'"
                )
            self._cells = _Cells(band, left, right, self.divided, partitions, width)
        elif partitions.width is not None or width is not None:
            if spec.within is None:
                raise WindowError(
                    f"width={partitions.width!r} of partitions by subwindows is for time windows: leave it out"
                )
            times = Band(spec.within.left_time, spec.within.right_time, spec.within.low, spec.within.high)
            self._cells = _Cells(times, left, right, self.divided, partitions, width)
        self.name = partitions.by if self._cells is None else f"{partitions.by}-{self._cells.width}-bins"
        self.follows = self._cells is not None and can_follow(spec)

    def spec(self, partition: int) -> JoinSpec:
        """The join that runs in a partition of this number."""
        return self._spec

    def loads(self, epoch: int) -> BinHistogram:
        """Without rows yet; for `SummaryPart`."""
        return BinHistogram(
            epoch, self.count, {"divided": np.zeros(bins_of(self.count), np.int64)}, {}, swappable=False
        )

    def targets(
        self, side: Side, rows: pa.RecordBatch, routes: RoutingTable | None = None, counts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where rows of a side go.

        Parameters
        ----------
        routes : RoutingTable, optional
            Those of the call; by default as before anything is known.
        counts : ndarray of int64, shape (2, bins), optional
            What is added to: how many rows lie in each bin, as divided and as copied ones.

        Returns
        -------
        numbers : ndarray of int32, shape (n,)
            Of divided rows the partition, of copied ones -1.
        masks : ndarray of bool, shape (partitions, n)
            Which rows each partition is sent.
        """
        routes = routes or RoutingTable.first(self.count)
        if side == self.divided:
            if self._cells is None:
                homes = _by_content(rows, self._kept, self.count)
            else:
                bins, valid = self._cells.of(rows)
                if counts is not None:
                    counts[0] += np.bincount(bins if valid is None else bins[valid], minlength=counts.shape[1])
                homes = routes.table[bins].astype(np.int32)
                if valid is not None:
                    homes[~valid] = -1
                if (homes < 0).any():
                    homes = np.where(homes < 0, _by_content(rows, self._kept, self.count), homes)
            return homes, homes == np.arange(self.count, dtype=np.int32)[:, None]
        homes = np.full(rows.num_rows, -1, np.int32)
        if self._cells is None:
            return homes, np.ones((self.count, rows.num_rows), np.bool_)
        masks = self._cells.reached(rows, routes)
        if self._spec.late == "keep":  # one partition gives them, whether they meet rows or not
            masks[_by_content(rows, self._copied, self.count), np.arange(rows.num_rows)] = True
        return homes, masks

    def given(self, side: Side, rows: pa.RecordBatch, partition: int) -> np.ndarray:
        """Which of the late rows of a side that a partition has it gives: each is given by one. Bool, shape (n,)."""
        if side == self.divided:
            return np.ones(rows.num_rows, np.bool_)
        return _by_content(rows, self._copied, self.count) == partition


class EqualityPlacement:
    """Partitions of rows by a hash of what is compared for equality: rows that match are in one bin. Routes tell the
    partition of each bin, and which are spread. Where late rows are kept these stay the first: no row goes to several
    partitions, each of which would give it; so they do for `prevailing`, whose rows outlive their window, and stay in
    the partition of those that come after them.

    Parameters
    ----------
    spec : JoinSpec
        One for which `can_follow`.
    left, right : pyarrow.Schema
    partitions : int

    Attributes
    ----------
    parts, count, by, divided, name, follows
        As of `StatelessPlacement`.

    Raises
    ------
    UnsupportedError
        The types of two columns that are compared have no common one.
    """

    by, name = "equality", "equality-bins"

    def __init__(self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, partitions: int):
        self.count, self._spec = partitions, spec
        self.follows = spec.late == "drop" and not spec.prevailing
        self.parts = (self,)
        self.divided: Side = "right" if spec.how in ("right", "right_anti") else "left"
        self._kept = {side: spec.kept_columns(side, left, right) for side in SIDES}
        self._columns: Sides[list[tuple[str, pa.DataType]]] = {"left": [], "right": []}
        for part in spec.equalities:
            kind = _common_type(part, left, right)
            self._columns["left"].append((part.left, kind))
            self._columns["right"].append((part.right, kind))

    def spec(self, partition: int) -> JoinSpec:
        """The join that runs in a partition of this number."""
        return self._spec

    def loads(self, epoch: int) -> BinHistogram:
        """As `StatelessPlacement.loads`."""
        rows = {role: np.zeros(bins_of(self.count), np.int64) for role in ("divided", "copied")}
        return BinHistogram(
            epoch, self.count, rows, {}, swappable=self._spec.how == "inner" and self._spec.form == "rows"
        )

    def targets(
        self, side: Side, rows: pa.RecordBatch, routes: RoutingTable | None = None, counts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `StatelessPlacement.targets`; -1 of rows that go to more than one."""
        routes = routes or RoutingTable.first(self.count)
        bins = self._bins(side, rows)
        if counts is not None:
            counts[int(side != self.divided)] += np.bincount(bins, minlength=counts.shape[1])
        homes = routes.table[bins].astype(np.int32)
        if routes.also is None and not (homes < 0).any():
            return homes, homes == np.arange(self.count, dtype=np.int32)[:, None]
        content = _by_content(rows, self._kept[side], self.count)
        masks = routes.masks(bins, content, divided=side == self.divided, partitions=self.count)
        return np.where(masks.sum(axis=0) == 1, masks.argmax(axis=0), -1).astype(np.int32), masks

    def _bins(self, side: Side, rows: pa.RecordBatch) -> np.ndarray:
        table, columns = pa.Table.from_batches([rows]), []
        for path, kind in self._columns[side]:
            column = column_of(table, path).combine_chunks().cast(kind)
            if pa.types.is_floating(kind):  # both zeros are equal, and all NaN
                values = pc.add(column, pa.scalar(0, kind))
                column = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, kind), values)
            columns.append(column)
        hashes = row_hashes(pa.RecordBatch.from_arrays(columns, names=[f"k{at}" for at in range(len(columns))]))
        return (hashes % np.uint64(bins_of(self.count))).astype(np.int64)


class FullPlacement:
    """Partitions of rows of a full join: those of a left join, in which left rows are divided, then as many of a right
    anti join, in which right rows are. So each partition knows which of its divided rows have matched. Every row goes
    to partitions of both.

    Parameters
    ----------
    spec, left, right, partitions, name
        As of `StatelessPlacement`.

    Attributes
    ----------
    parts : tuple of StatelessPlacement
        Of the two joins.
    count, by, name
        As of `StatelessPlacement`.

    Raises
    ------
    MuntinError
        As `StatelessPlacement`.
    """

    def __init__(
        self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, partitions: Partitions, name: str | None = None
    ):
        joins = [dataclasses.replace(spec, how=how) for how in ("left", "right_anti")]
        self.parts = tuple(StatelessPlacement(join, left, right, partitions, name) for join in joins)
        self.count, self.by, self.name = 2 * partitions.count, partitions.by, self.parts[0].name

    def spec(self, partition: int) -> JoinSpec:
        """The join that runs in a partition of this number."""
        return self.parts[2 * partition // self.count].spec(partition)

    def targets(
        self, side: Side, rows: pa.RecordBatch, routes: RoutingTable | None = None, counts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `StatelessPlacement.targets`, of rows that all are copied."""
        masks = np.concatenate([part.targets(side, rows)[1] for part in self.parts])
        return np.full(rows.num_rows, -1, np.int32), masks


class _Cells:
    """Cells on the axis of a condition's keys.

    Parameters
    ----------
    part : Predicate
        Its keys are those of the divided side.
    left, right : pyarrow.Schema
    divided : str
    partitions : Partitions
    encoded : int or float, optional
        The width; else it follows from `partitions`.

    Attributes
    ----------
    width : int or float
        Of a cell: in encoded keys, or as a float of float keys.
    """

    def __init__(
        self,
        part: Predicate,
        left: pa.Schema,
        right: pa.Schema,
        divided: Side,
        partitions: Partitions,
        encoded: int | float | None,
    ):
        self._count, width = partitions.count, partitions.width
        self._condition = Condition(part, left, right)
        self._divided = divided
        generator = self._condition.generator
        self._kind: KeyType = generator.key_types[divided]
        columns = f"{part.left!r} and {part.right!r}"
        self.width: int | float
        if encoded is not None:
            self.width = encoded
            return
        if width is None:
            pieces = [(piece.low, piece.high) for piece in part.pieces()]
            ends = [[exact_bound(end, self._kind.family, columns) for end in piece] for piece in pieces]
            exact = WIDTH * max((high - low for low, high in ends), default=Fraction(0))
        else:
            exact = exact_bound(width, self._kind.family, columns)
            if exact <= 0:
                raise WindowError(f"width of Partitions must be above 0, not {width!r}")
        if self._kind.family is Family.FLOAT:
            self.width = float(min(exact, Fraction(2) ** 1000))
            if self.width == 0:
                raise WindowError(f"the band of the keys {columns} has no width: give one, Partitions(..., width=...)")
        else:
            self.width = min(max(math.ceil(exact / self._kind.unit), 1), 1 << 62)

    def of(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        """The bins of divided rows, shape (n,); and which rows have a cell, None: all."""
        keys, valid = self._encoded(self._divided, rows)
        return self._bin(self._cell(keys)), valid

    def reached(self, rows: pa.RecordBatch, routes: RoutingTable) -> np.ndarray:
        """Which copied rows may meet divided ones in the cells of each partition; bool, shape (partitions, n)."""
        side = OTHER[self._divided]
        keys, valid = self._encoded(side, rows)
        order = np.argsort(keys, kind="stable")
        if valid is not None:
            order = order[valid[order]]
        masks = np.zeros((self._count, len(keys)), np.bool_)
        for bound in self._condition.generator.bounds(side, keys[order]):
            which = order if bound.probes is None else order[bound.probes]
            first, last = self._cell(bound.lower), self._cell(bound.upper)
            more = last.view(np.uint64) - first.view(np.uint64)  # may be more than half of 2**64
            many = more >= self._count
            masks[:, which[many]] = True
            for at in range(self._count):
                on = np.flatnonzero((more >= at) & ~many)
                bins = self._bin(first[on] + at)
                for table in (routes.table, routes.also):
                    if table is not None:
                        to = table[bins]
                        one = to >= 0
                        masks[to[one], which[on[one]]] = True
                        masks[:, which[on[~one]]] = True
        return masks

    def _bin(self, cells: np.ndarray) -> np.ndarray:
        return cells % bins_of(self._count)

    def _cell(self, keys: np.ndarray) -> np.ndarray:
        """Monotone: what lies between two keys lies between their cells."""
        if self._kind.family is not Family.FLOAT:
            return keys.astype(np.int64, copy=False) // self.width
        with np.errstate(over="ignore"):
            cells = np.floor(decode_float(keys).astype(np.float64) / self.width)
        return np.nan_to_num(np.clip(cells, -_FAR, _FAR)).astype(np.int64)

    def _encoded(self, side: Side, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        table = pa.Table.from_batches([rows])
        keys, valid, _ = self._condition.encode(side, table, np.arange(len(table)))
        return keys, valid


Placement = StatelessPlacement | FullPlacement | EqualityPlacement


def can_follow(spec: JoinSpec) -> bool:
    """Whether the routes of a join can follow the data: each pair has a divided row, and rows leave the window."""
    bounded = spec.counted or (spec.within is not None and spec.watermark is not None)
    return bounded and spec.how != "full" and not spec.self_join and spec.as_of is None


def _common_type(part: Compare, left: pa.Schema, right: pa.Schema) -> pa.DataType:
    """A type in which values of both columns have one hash where they are equal."""
    kinds = column_type(left, part.left), column_type(right, part.right)
    known = [kind for kind in kinds if not pa.types.is_null(kind)]
    if kinds[0] == kinds[1] or len(known) < 2:
        return known[0] if known else pa.int64()
    if all(pa.types.is_integer(kind) for kind in kinds):
        return pa.int64()
    if all(pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    raise UnsupportedError(
        f"partitions go by equal values of the left column {part.left!r} ({kinds[0]}) and the right column "
        f"{part.right!r} ({kinds[1]}): cast both to one type"
    )


def _width_in(name: str) -> int | float | None:
    """Of the cells of a placement of this name; None: it has none."""
    found = re.fullmatch(r"[a-z]+-(.+)-bins", name)
    return None if found is None else float(found[1]) if re.search("[.e]", found[1]) else int(found[1])


def _by_content(rows: pa.RecordBatch, kept: list[str], partitions: int) -> np.ndarray:
    """The partitions of rows that are spread, by the columns that windows keep; int32, shape (n,)."""
    return (row_hashes(rows.select(kept)) % np.uint64(partitions)).astype(np.int32)


def open_placement(
    spec: JoinSpec, left: pa.Schema, right: pa.Schema, partitions: Partitions, name: str | None = None
) -> Placement:
    """The placement of a join whose partitions are not by equality, that of a name where one is given; "auto": by
    ranges of a band with two ends, if there is one, else by subwindows. Raises as `StatelessPlacement`."""
    if partitions.by == "auto":
        by = "subwindows" if _band(spec, left, right) is None else "ranges"
        partitions = dataclasses.replace(partitions, by=by)
    if spec.how == "full":
        return FullPlacement(spec, left, right, partitions, name)
    return StatelessPlacement(spec, left, right, partitions, name)


def _band(spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> Predicate | None:
    """The first part of a condition whose keys have an order and whose intervals have two ends; None: there is none."""
    for part in spec.on.conjuncts:
        if isinstance(part, Predicate) and not one_sided(part):
            condition = Condition(part, left, right)
            if condition.ordered and condition.bounded:
                return part
    return None
