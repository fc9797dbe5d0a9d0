"""Lower and upper bounds of each probe for a predicate, saturating.

Source: PanJoin, section IV (boundary generator), and section III-F for the predicates; the union of bands,
the exact treatment of floats and composite keys are ours.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.errors import PredicateError
from muntin.host.keys.durations import nanoseconds
from muntin.host.keys.key_type import LONG, NANOS_PER_DAY, Family, KeyType, decode_float, encode_float
from muntin.host.predicates import Compare, Piece, Predicate
from muntin.host.predicates.literal import float_bound, is_duration
from muntin.host.sides import SIDES, Side, Sides

_INT64 = np.iinfo(np.int64)
CODE_TYPE = KeyType(pa.int64(), Family.NUMBER, 64, int(_INT64.min), int(_INT64.max))
LONG_CODE_TYPE = dataclasses.replace(CODE_TYPE, bits=128, minimum=-(1 << 98), maximum=1 << 98)
"""Keys that the host makes itself: codes, and composite keys."""


@dataclasses.dataclass
class Bounds:
    """Closed intervals of encoded keys of the probed side, one per probe.

    Attributes
    ----------
    probes : ndarray of intp, shape (m,), or None
        Which probes these are, ascending; None: all of them. A probe that can match nothing is left out.
    lower, upper : ndarray, shape (m,), of the probed side's key dtype
        Each ascending, and ``lower <= upper``.
    """

    probes: np.ndarray | None
    lower: np.ndarray
    upper: np.ndarray


@dataclasses.dataclass(frozen=True)
class _IntegerBand:
    low: int | None
    high: int | None


@dataclasses.dataclass(frozen=True)
class _FloatBand:
    low: float | None
    high: float | None
    low_strict: bool
    high_strict: bool


class BoundaryGenerator:
    """Turns sorted probe keys into bounds on the other side's keys.

    Parameters
    ----------
    predicate : Predicate
    left, right : KeyType
        Encodings of the two columns, from `muntin.host.keys.key_type.key_types`.

    Attributes
    ----------
    key_types : dict of str to KeyType
        By side.
    one_column : bool
        Both keys are columns of one name: in a self join, the same column.
    open_ends : int
        As of `open_ends`.

    Raises
    ------
    PredicateError
        If a bound does not fit the type of the keys.
    """

    def __init__(self, predicate: Predicate, left: KeyType, right: KeyType):
        self.key_types: Sides[KeyType] = {"left": left, "right": right}
        self.one_column = predicate.left == predicate.right
        self.open_ends = open_ends(predicate)
        self._floating = left.family is Family.FLOAT
        columns = f"{predicate.left!r} and {predicate.right!r}"
        if self._floating:
            self._float_groups = _group_float([_float_band(p, columns) for p in predicate.pieces()])
        else:
            self._unit = min(left.unit, right.unit)  # within a family the finer unit divides the other
            bands = [_integer_band(p, 1 / self._unit, left.family, columns) for p in predicate.pieces()]
            self._integer_bands = _merge_integer(bands)

    def bounds(self, side: Side, keys: np.ndarray) -> list[Bounds]:
        """Bounds for rows of one side that probe the other.

        Parameters
        ----------
        side : str
            ``"left"`` or ``"right"``: the side the probing rows come from.
        keys : ndarray, shape (n,)
            Their encoded keys, ascending.

        Returns
        -------
        list of Bounds
            One for each disjoint interval of the predicate.
        """
        probe = self.key_types[side]
        target = self.key_types["right" if side == "left" else "left"]
        if not len(keys):
            return []
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        if self._floating:
            values = decode_float(keys).astype(np.float64)
            ends_of = _float_forward if side == "left" else _float_backward
            for group in self._float_groups if side == "left" else self._float_groups[::-1]:
                lowers, uppers = zip(*(ends_of(values, band) for band in group), strict=True)
                lower, upper = np.minimum.reduce(lowers), np.maximum.reduce(uppers)
                pairs.append((_to_width(lower, target, up=True), _to_width(upper, target, up=False)))
            if len(pairs) > 1:
                return [bounds for pair in _disjoint(pairs) for bounds in _ascending(_kept(*pair, target))]
        else:
            for integer in self._integer_bands if side == "left" else self._integer_bands[::-1]:
                low, high = integer.low, integer.high
                if side == "right":
                    low, high = (None if high is None else -high), (None if low is None else -low)
                pairs.append(self._integer_ends(keys, probe, target, low, high))
        return [_kept(lower, upper, target) for lower, upper in pairs]

    def row_bounds(self, side: Side, keys: np.ndarray, dtype: np.dtype[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """As `bounds`, for keys in any order: lower and upper bounds of each, lower above upper where it has none."""
        found = []
        order = np.argsort(keys, kind="stable")
        for bound in self.bounds(side, keys[order]):
            which = order if bound.probes is None else order[bound.probes]
            lower, upper = np.ones(len(keys), dtype), np.zeros(len(keys), dtype)
            lower[which], upper[which] = bound.lower, bound.upper
            found.append((lower, upper))
        return found

    def matches(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Whether left keys and right keys, shape (n,) each, satisfy the predicate pair by pair; bool, shape (n,)."""
        found = np.zeros(len(left), np.bool_)
        if self._floating:
            a, b = decode_float(left).astype(np.float64), decode_float(right).astype(np.float64)
            with np.errstate(over="ignore"):
                for band in (band for group in self._float_groups for band in group):
                    inside = np.ones(len(left), np.bool_)
                    if band.low is not None:
                        inside &= (a + band.low < b) if band.low_strict else (a + band.low <= b)
                    if band.high is not None:
                        inside &= (b < a + band.high) if band.high_strict else (b <= a + band.high)
                    found |= inside
            return found
        bands = self.constant_bands()
        if bands is not None:
            for low, high in bands:
                found |= between(left, right, low, high)
            return found
        order = np.argsort(left, kind="stable")
        for bound in self.bounds("left", left[order]):
            which = order if bound.probes is None else order[bound.probes]
            found[which] |= (bound.lower <= right[which]) & (right[which] <= bound.upper)
        return found

    def constant_bands(self) -> list[tuple[int | None, int | None]] | None:
        """The predicate as disjoint bands on the difference of encoded keys, ascending.

        Returns
        -------
        list of (low, high), or None
            A pair matches where ``low <= right - left <= high`` for one of them; an end that is None is open. None
            where no such bands say the same: floats, and keys of two units.
        """
        left, right = self.key_types["left"], self.key_types["right"]
        if self._floating or left.unit != right.unit:
            return None
        shift = right.offset - left.offset
        return [
            (None if band.low is None else band.low - shift, None if band.high is None else band.high - shift)
            for band in self._integer_bands
        ]

    def constant_band(self) -> tuple[int | None, int | None, bool] | None:
        """The predicate as one band on the difference of encoded keys, for whoever has nothing else.

        Returns
        -------
        (low, high, complement) or None
            A pair matches where ``low <= right - left <= high``, or with `complement` where not; an end that is None
            is open. None where no such band says the same: floats, keys of two units, unions of several bands.
        """
        bands = self.constant_bands()
        if bands is None or len(bands) > 2:
            return None
        if not bands:
            return 1, 0, False
        (low, high), complement = bands[0], len(bands) == 2
        if complement:
            if low is not None or high is None or bands[1][0] is None or bands[1][1] is not None:
                return None
            low, high = high + 1, bands[1][0] - 1
        return low, high, complement

    def _integer_ends(
        self, keys: np.ndarray, probe: KeyType, target: KeyType, low: int | None, high: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends; where nothing can match, lower is above upper."""
        if probe.unit == target.unit and probe.bits == target.bits and low is not None and high is not None:
            first, last = low + probe.offset - target.offset, high + probe.offset - target.offset
            fits = np.iinfo(target.dtype).min <= first and last <= np.iinfo(target.dtype).max
            if fits and int(keys[0]) + first >= target.minimum and int(keys[-1]) + last <= target.maximum:
                # The keys ascend, so no sum saturates: the usual case, at the width of the keys.
                return keys + target.dtype.type(first), keys + target.dtype.type(last)
        wide = keys.astype(np.int64, copy=False)
        lower = np.full(len(keys), target.minimum, np.int64)
        upper = np.full(len(keys), target.maximum, np.int64)
        if probe.unit == target.unit:
            shift = probe.offset - target.offset
            # A common unit equal to the columns' own: the difference of codes is the difference of values.
            if low is not None:
                lower, over = _saturating_add(wide, low + shift, target.minimum, target.maximum, at_top=True)
                lower[over], upper[over] = 1, 0
            if high is not None:
                ends, under = _saturating_add(wide, high + shift, target.minimum, target.maximum, at_top=False)
                upper = np.minimum(upper, ends)
                lower[under], upper[under] = 1, 0
            return lower, upper
        times, per = int(probe.unit / self._unit), int(target.unit / self._unit)
        values = (wide.astype(object) + probe.offset) * times
        if low is not None:
            ends = -((-(values + low)) // per) - target.offset
            over = (ends > target.maximum).astype(bool)
            lower = np.clip(ends, target.minimum, target.maximum).astype(np.int64)
            lower[over], upper[over] = 1, 0
        if high is not None:
            ends = (values + high) // per - target.offset
            under = (ends < target.minimum).astype(bool)
            upper = np.minimum(upper, np.clip(ends, target.minimum, target.maximum).astype(np.int64))
            lower[under], upper[under] = 1, 0
        return lower, upper


class CompositeGenerator(BoundaryGenerator):
    """Bounds for keys that are made of a code, which must be equal, and a value of 32 bits below it.

    The values of one code lie in a slot of four times their number, in its middle: what a band reaches from any of them
    stays in the slot. So a probe is one contiguous range of keys of one code, and a band on integers is a band on
    composite keys.

    Parameters
    ----------
    predicate : Predicate
        On the values.
    left, right : KeyType
        Encodings of the values.
    """

    _key_type = CODE_TYPE
    _farthest = 1 << 32  # no two values differ by more

    def __init__(self, predicate: Predicate, left: KeyType, right: KeyType):
        self.values = BoundaryGenerator(predicate, left, right)
        super().__init__(Compare(predicate.left, "=", predicate.right), self._key_type, self._key_type)
        self._bands: list[tuple[int, int]] | None = None
        bands, far = self.values.constant_bands(), self._farthest
        if bands is not None:
            ends = [(-far if a is None else a, far if b is None else b) for a, b in bands]
            self._bands = [(max(a, -far), min(b, far)) for a, b in ends if a <= far and b >= -far]

    def keys(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Composite keys of codes below 2**29 and encoded values; shape (n,)."""
        return (codes << _SLOT_BITS) + (values.astype(np.int64) + _SLOT_ZERO)

    def codes(self, keys: np.ndarray) -> np.ndarray:
        """The codes in composite keys; int64, shape (n,)."""
        return keys >> _SLOT_BITS

    def row_bounds(self, side: Side, keys: np.ndarray, dtype: np.dtype[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        values = self._values(keys).astype(self.values.key_types[side].dtype)
        codes = self.codes(keys)
        found = self.values.row_bounds(side, values, CODE_TYPE.dtype)
        return [(self.keys(codes, lower), self.keys(codes, upper)) for lower, upper in found]

    def bounds(self, side: Side, keys: np.ndarray) -> list[Bounds]:
        if not len(keys):
            return []
        if self._bands is not None and self._key_type is CODE_TYPE:
            if side == "left":
                return [Bounds(None, keys + low, keys + high) for low, high in self._bands]
            return [Bounds(None, keys - high, keys - low) for low, high in self._bands]
        found = []
        for lower, upper in self.row_bounds(side, keys, self._key_type.dtype):
            probes = np.flatnonzero(self._values(lower) <= self._values(upper))  # both of one code
            found.append(Bounds(probes, lower[probes], upper[probes]))
        return found

    def matches(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        kinds = self.values.key_types
        values = (self._values(keys).astype(kinds[side].dtype) for side, keys in zip(SIDES, (left, right), strict=True))
        return (self.codes(left) == self.codes(right)) & self.values.matches(*values)

    def constant_bands(self) -> list[tuple[int | None, int | None]] | None:
        return None if self._bands is None else list(self._bands)

    def _values(self, keys: np.ndarray) -> np.ndarray:
        return (keys & ((1 << _SLOT_BITS) - 1)) - _SLOT_ZERO


_SLOT_BITS = 34  # of a composite key, below its code: values take 32, and bounds may lie as far beyond either end
_SLOT_ZERO = (1 << 32) + (1 << 31)  # where the value 0 lies in its slot


class LongCompositeGenerator(CompositeGenerator):
    """The same in 128 bits, for values of 64: the code and the slot's quarter above, the value below."""

    _key_type = LONG_CODE_TYPE
    _farthest = 1 << 64

    def keys(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        keys = np.empty(len(codes), LONG)
        keys["high"] = codes << 2 | 1
        keys["low"] = values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN
        return keys

    def codes(self, keys: np.ndarray) -> np.ndarray:
        return keys["high"] >> 2

    def _values(self, keys: np.ndarray) -> np.ndarray:
        return (keys["low"] ^ _SIGN).view(np.int64)


_SIGN = np.uint64(1 << 63)


def open_ends(predicate: Predicate) -> int:
    """How little a predicate narrows down what a probe meets: the open ends of its intervals."""
    pieces = predicate.pieces()
    return sum(piece.low is None for piece in pieces) + sum(piece.high is None for piece in pieces)


def between(left: np.ndarray, right: np.ndarray, low: int | None, high: int | None) -> np.ndarray:
    """Whether ``low <= right - left <= high``, exactly, for integers of at most 64 bits, shape (n,); bool, shape (n,).

    An end that is None is open.
    """
    a, b = left.astype(np.int64, copy=False), right.astype(np.int64, copy=False)
    apart = b - a
    found = np.ones(len(apart), np.bool_)
    if low is not None:
        found &= apart >= max(low, _INT64.min) if low <= _INT64.max else False
    if high is not None:
        found &= apart <= min(high, _INT64.max) if high >= _INT64.min else False
    wide = np.flatnonzero(((b ^ a) & (apart ^ b)) < 0)  # the difference does not fit 64 bits
    if len(wide):
        exact = b[wide].astype(object) - a[wide].astype(object)
        inside = np.ones(len(wide), np.bool_)
        if low is not None:
            inside &= (exact >= low).astype(bool)
        if high is not None:
            inside &= (exact <= high).astype(bool)
        found[wide] = inside
    return found


def _disjoint(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Intervals of each key whose union is that of these, which may meet or change places once their ends are
    rounded."""
    lowers, uppers = (np.stack(ends) for ends in zip(*pairs, strict=True))
    if (lowers[1:] < lowers[:-1]).any():
        order = np.argsort(lowers, axis=0, kind="stable")
        lowers, uppers = (np.take_along_axis(ends, order, axis=0) for ends in (lowers, uppers))
    least = np.full(lowers.shape[1], _INT64.min)  # beyond the intervals before
    for lower, upper in zip(lowers, uppers, strict=True):
        lower = np.maximum(lower, least)
        least = np.where(lower <= upper, upper + 1, least)  # an interval without values ends nowhere
        yield lower, upper


def _ascending(bounds: Bounds) -> Iterator[Bounds]:
    """The same, in as many as it takes for the ends of each to ascend."""
    lower, upper = bounds.lower, bounds.upper
    chosen = (lower == np.maximum.accumulate(lower)) & (upper == np.maximum.accumulate(upper))
    if chosen.all():
        yield bounds
        return
    probes = np.arange(len(lower)) if bounds.probes is None else bounds.probes
    yield Bounds(probes[chosen], lower[chosen], upper[chosen])
    yield from _ascending(Bounds(probes[~chosen], lower[~chosen], upper[~chosen]))


def _kept(lower: np.ndarray, upper: np.ndarray, target: KeyType) -> Bounds:
    keep = lower <= upper
    if keep.all():
        return Bounds(None, lower.astype(target.dtype, copy=False), upper.astype(target.dtype, copy=False))
    probes = np.flatnonzero(keep)
    return Bounds(probes, lower[probes].astype(target.dtype), upper[probes].astype(target.dtype))


def _saturating_add(
    keys: np.ndarray, delta: int, minimum: int, maximum: int, *, at_top: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``keys + delta`` clipped to a domain, and where it lies beyond the end that leaves nothing to match.

    The keys ascend, so those whose sum leaves 64 bits lie at the ends: before `start` and from `stop` on.
    """
    delta = max(-(1 << 64), min(1 << 64, delta))  # beyond this every sum saturates alike
    start, stop = 0, len(keys)
    lowest, highest = _INT64.min - delta, _INT64.max - delta
    if lowest > _INT64.min:
        start = len(keys) if lowest > _INT64.max else int(np.searchsorted(keys, np.int64(lowest), "left"))
    if highest < _INT64.max:
        stop = 0 if highest < _INT64.min else int(np.searchsorted(keys, np.int64(highest), "right"))
    sums = np.empty(len(keys), np.int64)
    sums[:start], sums[stop:] = _INT64.min, _INT64.max
    if start < stop:  # in parts, each of which fits 64 bits and leads to a sum that does
        third = delta // 3
        sums[start:stop] = keys[start:stop] + np.int64(third) + np.int64(third) + np.int64(delta - 2 * third)
    if at_top:
        outside = sums > maximum
        outside[stop:] = True
    else:
        outside = sums < minimum
        outside[:start] = True
    return np.clip(sums, minimum, maximum), outside


def exact_bound(value: object, family: Family, columns: str) -> Fraction:
    """A bound on keys, or their difference, in the family's own unit. Raises PredicateError, WindowError."""
    if is_duration(value):
        if family in (Family.NUMBER, Family.FLOAT):
            raise PredicateError(f"the keys {columns} are numbers: give {value!r} as a number")
        length = Fraction(nanoseconds(value))
        if family is Family.DATE:
            length /= NANOS_PER_DAY
        return length
    if value != 0 and family in (Family.TIMESTAMP, Family.TIMESTAMP_TZ, Family.DURATION, Family.TIME):
        raise PredicateError(f"the keys {columns} are times: give {value!r} with its unit, such as '{value} seconds'")
    if isinstance(value, float) and not value.is_integer():  # 0.1 means a tenth
        return Fraction(decimal.Decimal(repr(value)))
    assert isinstance(value, (int, float, decimal.Decimal))
    return Fraction(value)


def _integer_band(piece: Piece, scale: Fraction, family: Family, columns: str) -> _IntegerBand:
    low = high = None
    if piece.low is not None:
        exact = exact_bound(piece.low, family, columns) * scale
        low = -((-exact.numerator) // exact.denominator)
        low += piece.low_strict and exact.denominator == 1
    if piece.high is not None:
        exact = exact_bound(piece.high, family, columns) * scale
        high = exact.numerator // exact.denominator
        high -= piece.high_strict and exact.denominator == 1
    return _IntegerBand(low, high)


def _merge_integer(bands: list[_IntegerBand]) -> list[_IntegerBand]:
    """The same union as disjoint bands that do not touch, ascending."""
    bands = [b for b in bands if b.low is None or b.high is None or b.low <= b.high]
    bands.sort(key=lambda b: (b.low is not None, b.low or 0))
    merged: list[_IntegerBand] = []
    for band in bands:
        last = merged[-1] if merged else None
        if last is not None and (last.high is None or band.low is None or band.low <= last.high + 1):
            high = None if last.high is None or band.high is None else max(last.high, band.high)
            merged[-1] = _IntegerBand(last.low, high)
        else:
            merged.append(band)
    return merged


def _float_band(piece: Piece, columns: str) -> _FloatBand:
    low, high = (None if end is None else float_bound(f"the keys {columns}", end) for end in (piece.low, piece.high))
    return _FloatBand(low, high, piece.low_strict, piece.high_strict)


def _group_float(bands: list[_FloatBand]) -> list[list[_FloatBand]]:
    """The bands in groups, ascending; those of a group leave no gap between them, whatever the key.

    Rounding is monotone, so bands that meet and leave no end out still meet once their ends are rounded. Others may
    have no value then, or leave out the one at which they meet.
    """
    inf = float("inf")
    groups: list[list[_FloatBand]] = []
    end, whole = -inf, False
    for band in sorted(bands, key=lambda b: (-inf if b.low is None else b.low, b.low_strict)):
        start = -inf if band.low is None else band.low
        high = inf if band.high is None else band.high
        plain = not (band.low_strict or band.high_strict)
        if plain and whole and start <= end:
            groups[-1].append(band)
            end = max(end, high)
        else:
            groups.append([band])
            end, whole = high, plain
    return groups


_LOWEST, _HIGHEST = (int(c) for c in encode_float(np.array([-np.inf, np.inf])))


def _float_forward(left: np.ndarray, band: _FloatBand) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the right values with ``left + low <= right <= left + high``, as float64 codes."""
    lower = np.full(len(left), _LOWEST, np.int64)
    upper = np.full(len(left), _HIGHEST, np.int64)
    with np.errstate(over="ignore"):
        if band.low is not None:
            lower = encode_float(left + band.low) + int(band.low_strict)
        if band.high is not None:
            upper = encode_float(left + band.high) - int(band.high_strict)
    return lower, upper


def _float_backward(right: np.ndarray, band: _FloatBand) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the left values with ``left + low <= right <= left + high``, as float64 codes.

    The rounded sum is monotone in `left`, so the left values that hold are an interval; its ends are searched
    from ``right - bound``, which is at most a few roundings away.
    """
    lower = np.full(len(right), _LOWEST, np.int64)
    upper = np.full(len(right), _HIGHEST, np.int64)
    if band.high is not None:
        high = band.high

        def reaches(codes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
            sums, goal = decode_float(codes) + high, right[chosen]
            return goal < sums if band.high_strict else goal <= sums

        with np.errstate(over="ignore"):
            lower = _first_true(reaches, right - high)
    if band.low is not None:
        low = band.low

        def passes(codes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
            sums, goal = decode_float(codes) + low, right[chosen]
            return goal <= sums if band.low_strict else goal < sums

        with np.errstate(over="ignore"):
            upper = _first_true(passes, right - low) - 1
    return lower, upper


def _first_true(holds: Callable[[np.ndarray, np.ndarray], np.ndarray], guess: np.ndarray) -> np.ndarray:
    """The least float64 code for which a monotone condition holds, per element; one past the highest if none.

    Gallops from the guess until the change lies between two codes, then halves.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.full(len(guess), _LOWEST - 1, np.int64)  # does not hold, or lies outside
        above = np.full(len(guess), _HIGHEST + 1, np.int64)  # holds, or lies outside
        at = encode_float(guess)
        active = np.arange(len(guess))
        step = 1
        known_below = np.zeros(len(guess), bool)
        known_above = np.zeros(len(guess), bool)
        while len(active):
            codes = at[active]
            true = holds(codes, active)
            above[active[true]] = codes[true]
            known_above[active[true]] = True
            below[active[~true]] = codes[~true]
            known_below[active[~true]] = True
            active = active[below[active] + 1 < above[active]]
            low, high = below[active], above[active]
            both = known_below[active] & known_above[active]
            middle = (low >> 1) + (high >> 1) + (low & high & 1)  # the sum itself may not fit 64 bits
            room = high.view(np.uint64) - low.view(np.uint64) - np.uint64(1)
            stride = np.minimum(room, np.uint64(step)).astype(np.int64)
            at[active] = np.where(both, middle, np.where(known_above[active], high - stride, low + stride))
            step = min(step * 2, 1 << 61)
    return above


def _to_width(codes: np.ndarray, target: KeyType, *, up: bool) -> np.ndarray:
    """float64 codes as codes of the target's width: the nearest value not below (`up`) or not above."""
    if target.bits == 64:
        return codes
    if not up:
        codes = np.where(codes == -1, -2, codes)  # -1 would be -0.0, which no key is: the value below it
    outside_low, outside_high = codes < _LOWEST, codes > _HIGHEST
    exact = decode_float(np.clip(codes, _LOWEST, _HIGHEST))
    with np.errstate(over="ignore"):
        narrow = exact.astype(np.float32)
    result = encode_float(narrow).astype(np.int64)
    if up:
        result += narrow.astype(np.float64) < exact
    else:
        result -= narrow.astype(np.float64) > exact
    result[outside_low] = target.minimum - 1
    result[outside_high] = target.maximum + 1
    return result
