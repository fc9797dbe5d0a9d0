"""How a join runs, and in which order its pairs come out: what a user chooses beside the index, as data."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
from typing import Any, ClassVar

from muntin.host.errors import PredicateError, WindowError
from muntin.host.keys.constants import whole_number
from muntin.host.keys.durations import length
from muntin.host.public import public


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class EngineKind:
    """A way of running a join. A device says which of them it has.

    Attributes
    ----------
    name : str
        What to pass as ``engine=`` for one with the default parameters.

    Examples
    --------
    >>> from muntin.engine import EngineKind, SplitJoin
    >>> isinstance(SplitJoin(), EngineKind)
    True
    """

    name: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `engine_from_dict`."""
        return {"name": self.name, **dataclasses.asdict(self)}

    def _check(self, **least: int) -> None:
        """Raises WindowError unless each of these parameters is a whole number of at least that much."""
        for parameter, bound in least.items():
            value = getattr(self, parameter)
            number = whole_number(value)
            if number is None or number < bound:
                raise WindowError(
                    f"{parameter} of the engine {self.name!r} must be a whole number of at least {bound}, not {value!r}"
                )
            object.__setattr__(self, parameter, number)


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class Steps(EngineKind):
    """Whole steps of many rows over one index a side.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.engine import Steps
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), left=Rows(4096), right=Rows(4096), engine=Steps())
    """

    name = "steps"


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class SplitJoin(EngineKind):
    """Independent join cores, each with a share of both windows.

    Rows go down a distribution tree to all cores. Every core compares each row with its own share of the other window,
    and stores every J-th row. Results go up a tree of punctuated mergers. Each core is a thread, and so is each inner
    node of the trees; the root is the thread that calls. There may be more of them than the machine has cores.

    Source: SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016), sections 4 and 5.

    Parameters
    ----------
    cores : int
        J, at least 1.
    fan_out : int
        Branches of each node of the trees, at least 2. A tree becomes as wide as this before it becomes deeper.
    expiry : str
        ``"passive"``: a new row takes the place of the oldest one, for count windows. ``"active"``: before a row is
        compared, a core drops from the other share what no row from now on can meet; in a time window what the
        watermark has made useless, by marks that take the rows' way. ``"auto"``: passive for count windows, else
        active.
    queue_rows : int
        Room of each queue between two threads, at least 1; rounded up to a power of two.

    Raises
    ------
    WindowError
        If a parameter is none of these.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.engine import SplitJoin
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), left=Rows(4096), right=Rows(4096), engine=SplitJoin(cores=2))
    """

    name = "splitjoin"
    cores: int = 4
    fan_out: int = 4
    expiry: str = "auto"
    queue_rows: int = 1024

    def __post_init__(self) -> None:
        self._check(cores=1, fan_out=2, queue_rows=1)
        for parameter, most in (("cores", 4096), ("fan_out", 4096), ("queue_rows", 1 << 24)):
            if getattr(self, parameter) > most:
                raise WindowError(
                    f"{parameter} of the engine 'splitjoin' is at most {most:,}, not {getattr(self, parameter):,}"
                )
        if self.expiry not in ("auto", "passive", "active"):
            raise WindowError(f"expiry must be 'auto', 'passive' or 'active', not {self.expiry!r}")


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class Shared(EngineKind):
    """Row by row, by threads that share one index a side.

    Threads take tasks of some rows from a work queue. Pairs come out in the order of arrival of the rows that find
    them, whatever thread was first. `muntin.set_threads` changes the number of threads while a call runs.

    Source: PIM-Tree, section 4.

    Parameters
    ----------
    task_size : int
        Rows of a task, from 1 to 1024; the paper uses 8 (section 5.2).
    merge : str
        ``"nonblocking"``: calls go on while a `PimTree` or an `ImTree` is merged, by a thread in the background, but
        for two short waits. What takes less than a millisecond is merged in the call.
        ``"blocking"``: they wait.

    Raises
    ------
    WindowError
        If a parameter is none of these.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.engine import Shared
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), left=Rows(4096), right=Rows(4096), engine=Shared(task_size=8))
    """

    name = "shared"
    task_size: int = 8
    merge: str = "nonblocking"

    def __post_init__(self) -> None:
        self._check(task_size=1)
        if self.task_size > 1024:
            raise WindowError(f"task_size of the engine 'shared' is at most 1,024, not {self.task_size:,}")
        if self.merge not in ("nonblocking", "blocking"):
            raise WindowError(f"merge must be 'nonblocking' or 'blocking', not {self.merge!r}")


