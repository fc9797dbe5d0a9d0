"""Streams, windows and predicates that SplitJoin is tried with."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

from muntin.contract.designs.splitjoin import JoinSettings, Order
from muntin.sim.models.splitjoin import JoinRow

KEYS = ("uniform", "few", "equal", "extreme", "narrow")
PREDICATES = ("=", "!=", "<", "<=", ">", ">=", "band", "far band", "empty band", "all")
STREAMS = ("mixed", "mixed", "in turn", "left then right", "runs", "left only", "empty")


@dataclasses.dataclass(frozen=True)
class JoinCase:
    """Rows in order of arrival, and what joins them."""

    rows: list[JoinRow]
    settings: JoinSettings


def predicate(kind: str, rng: random.Random, bits: int) -> dict[str, int | bool]:
    """The bounds of a predicate on the right key minus the left one."""
    least, greatest = -(1 << bits), (1 << bits) - 1
    near, far = rng.randint(-20, 20), rng.randint(least, greatest)
    bounds = {
        "=": (0, 0),
        "!=": (0, 0),
        "<": (1, greatest),
        "<=": (0, greatest),
        ">": (least, -1),
        ">=": (least, 0),
        "band": (near, near + rng.randint(0, 30)),
        "far band": (far, min(far + (1 << (bits - 2)), greatest)),
        "empty band": (near, near - 1),
        "all": (least, greatest),
    }
    low, high = bounds[kind]
    return {"low": low, "high": high, "complement": kind == "!=" or (kind == "far band" and rng.random() < 0.5)}


def _keys(kind: str, rng: random.Random, bits: int) -> Iterator[int]:
    top = (1 << bits) - 1
    while True:
        if kind == "equal":
            yield 7
        elif kind == "few":
            yield rng.randrange(4)
        elif kind == "narrow":
            yield (1 << (bits - 1)) + rng.randint(-30, 30)
        elif kind == "extreme":
            yield rng.choice([0, 1, top >> 1, (top >> 1) + 1, top - 1, top])
        else:
            yield rng.randint(0, top)


def _sides(kind: str, rng: random.Random, count: int) -> list[int]:
    if kind == "empty":
        return []
    if kind == "left only":
        return [0] * count
    if kind == "in turn":
        return [at & 1 for at in range(count)]
    if kind == "left then right":
        return [int(2 * at >= count) for at in range(count)]
    if kind == "runs":
        sides: list[int] = []
        while len(sides) < count:
            sides += [rng.randrange(2)] * rng.randrange(1, 20)
        return sides[:count]
    return [rng.randrange(2) for _ in range(count)]


def cases(
    rng: random.Random,
    *,
    cores: int,
    rows: int,
    key_bits: int,
    time_bits: int,
    bounds: int,
    count: int,
    columns: int = 1,
    length: int | None = None,
    orders: Sequence[Order] = (Order.OUTER, Order.INNER, Order.NONE, Order.INNER),
) -> Iterator[JoinCase]:
    """Cases that reach every limit of windows, keys and order.

    Parameters
    ----------
    rng : random.Random
    cores, rows, key_bits, time_bits, bounds, columns : int
        Of the build.
    count : int
        Cases to make; those of one predicate and one order after another.
    length : int, optional
        Rows of each case; enough to fill the windows a few times where it is not given.
    orders : sequence of Order
        Taken in turn.
    """
    capacity = cores * rows
    wanted = {0, 1, cores - 1, cores, cores + 1, capacity // 2 + 1, capacity - 1, capacity}
    lengths = sorted(length for length in wanted if length <= capacity)
    for number in range(count):
        timed = bool(time_bits) and number % 3 == 2
        many = length or rng.randint(2 * capacity, 4 * capacity)
        settings = JoinSettings(
            windows=(rng.choice([*lengths, rng.randint(0, capacity)]), rng.choice(lengths)),
            order=orders[number % len(orders)],
            every=rng.randint(0, rows.bit_length() - 1),
            timed=timed,
            **predicate(PREDICATES[number % len(PREDICATES)], rng, key_bits),
        )
        keys = _keys(KEYS[number % len(KEYS)], rng, key_bits)
        sides = _sides(STREAMS[number % len(STREAMS)], rng, many)
        made = [
            JoinRow(side=side, key=next(keys), row=(number << 20) + at, null=rng.random() < 0.05)
            for at, side in enumerate(sides)
        ]
        if timed:
            made, settings = _with_times(made, settings, rng, capacity, time_bits)
        if bounds and number % 5 in (1, 3):
            made, settings = _with_bounds(made, settings, rng, KEYS[number % len(KEYS)], key_bits)
        if columns > 1:
            made = _with_second_column(made, rng, KEYS[(number + 1) % len(KEYS)], key_bits)
        if rng.random() < 0.7:
            made = _with_groups(made, rng)
        yield JoinCase(made, settings)


def _with_groups(rows: list[JoinRow], rng: random.Random) -> list[JoinRow]:
    """Groups of so many rows of both streams, each of which ends on either side with its last row there; or those of
    each stream by themselves. The last ones end, too, as groups go on over `clear`."""
    apart, size = rng.random() < 0.4, rng.choice([1, 2, 3, 5, 16, len(rows) + 1])
    made: list[JoinRow] = []
    following: list[int | None] = [None, None]  # the group of the next row of each stream
    for at, row in reversed(list(enumerate(rows))):
        if not row.mark:
            more = following[row.side] == at // size
            if apart:
                more = following[row.side] is not None and rng.random() < 1 - 1 / size
            row = dataclasses.replace(row, more=more)
            following[row.side] = at // size
        made.append(row)
    return made[::-1]


def _with_bounds(
    rows: list[JoinRow], settings: JoinSettings, rng: random.Random, kind: str, bits: int
) -> tuple[list[JoinRow], JoinSettings]:
    """Bounds of their own for all rows; for some a few that do not overlap, each in a row that comes again."""
    made = []
    keys = _keys(kind, rng, bits)
    for row in rows:
        if row.mark:
            made.append(row)
            continue
        count = 1 if settings.complement else rng.choice([1, 1, 2, 3])
        ends = sorted({min(next(keys) + rng.randrange(2), (1 << bits) - 1) for _ in range(2 * count)})
        ranges = list(zip(ends[::2], ends[1::2], strict=False)) or [(ends[0], ends[0])]
        if rng.random() < 0.1:
            ranges[0] = (1, 0)  # nothing
        for at, (lower, upper) in enumerate(ranges):
            made.append(dataclasses.replace(row, lower=lower, upper=upper, again=at > 0))
    return made, dataclasses.replace(settings, own_bounds=True)


def _with_second_column(rows: list[JoinRow], rng: random.Random, kind: str, bits: int) -> list[JoinRow]:
    """A second key for each row, and bounds for those it meets: many, few, one or none; for some several that do not
    overlap, each in a row that comes again."""
    made = []
    top, keys = (1 << bits) - 1, _keys(kind, rng, bits)
    width = rng.choice([0, 1, 20, top >> 1])
    for row in rows:
        if row.mark:
            made.append(row)
            continue
        key = made[-1].key_2 if row.again else next(keys)
        ends = sorted({min(next(keys) + rng.randint(0, width), top) for _ in range(2 * rng.choice([1, 1, 1, 2, 3]))})
        ranges = list(zip(ends[::2], ends[1::2], strict=False)) or [(ends[0], ends[0])]
        if rng.random() < 0.2:
            ranges = [rng.choice([(0, top), (1, 0), (top, 0)])]
        for at, (lower, upper) in enumerate(ranges):
            bounds = {"key_2": key, "lower_2": lower, "upper_2": upper}
            made.append(dataclasses.replace(row, **bounds, again=row.again or at > 0))
    return made


def _with_times(
    rows: list[JoinRow], settings: JoinSettings, rng: random.Random, capacity: int, bits: int
) -> tuple[list[JoinRow], JoinSettings]:
    top = (1 << bits) - 1
    dense = rng.random() < 0.5  # rows of the same time, so that many lie at the very ends of the window
    reach = max(rng.randint(capacity // 4, capacity) // (4 if dense else 1), 2)
    low = rng.choice([-(reach // 2), -reach, 0, -(reach // 4)])
    high = rng.choice([low + reach, 0 if low < 0 else reach])
    disorder = rng.choice([0, 0, max(reach // 8, 1)])
    by_marks = disorder > 0 and rng.random() < 0.5
    start = rng.choice([0, 1 << (bits - 1), top - 2 * len(rows)])
    now, made = start, []
    least = [top, top]
    for row in rows:
        now = min(now + rng.choice([0, 0, 0, 1] if dense else [0, 1, 1, 1, 2]), top)
        made.append(dataclasses.replace(row, time=max(now - rng.randint(0, disorder), 0)))
    if by_marks:
        marked = []
        for at in reversed(range(len(made))):
            row = made[at]
            least[row.side] = min(least[row.side], row.time)
            marked.append(row)
            if at % 3 == 0:
                side = rng.randrange(2)
                marked.append(JoinRow(side=side, row=0, time=least[side], mark=True))
        made = marked[::-1]
    late = (top, top) if by_marks else (disorder, disorder)
    return made, dataclasses.replace(settings, time_low=low, time_high=high, late=late)
