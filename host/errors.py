"""Every error Muntin raises on purpose: typed, and able to cross the wire between the daemon and its clients.

The message names the column, value, limit or file at fault and says what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from muntin.host.sides import Side

if TYPE_CHECKING:
    import numpy as np


class MuntinError(Exception):
    """Base of every error that Muntin raises on purpose.

    Attributes
    ----------
    side : str or None
        Where a call of a join was refused for values in its rows: the side of these, "left" or "right".
    rows : tuple of int
        Their places in the batch of that side, ascending: all that have this fault. Nothing of the call was applied,
        and it may be made again without them; another fault in another row is another error. Empty where no rows
        are the reason. It does not cross the wire.
    field : str or None
        The column of these values, where one is at fault. It does not cross the wire.

    Examples
    --------
    >>> from muntin import Band
    >>> from muntin.errors import MuntinError
    >>> try:
    ...     Band("limit", "price", 5, -5)
    ... except MuntinError as error:
    ...     print(type(error).__name__, "-", error)
    PredicateError - low=5 lies above high=-5: the band is empty
    """

    side: Side | None = None
    rows: tuple[int, ...] = ()
    field: str | None = None

    def of_rows(self, side: Side | None, rows: Sequence[int] | np.ndarray, field: str | None = None) -> Self:
        """This error, of these rows, and of this column where one is given."""
        self.side, self.rows = side, tuple(map(int, rows))
        self.field = field or self.field
        return self


class PredicateError(MuntinError, ValueError):
    """The join condition itself is wrong: an unknown operator, a lower bound above the upper one."""


class SqlError(PredicateError):
    """A SQL text has what a join here has not, or is no SQL.

    Attributes
    ----------
    line, column : int or None
        Where in the text, from 1.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None):
        super().__init__(message)
        self.line = line
        self.column = column


class WindowError(MuntinError, ValueError):
    """The window is wrong: not positive, both kinds at once, an unreadable duration."""


class SchemaError(MuntinError, ValueError):
    """A column is missing, stands twice, or changed its type between two calls."""


class KeyTypeError(MuntinError, TypeError):
    """A key, time or sequence column has a type that cannot be joined on exactly."""


class OrderError(MuntinError, ValueError):
    """A sequence value is NULL, or lies before one that was already processed."""


class UnsupportedError(MuntinError, NotImplementedError):
    """Something Muntin knows by name but does not do yet."""


class CapacityError(MuntinError, MemoryError):
    """What was asked for does not fit.

    Attributes
    ----------
    needed, available : int or None
        In the unit the message names (bytes of device memory, or rows of a window).
    """

    def __init__(self, message: str, needed: int | None = None, available: int | None = None):
        super().__init__(message)
        self.needed = needed
        self.available = available


class ResultTooLargeError(CapacityError):
    """A result does not fit in memory. The join can then no longer be used; one with state can be opened again."""


class SumOverflowError(MuntinError, OverflowError):
    """A value of which sums or means of `form="aggregate"` may not fit their type. Nothing has changed."""


class DeviceError(MuntinError, RuntimeError):
    """No such device, or the device failed."""


class KernelError(DeviceError):
    """A kernel on a board refused a command, or failed in it."""


class IncompleteError(DeviceError):
    """A part of a device stopped answering: pairs are missing from what the rest of it found.

    Attributes
    ----------
    core : int or None
        Which part.
    partial : pyarrow.Table or None
        What was found, marked as incomplete in the metadata of its schema; it does not cross the wire.
    """

    def __init__(self, message: str, core: int | None = None, partial: Any = None):
        super().__init__(message)
        self.core = core
        self.partial = partial


class LinkError(DeviceError, OSError):
    """Base of what can go wrong between the host and a board."""


class LinkPortError(LinkError):
    """The port that a board should be at is not there, or cannot be opened."""


class LinkLostError(LinkError):
    """The port went away: an unplugged cable."""


class LinkSilentError(LinkError):
    """Nothing came back, however often it was asked for."""


class LinkDamagedError(LinkError):
    """What came back was damaged, or what was sent arrived damaged, however often it was repeated."""


class LinkRefusedError(LinkError):
    """The board understood, and did not do it."""


class LinkIdentityError(LinkError):
    """What is on the board is not what was expected there."""


class MemoryStartError(DeviceError):
    """A board's memory did not start, or does not hold what is written to it."""


class StateError(MuntinError, RuntimeError):
    """State on disk that cannot be read, written or continued; the message names the file."""


class StateTakenError(StateError):
    """Another process has gone on with this state."""


class KafkaError(MuntinError, RuntimeError):
    """Kafka cannot be reached or refuses something, a topic is not there, or a package for it is missing."""


class RecordError(KafkaError, ValueError):
    """A message that cannot be read.

    Attributes
    ----------
    topic, partition, offset : str, int, int
        Which one.
    field : str or None
        The column at fault, where one is.
    """

    def __init__(self, message: str, topic: str = "", partition: int = -1, offset: int = -1, field: str | None = None):
        super().__init__(message)
        self.topic, self.partition, self.offset, self.field = topic, partition, offset, field


class DaemonError(MuntinError, RuntimeError):
    """Base of what can go wrong between a client and the daemon."""


class ProtocolError(DaemonError):
    """A frame that is not one of ours: bad magic, truncated, malformed."""


class LimitError(DaemonError):
    """A message, stage or number of queries above the daemon's limit."""


class AuthError(DaemonError):
    """A missing or wrong token; a daemon that is not the one of the certificate to trust."""


class QueryError(DaemonError):
    """A query's name that is taken: by another specification, or by another join of the same streaming query."""


class UnknownQueryError(DaemonError):
    """No query of that name is open."""


class ReplayError(DaemonError):
    """A batch older than the last one that was made final."""


class StateLostError(DaemonError):
    """The daemon does not hold the window that this batch continues."""


class ConnectionLostError(DaemonError, ConnectionError):
    """The daemon cannot be reached, or went away."""


def _classes(root: type[MuntinError] = MuntinError) -> dict[str, type[MuntinError]]:
    found = {root.__name__: root}
    for sub in root.__subclasses__():
        found.update(_classes(sub))
    return found


def _details(kind: type[MuntinError]) -> tuple[str, ...]:
    """The attributes of an error that cross the wire beside its message."""
    details: dict[type[MuntinError], tuple[str, ...]] = {
        CapacityError: ("needed", "available"), IncompleteError: ("core",), SqlError: ("line", "column"),
        RecordError: ("topic", "partition", "offset", "field"),
    }  # fmt: skip
    return next((names for each, names in details.items() if issubclass(kind, each)), ())


def to_wire(error: BaseException) -> dict[str, Any]:
    """A JSON-able description of an error.

    An error that is not a `MuntinError` travels as `DaemonError` with its class named in the message.
    """
    if isinstance(error, MuntinError):
        wire: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        return wire | {name: getattr(error, name) for name in _details(type(error))}
    return {"error": "DaemonError", "message": f"{type(error).__name__}: {error}"}


def from_wire(wire: dict[str, Any]) -> MuntinError:
    """The exception that `to_wire` described, of the same class and with the same message."""
    kind = _classes().get(str(wire.get("error")), DaemonError)
    message = str(wire.get("message", "unknown error"))
    return kind(message, **{name: wire.get(name) for name in _details(kind)})


for _error in _classes().values():  # users import them from there
    _error.__module__ = "muntin.errors"