ENGINES: dict[str, type[EngineKind]] = {kind.name: kind for kind in (Steps, SplitJoin, Shared)}


def open_engine_kind(engine: str | EngineKind) -> EngineKind:
    """The engine of that name with its default parameters, or the engine itself.

    Raises
    ------
    WindowError
        If there is none of that name.
    """
    if isinstance(engine, EngineKind):
        return engine
    if not isinstance(engine, str) or engine not in ENGINES:
        raise WindowError(f"there is no engine {engine!r}: use one of {', '.join(ENGINES)}, or 'auto'")
    return ENGINES[engine]()


def engine_from_dict(data: dict[str, Any]) -> EngineKind:
    """The engine whose `to_dict` gave this. Raises WindowError if there is none of that name and parameters."""
    parameters = {**data}
    kind = type(open_engine_kind(parameters.pop("name", "")))
    try:
        return kind(**parameters)
    except TypeError as error:
        raise WindowError(f"the engine {kind.name!r} has no such parameters: {error}") from error


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class Outer:
    """Pairs by probing row, the later row of each pair: ``order="outer"`` is ``Outer()``.

    With J cores a punctuation stands behind each `every` probing rows.

    Source: SplitJoin, section 5 (relaxed outer ordering).

    Parameters
    ----------
    every : int
        Probing rows of a group, at least 1: groups of as many rows, neighbours in the total order of arrival, come out
        in that order; within a group pairs come as they may.

    Raises
    ------
    PredicateError
        If it is no such number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.engine import Outer, SplitJoin
    >>> on, windows = Band("a", "b", -5, 5), {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=on, **windows, engine=SplitJoin(cores=2), order=Outer(8))
    """

    every: int = 1

    def __post_init__(self) -> None:
        every = whole_number(self.every)
        if every is None or not 1 <= every < 1 << 62:
            raise PredicateError(f"every of Outer must be a whole number of at least 1, not {self.every!r}")
        object.__setattr__(self, "every", every)

    def __str__(self) -> str:
        return "outer" if self.every == 1 else f"outer, every {self.every:,}"


@public("muntin.engine")
@dataclasses.dataclass(frozen=True)
class Inner:
    """Pairs by probing row, and those of one probing row by stored row: ``order="inner"`` is ``Inner()``.

    With J cores a punctuation stands behind each `every` rows that a core compares.

    Source: SplitJoin, section 5 (inner ordering, strict and relaxed).

    Parameters
    ----------
    every : int
        A power of two. The pairs of a probing row come in groups of ``J * every`` stored rows that arrived one behind
        the other, NULL keys left out; groups in the order of arrival, within a group as they may. With 1 the order is
        strict.

    Raises
    ------
    PredicateError
        If it is no power of two.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.engine import Inner, SplitJoin
    >>> on, windows = Band("a", "b", -5, 5), {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=on, **windows, engine=SplitJoin(cores=2), order=Inner(8))
    """

    every: int = 1

    def __post_init__(self) -> None:
        every = whole_number(self.every)
        if every is None or not 1 <= every < 1 << 62 or every & (every - 1):
            raise PredicateError(f"every of Inner must be a power of two, not {self.every!r}")
        object.__setattr__(self, "every", every)

    def __str__(self) -> str:
        return "inner" if self.every == 1 else f"inner, every {self.every:,}"


