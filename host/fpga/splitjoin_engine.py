"""The SplitJoin engine: rows of both streams go to the device as they arrived, and it keeps the windows.

Source: SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016). Bounds that come with each row, and marks that empty
time windows, are ours.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from muntin.contract.designs.splitjoin import NUMBER_BITS, RESULT_FIELDS, JoinSettings, Order
from muntin.host.call import Batch, Call, Counts, OrderedPairs, Pairs, Want
from muntin.host.devices.device import DeviceInfo
from muntin.host.engine.engine import Engine, EngineSpec, EngineStatus, Held, beyond_capacity
from muntin.host.errors import CapacityError, DeviceError, IncompleteError, UnsupportedError
from muntin.host.fpga.splitjoin import Joined, JoinRows, SplitJoinBoard
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import OTHER, SIDES, Side, Sides

STEP_ROWS = 1 << 14  # rows of a call that are joined at a time
_ORDERS = {"none": Order.NONE, "outer": Order.OUTER, "inner": Order.INNER}
_MAX_WINDOW = (1 << NUMBER_BITS) - STEP_ROWS  # so that rows that meet differ in the bits that the device keeps
_NUMBER = (1 << NUMBER_BITS) - 1
_ANY_LATER = ((1 << 64) - 1,) * 2  # rows promise nothing about later ones, only marks do


class Boards(Protocol):
    """What the engine needs of a device; see `muntin.host.fpga.device.FpgaDevice`."""

    info: DeviceInfo
    parameters: Any

    def open_board(self) -> SplitJoinBoard: ...

    def release_board(self, board: SplitJoinBoard) -> None: ...


class SplitJoinEngine(Engine):
    """Joins batches on a SplitJoin kernel, in the order of arrival of their rows.

    A row that can match nothing takes its place in a count window, and so is sent all the same; a time window never
    sees it. The condition goes with the rows, as the interval of the other stream's keys that each may meet; a row with
    several intervals is sent once more for each. A build whose rows carry no bounds has one band for all. On a build of
    two columns rows carry a key and an interval of a further part of the condition, too, where there is one: a row is
    sent for each pair of an interval of the one part and one of the other.

    Order is the device's own: punctuation tells where the pairs of each row end, or of each group of rows in outer
    order with an interval, and the engine checks it. Rows say which group goes on with the next row of their stream;
    none does beyond a step, at whose end all pairs are out. Only where a row has several intervals, and order "inner"
    wants its pairs by stored row across them, are they sorted here.

    In a self join both streams are sent, of the same rows.

    Time windows are emptied by what `expire` says. A mirror of what each core holds tells beforehand where a call
    would not fit. It may hold a row longer than the core does, never shorter: rows whose time lies at the very low end
    of 64 bits, where no other row can be early enough to match them, leave a core by themselves.

    Parameters
    ----------
    device : Boards
    spec : EngineSpec
    generator : BoundaryGenerator
    key_bits : dict of str to int
        Width of the encoded keys of each side.

    Raises
    ------
    CapacityError
        If a count window is longer than the device's, with the capacity.
    UnsupportedError
        If it takes another build to carry out the join, saying which.
    DeviceError
        If no board is free, or it fails.
    """

    def __init__(
        self,
        device: Boards,
        spec: EngineSpec,
        generator: BoundaryGenerator,
        key_bits: Sides[int],
    ):
        # Pairs of a self join come from either role of a row, and only the operator can put them in order.
        self.spec = dataclasses.replace(spec, order="none") if spec.self_join else spec
        self._counts = spec.counts
        if spec.self_join and spec.counts is not None:
            # A row in the right role comes after itself in the left one, which is taken out of its results again.
            self._counts = spec.counts | {"left": spec.counts["left"] + 1}
        self._spent = dict.fromkeys(("bounds", "pack", "join", "unpack"), 0.0)
        self._device = device
        self._generator = generator
        self._name = device.info.name
        p = self._parameters = device.parameters
        self._every_log2, self._group = 0, 1
        if self.spec.order == "inner":  # a lesser interval will do
            self._every_log2 = min(self.spec.every.bit_length() - 1, p.every_log2_max)
        if self.spec.order == "outer":
            self._group = self.spec.every  # rows of both streams
        self._check_windows()
        settings = self._settings(key_bits)
        self._next = dict.fromkeys(SIDES, 0)  # number of the next row of each stream, as the device gets it
        self._held = {side: HeldRows(p.cores, p.rows) for side in SIDES if spec.within is not None}
        self._marks: list[JoinRows] = []
        self._core: int | None = None
        self._board = device.open_board()
        try:
            self._board.configure(settings)
        except BaseException:
            self.close()
            raise

    # What the build can do

    def _check_windows(self) -> None:
        p = self._parameters
        most = min(p.capacity, _MAX_WINDOW)
        for side, rows in (self._counts or {}).items():
            if rows > most:
                raise CapacityError(
                    f"the {side} window of {rows:,} rows does not fit device {self._name}: its capacity is {most:,} "
                    f"rows a window, {p.rows:,} in each of {p.cores} cores. Use a smaller window or another device",
                    rows,
                    most,
                )

    def _settings(self, key_bits: Sides[int]) -> JoinSettings:
        p, spec = self._parameters, self.spec
        if len(spec.others) >= p.columns:
            raise self._needs(f"by {1 + len(spec.others)} parts of a condition", f"columns={1 + len(spec.others)}")
        widest = max(*key_bits.values(), *(kind.bits for part in spec.others for kind in part.key_types.values()))
        if widest > p.key_bits:
            raise self._needs(f"keys of {widest} bits", f"key_bits={widest}")
        windows: dict[str, Any] = {}
        if self._counts is not None:
            windows = {"windows": tuple(self._counts[side] for side in SIDES)}
        else:
            if p.time_bits != 64:
                raise self._needs("time windows", "time_bits=64")
            assert spec.within is not None
            self._time_low, self._time_high = _band(*spec.within, 64)
            windows = {"timed": True, "time_low": self._time_low, "time_high": self._time_high, "late": _ANY_LATER}
        band: dict[str, Any] = {"own_bounds": True}
        if not p.bounds:
            constant = self._generator.constant_band()
            if constant is None:
                raise self._needs("floating-point keys, keys of two units, or a union of bands", "bounds=1")
            low, high = _band(*constant[:2], p.key_bits)
            band = {"low": low, "high": high, "complement": constant[2]}
        return JoinSettings(order=_ORDERS[spec.order], every=self._every_log2, **windows, **band)

    def _needs(self, what: str, build: str) -> UnsupportedError:
        return UnsupportedError(
            f"device {self._name} cannot join {what}: that needs a SplitJoin kernel built with {build}"
        )

    # What the operator asks

    def status(self) -> EngineStatus:
        return EngineStatus(
            {side: self._stored_rows(side) for side in SIDES}, self._board.nbytes, seconds=dict(self._spent)
        )

    def _stored_rows(self, side: Side) -> int:
        return len(self._held[side]) if self.spec.counts is None else min(self._next[side], self.spec.counts[side])

    def admit(self, call: Call) -> Call:
        p, new_rows = self._parameters, call.new_rows
        for side, held in self._held.items():
            rows = len(held) + new_rows[side]
            if self.spec.capacity is not None and rows > self.spec.capacity:
                raise beyond_capacity(side, rows, self.spec.capacity)
            fullest = held.fullest(new_rows[side])
            if fullest > p.rows:
                raise CapacityError(
                    f"the {side} window would hold {rows:,} rows, {fullest:,} of them in one core, on device "
                    f"{self._name}, whose capacity is {p.capacity:,} rows a window, {p.rows:,} in each of {p.cores} "
                    "cores: shorten the window, give a watermark or use another device",
                    fullest,
                    p.rows,
                )
        return call

    def run(self, call: Call) -> Iterator[OrderedPairs | Pairs | Counts]:
        # What is stored without pairs goes the same way: a core has no other.
        counting = call.want in (Want.COUNTS, Want.NOTHING)
        streams = {
            side: self._stream(side, call.batches[side], call.other_position[side], call.arrived[side])
            for side in SIDES
        }
        with self._timed("pack"):
            rows = JoinRows.concatenate([streams[side][0] for side in SIDES])
            place = np.concatenate([streams[side][1] for side in SIDES])
            order = np.lexsort((rows.again, place))  # stable: a row's intervals stay as they were
            rows, place = rows.take(order), place[order]
            if len(rows) and self._marks:
                rows = JoinRows.concatenate([*self._marks, rows])
                place = np.concatenate([np.full(len(self._marks), -1), place])
                self._marks = []
        for step in self._steps(rows):
            part = rows.take(step)
            if self.spec.order == "outer":
                part.more[:] = self._goes_on(part, place[step])
            for at, side in enumerate(SIDES):
                numbers = part.number[(part.side == at) & ~part.mark]
                if len(numbers):
                    self._next[side] = int(numbers.max()) + 1
            with self._timed("join"):
                joined = self._board.join(part)
            with self._timed("unpack"):
                yield from self._unpack(part, place[step], joined, counting)
        if self._core is not None:
            raise IncompleteError(
                f"device {self._name}: join core {self._core} stopped answering, and the pairs it would have found are "
                "missing. Its window is lost: open the device again",
                self._core,
            )

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        for side, limit in expiry.items():
            if limit is None:
                continue
            # A mark of the other stream, of the time whose horizon lies right behind the limit.
            to_horizon = self._time_low if side == "right" else -self._time_high
            at = min(max(limit + 1 + (1 << 63) - to_horizon, 0), (1 << 64) - 1)
            if self._held[side].drop(min(at + to_horizon, 1 << 64)):
                mark = JoinRows.zeros(1, self._parameters.columns)
                mark.side[:], mark.mark[:], mark.time[:] = SIDES.index(OTHER[side]), True, at
                self._marks.append(mark)
        return {side: Held(self._held[side].oldest_row) for side in SIDES}

    def close(self) -> None:
        self._device.release_board(self._board)

    # Rows on their way out

    def _steps(self, rows: JoinRows) -> Iterator[slice]:
        """Cuts a call so that a step's results fit memory; all that a row sends lies in one step."""
        start = 0
        while start < len(rows):
            stop = start + STEP_ROWS
            while stop < len(rows) and rows.again[stop]:
                stop += 1
            yield slice(start, stop)
            start = stop

    def _stream(
        self, side: Side, batch: Batch, other_position: np.ndarray, arrived: int
    ) -> tuple[JoinRows, np.ndarray]:
        """The records of one side's rows, and the place of each in the order of arrival."""
        bits, columns = self._parameters.key_bits, self._parameters.columns
        if self.spec.counts is not None:
            base = arrived - len(other_position)
            rows = JoinRows.zeros(len(other_position), columns)
            rows.number[:] = np.arange(base, arrived)
            rows.null[:] = True
            place = rows.number + other_position
            own = batch.rows - base
        else:
            held = self._held[side]
            rows = JoinRows.zeros(len(batch), columns)
            rows.number[:] = held.end + np.arange(len(batch))
            place = batch.rows + batch.other_position
            own = np.arange(len(batch))
            assert batch.times is not None
            rows.time[:] = _unsigned(batch.times, 64)
            held.add(batch.rows, rows.time)
        rows.side[:] = SIDES.index(side)
        if self.spec.self_join:
            place = place + SIDES.index(side)
        rows.null[own] = False
        rows.key[own] = _unsigned(batch.keys, bits)
        rows.lower[:], rows.upper[:] = 1, 0
        if rows.key_2 is not None and self.spec.others:
            rows.key_2[own] = _unsigned(batch.others[0], bits)
        if not self._parameters.bounds:
            return rows, place
        again: list[JoinRows] = []
        places = [place]
        fresh = np.ones(len(rows), np.bool_)
        with self._timed("bounds"):
            for which, ends in self._intervals(side, batch):
                which, first = own[which], fresh[own[which]]
                for name, end in ends.items():
                    getattr(rows, name)[which[first]] = end[first]
                fresh[which] = False
                if not first.all():
                    repeated = rows.take(which[~first])
                    repeated.again[:] = True
                    for name, end in ends.items():
                        setattr(repeated, name, end[~first])
                    again.append(repeated)
                    places.append(place[which[~first]])
        return JoinRows.concatenate([rows, *again]), np.concatenate(places)

    def _intervals(self, side: Side, batch: Batch) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Rows of a batch, and the ends of one of the intervals of each, of both columns where there are two: by the
        names that `JoinRows` has for them."""
        bits = self._parameters.key_bits
        order = np.argsort(batch.keys, kind="stable")
        second: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for part, keys in zip(self.spec.others, batch.others, strict=True):
            for lower, upper in part.row_bounds(side, keys, part.key_types[OTHER[side]].dtype):
                second.append((lower <= upper, _unsigned(lower, bits), _unsigned(upper, bits)))
        for bound in self._generator.bounds(side, batch.keys[order]):
            which = order if bound.probes is None else order[bound.probes]
            ends = {"lower": _unsigned(bound.lower, bits), "upper": _unsigned(bound.upper, bits)}
            if self._parameters.columns == 1:
                yield which, ends
            elif not self.spec.others:
                yield which, ends | {"upper_2": np.full(len(which), (1 << bits) - 1, np.uint64)}
            for some, lower, upper in second:
                both = some[which]
                met = which[both]
                yield (
                    met,
                    {name: end[both] for name, end in ends.items()} | {"lower_2": lower[met], "upper_2": upper[met]},
                )

    def _goes_on(self, rows: JoinRows, place: np.ndarray) -> np.ndarray:
        """Which rows of a step are followed by one of their stream in the same group of so many rows of both streams;
        all that a row sends belongs to its group. Bool, shape (n,)."""
        more = np.zeros(len(rows), np.bool_)
        for at in range(len(SIDES)):
            own = np.flatnonzero((rows.side == at) & ~rows.mark)
            more[own[:-1]] = np.diff(place[own] // self._group) == 0
        return more

    # Results on their way back

    def _unpack(
        self, rows: JoinRows, place: np.ndarray, joined: Joined, counting: bool
    ) -> Iterator[OrderedPairs | Pairs | Counts]:
        if joined.overflow:
            raise self._out_of_step("a time window overflowed that was thought to have room")
        if joined.dead_core is not None and self._core is None:
            self._core = joined.dead_core
        (probe_field, side_field), (row_field, star_field) = RESULT_FIELDS
        words = joined.results.astype(np.int64)
        star = words[:, 1] & star_field.mask != 0
        pair = np.flatnonzero(~star)
        record = None
        if self.spec.order == "none":
            if star.any():
                raise self._out_of_step("punctuation came out though none was asked for")
        else:
            record = self._follow(rows, place, words, star)[pair]
        side = words[pair, 0] >> side_field.lsb
        probing = self._exact(side, words[pair, 0] & probe_field.mask)
        stored = self._exact(1 - side, words[pair, 1] & row_field.mask)
        for at, name in enumerate(SIDES):
            own = rows.number[(rows.side == at) & ~rows.mark]
            mine = probing[side == at]
            if len(mine) and (not len(own) or mine.min() < own.min()):
                raise self._out_of_step(f"a pair came out of a {name} row that was not given")
        if record is not None and self.spec.order == "inner":
            group = stored // self._parameters.cores >> self._every_log2 if self._every_log2 else stored
            if ((np.diff(record) == 0) & (np.diff(group) < (0 if self._every_log2 else 1))).any():
                raise self._out_of_step("the pairs of a row did not come out by their stored rows")
            if rows.again.any():
                order = np.lexsort((stored, place[record]))
                side, probing, stored = side[order], probing[order], stored[order]
        if self._held:
            probing, stored = self._arrivals(side, probing), self._arrivals(1 - side, stored)
        if self.spec.self_join:
            others = probing != stored
            side, probing, stored = side[others], probing[others], stored[others]
            if not counting:
                for at, name in enumerate(SIDES):
                    yield Pairs(name, probing[side == at], stored[side == at])
                return
        if not counting:
            left = side == 0
            yield OrderedPairs(np.where(left, probing, stored), np.where(left, stored, probing))
            return
        for at, name in enumerate(SIDES):
            yield Counts(name, *np.unique(probing[side == at], return_counts=True))

    def _follow(self, rows: JoinRows, place: np.ndarray, words: np.ndarray, star: np.ndarray) -> np.ndarray:
        """The record with which the group ends that each of them is a result of, as punctuation tells: but for outer
        order with an interval that of the probing row itself. int64, shape (m,).

        Raises
        ------
        DeviceError
            If a result came out of its turn.
        """
        (probe_field, side_field), (_, _) = RESULT_FIELDS
        side = words[:, 0] >> side_field.lsb
        number = self._exact(side, words[:, 0] & probe_field.mask)
        ends = star & (words[:, 1] & 1 != 0)
        record = np.empty(len(words), np.int64)
        for at in range(len(SIDES)):
            mine, own = side == at, np.flatnonzero((rows.side == at) & ~rows.mark)
            last = np.flatnonzero(~rows.more[own])  # among the stream's own, of each group
            first = np.append(0, last[:-1] + 1)[: len(last)]
            ended = np.cumsum(ends[mine])
            turn = ended - ends[mine]
            short = int(ends[mine].sum()) < len(last) and self._core is None
            if short or (len(turn) and int(turn[-1]) >= len(last)):
                raise self._out_of_step(
                    f"{len(last)} groups of {SIDES[at]} rows were given, and the results of {int(ends[mine].sum())} "
                    "came to an end"
                )
            first, last = own[first[turn]], own[last[turn]]
            found, final = number[mine], ends[mine]
            wrong = (found < rows.number[first]) | (found > rows.number[last])
            wrong |= final & (found != rows.number[last])
            if wrong.any():
                raise self._out_of_step("the results of a row came out of their turn")
            record[mine] = last
        if (np.diff(place[record] // self._group) < 0).any():
            raise self._out_of_step("the results of a row came out of their turn")
        return record

    def _exact(self, side: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Numbers of rows of either stream from their low bits: none is newer than the last one that was given."""
        last = np.array([self._next[name] - 1 for name in SIDES])[side]
        return last - ((last - low) & _NUMBER)

    def _arrivals(self, side: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Arrival numbers of rows of either stream; in a time window the device counts only those it was given."""
        made = np.empty_like(numbers)
        for at, name in enumerate(SIDES):
            made[side == at] = self._held[name].rows(numbers[side == at])
        return made

    def _out_of_step(self, what: str) -> DeviceError:
        return DeviceError(
            f"device {self._name}: {what}. The board and this driver are out of step: open the device again"
        )

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._spent[step] += time.perf_counter() - start


def _unsigned(values: np.ndarray, bits: int) -> np.ndarray:
    """Signed numbers as unsigned ones in the same order, uint64."""
    if bits == 64:
        return values.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)
    return (values.astype(np.int64) + (1 << (bits - 1))).astype(np.uint64)


def _band(low: int | None, high: int | None, bits: int) -> tuple[int, int]:
    """A band on the difference of numbers of so many bits, as the registers take it: an end that is None is open."""
    least, most = -(1 << bits), (1 << bits) - 1
    if low is not None and low > most:
        return 1, 0  # which no difference lies in
    return least if low is None else max(low, least), most if high is None else min(high, most)


class HeldRows:
    """A mirror of one stream's rows, as far as the kernel has not dropped them.

    Row n of those that were added is held by core ``n % cores``. A core drops rows at its old end alone: a row that may
    still match keeps all those behind it in its core.

    Parameters
    ----------
    cores, rows : int
        How many cores there are, and how many rows of a stream each has room for.

    Attributes
    ----------
    end : int
        Rows added.
    """

    def __init__(self, cores: int, rows: int):
        self._cores, self._rows = cores, rows
        self.end = 0
        self._base = 0
        self._oldest = np.arange(cores)  # of each core, the oldest row that it holds, or the next it will
        self._columns = [np.zeros(1024, kind) for kind in (np.int64, np.uint64)]  # arrival numbers, times

    def __len__(self) -> int:
        return int(self._held(0).sum())

    def _held(self, more: int) -> np.ndarray:
        """Rows of each core once so many are added."""
        cores = self._cores
        return -((self._oldest - self.end - more) // cores)

    def fullest(self, more: int) -> int:
        """Rows of the core that holds the most, once so many are added."""
        return int(self._held(more).max())

    @property
    def oldest_row(self) -> int | None:
        """The least arrival number that is held."""
        heads = self._oldest[self._oldest < self.end]
        return int(self._columns[0][heads - self._base].min()) if len(heads) else None

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Adds rows by arrival number, int64, and unsigned time, uint64; there must be room."""
        new = len(rows)
        if self.end - self._base + new > len(self._columns[0]):
            start = min(int(self._oldest.min()), self.end)
            kept = self.end - start
            for at, column in enumerate(self._columns):
                grown = np.zeros(max(1024, 2 * (kept + new)), column.dtype)
                grown[:kept] = column[start - self._base : self.end - self._base]
                self._columns[at] = grown
            self._base = start
        place = self.end - self._base
        for column, values in zip(self._columns, (rows, times), strict=True):
            column[place : place + new] = values
        self.end += new

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Arrival numbers of rows that were held since the last that was added."""
        return self._columns[0][numbers - self._base]

    def drop(self, horizon: int) -> bool:
        """Drops the oldest rows of each core that have an earlier time than this; whether there were any."""
        dropped = False
        while True:
            early = self._oldest < self.end
            times = self._columns[1][self._oldest[early] - self._base]
            early[early] = times <= np.uint64(horizon - 1) if horizon > 0 else False
            if not early.any():
                return dropped
            self._oldest[early] += self._cores
            dropped = True