MAX_PARTITIONS = 256
_LIMITS = (("partitions", "count", MAX_PARTITIONS), ("subwindow_rows", "subwindow_rows", 1 << 40))
_BY = ("auto", "equality", "ranges", "subwindows")


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Partitions:
    """Into how many windows the rows of a join go, each joined by a thread of its own, or in Spark by a task:
    ``partitions=4`` is ``Partitions(4)``.

    Parameters
    ----------
    count : int
        From 1 to 256.
    by : str
        ``"equality"``: by the values that are compared for equality. ``"ranges"``: by ranges of the key that drives;
        probes are copied to the ranges that their bands reach, and splitters follow the data from subwindow to
        subwindow. ``"subwindows"``: the rows of one subwindow after the other go to the partitions in turn, and probes
        to all that hold rows of the other side. ``"auto"``: the first of them that the condition allows; by ranges
        where bands have two ends. In Spark ranges and subwindows are such that no task needs to know of another: see
        `width`.
    subwindow_rows : int, optional
        Rows of a side for which splitters hold, or that go to one partition; by default shares of the window. Not in
        Spark.
    width : int, float, Decimal, timedelta or str, optional
        In Spark: of the ranges of the key, which partitions take in turn, by default four bands; or of subwindows of
        time, such as "5 minutes", by default none: rows go to partitions by their content.

    Raises
    ------
    WindowError
        If a parameter is none of these.

    Examples
    --------
    >>> from muntin import Compare, Partitions, Rows, WindowJoin
    >>> join = WindowJoin(
    ...     on=Compare("venue", "=", "venue"), left=Rows(1000), right=Rows(1000), partitions=Partitions(4, "equality")
    ... )
    """

    count: int
    by: str = "auto"
    subwindow_rows: int | None = None
    width: Any = None

    def __post_init__(self) -> None:
        for name, field, most in _LIMITS:
            value = getattr(self, field)
            if value is None and field != "count":
                continue
            number = whole_number(value)
            if number is None or not 1 <= number <= most:
                raise WindowError(f"{name} must be a whole number from 1 to {most}, not {value!r}")
            object.__setattr__(self, field, number)
        width = length("width of Partitions", self.width, WindowError)
        numeric = isinstance(width, (int, float, decimal.Decimal)) and not isinstance(width, bool)
        if not (math.isfinite(width) if numeric else isinstance(width, (type(None), dt.timedelta, str))):
            raise WindowError(f"width of Partitions must be a finite number or a duration, not {self.width!r}")
        object.__setattr__(self, "width", width)
        if self.by not in _BY:
            raise WindowError(f"by of Partitions must be one of {', '.join(_BY)}, not {self.by!r}")


def open_partitioning(partitions: Any) -> Partitions:
    """Partitions by their number, or as they are given. Raises WindowError."""
    return partitions if isinstance(partitions, Partitions) else Partitions(partitions)


Order = Outer | Inner | None
_ORDERS: dict[str, Order] = {"none": None, "outer": Outer(), "inner": Inner()}


def open_order(order: Any) -> str | Outer | Inner:
    """An order as `JoinSpec` keeps it: by its name where it has one. Raises PredicateError if it is none."""
    if isinstance(order, str) and order in _ORDERS:
        return order
    if isinstance(order, (Outer, Inner)):
        return type(order).__name__.lower() if order.every == 1 else order
    raise PredicateError(f"order must be one of {', '.join(_ORDERS)}, Outer(every=n) or Inner(every=n), not {order!r}")


def order_parts(order: str | Outer | Inner) -> tuple[str, int]:
    """An order's name and interval: ``("none", 1)``, ``("outer", n)`` or ``("inner", n)``."""
    if isinstance(order, str):
        return order, 1
    return type(order).__name__.lower(), order.every
