"""A board with a SplitJoin kernel, as the driver of one join sees it."""

from __future__ import annotations

import dataclasses

import numpy as np

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    ROW_FLAGS,
    SUMMARY_FIELDS,
    JoinSettings,
    SplitJoinParameters,
    row_fields,
    row_words,
)
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.host.errors import DeviceError
from muntin.host.fpga.driver import BoardLink, KernelDriver

_MAX_ROW_BYTES = 1 << 20
_MAX_RESULT_BYTES = 1 << 23
_SUMMARY = {field.name: (word, field) for word, fields in enumerate(SUMMARY_FIELDS) for field in fields}


@dataclasses.dataclass
class JoinRows:
    """Rows of both streams in their order of arrival; marks and repeated rows among them.

    Keys, bounds and times are unsigned, whatever their width on the board.

    Attributes
    ----------
    side : ndarray of int8, shape (n,)
        0 for left, 1 for right.
    number : ndarray of int64, shape (n,)
        The row's number in its stream, of which the board keeps the low `NUMBER_BITS` bits.
    null, mark, again, more : ndarray of bool, shape (n,)
        As `muntin.contract.designs.splitjoin.ROW_FLAGS` has them.
    key, lower, upper, time : ndarray of uint64, shape (n,)
    key_2, lower_2, upper_2 : ndarray of uint64, shape (n,), or None
        Of a second column, where the build has one.
    """

    side: np.ndarray
    number: np.ndarray
    null: np.ndarray
    mark: np.ndarray
    again: np.ndarray
    more: np.ndarray
    key: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    time: np.ndarray
    key_2: np.ndarray | None = None
    lower_2: np.ndarray | None = None
    upper_2: np.ndarray | None = None

    @classmethod
    def zeros(cls, count: int, columns: int = 1) -> JoinRows:
        """So many rows of the left stream, every field of which is 0."""
        flags = (np.zeros(count, np.bool_) for _ in range(4))
        words = (np.zeros(count, np.uint64) for _ in range(1 + 3 * columns))
        return cls(np.zeros(count, np.int8), np.zeros(count, np.int64), *flags, *words)

    def __len__(self) -> int:
        return len(self.side)

    def take(self, chosen: np.ndarray | slice) -> JoinRows:
        """Some of the rows."""
        columns = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return JoinRows(*(column[chosen] for column in columns if column is not None))

    @classmethod
    def concatenate(cls, parts: list[JoinRows]) -> JoinRows:
        """The rows of all parts."""
        names = [field.name for field in dataclasses.fields(cls) if getattr(parts[0], field.name) is not None]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def words(self, parameters: SplitJoinParameters) -> np.ndarray:
        """As they lie in a board's memory: uint32, shape (n, words of a row). What the build has no field for is
        left out."""
        made = np.zeros((len(self), row_words(parameters)), np.uint32)
        values = {"row": self.number & ((1 << NUMBER_BITS) - 1), "flags": self._flags()}
        for name, (at, words) in row_fields(parameters).items():
            value = values.get(name, getattr(self, name, None))
            assert value is not None
            made[:, at] = value & np.array(0xFFFFFFFF, value.dtype)
            if words == 2:
                made[:, at + 1] = value >> np.array(32, value.dtype)
        return made

    def _flags(self) -> np.ndarray:
        flags = np.zeros(len(self), np.int64)
        for flag in ROW_FLAGS:
            flags |= getattr(self, flag.name).astype(np.int64) << flag.lsb
        return flags


@dataclasses.dataclass(frozen=True)
class Joined:
    """The results of some rows, and whether any are missing.

    Attributes
    ----------
    results : ndarray of uint32, shape (m, 2)
        As `muntin.contract.designs.splitjoin` has them, in the order in which they came out.
    overflow : bool
        A time window did not fit: pairs are missing.
    dead_core : int or None
        The first core that stopped answering: its pairs are missing.
    """

    results: np.ndarray
    overflow: bool
    dead_core: int | None


class SplitJoinBoard:
    """A board whose kernel keeps the windows of one join. Not for several threads at once.

    Its memory holds the summary, then room for rows, then room for results.

    Parameters
    ----------
    link : BoardLink
        Of a kernel with `SplitJoinParameters`.
    name : str
        Of the device, for messages.

    Attributes
    ----------
    parameters : SplitJoinParameters
    link : BoardLink
        As given: for tests of the memory, while no join is on the board.
    nbytes : int
        Bytes of memory used.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel, or too little memory for a row and its results.
    """

    def __init__(self, link: BoardLink, name: str):
        self._name = name
        self.link = link
        self._driver = KernelDriver(link, name)
        p: SplitJoinParameters = self._driver.parameters
        self.parameters = p
        self._row_bytes = 4 * row_words(p)
        unit = max(p.beat_bytes, self._row_bytes)
        room = self._driver.lane_bytes - unit
        row_bytes = min(room // 4, _MAX_ROW_BYTES) // unit * unit
        result_bytes = min(room - row_bytes, _MAX_RESULT_BYTES) // p.beat_bytes * p.beat_bytes
        if not row_bytes or not result_bytes:
            raise DeviceError(
                f"device {name}: {self._driver.lane_bytes:,} bytes of memory are too few for rows of "
                f"{self._row_bytes} bytes and their results"
            )
        self._rows_at, self._results_at = unit, unit + row_bytes
        self._max_rows, self._max_results = row_bytes // self._row_bytes, result_bytes // RESULT_BYTES
        self.nbytes = unit + row_bytes + result_bytes

    def configure(self, settings: JoinSettings) -> None:
        """Sets up a join, and empties both windows. Raises DeviceError as the driver does."""
        self._driver.write(settings.words(self.parameters))
        self._driver.run([Command(operation=Operation.CLEAR)])

    def join(self, rows: JoinRows) -> Joined:
        """Joins rows, and returns when all their results were read back.

        Raises
        ------
        KernelError, DeviceError
            As the driver does; and DeviceError if the kernel does not go on.
        """
        results: list[np.ndarray] = []
        overflow, dead = False, None
        words = rows.words(self.parameters)
        for start in range(0, len(words), self._max_rows):
            part = words[start : start + self._max_rows]
            written = taken = 0  # rows of the part in memory, counted from `taken`, and those the kernel has taken
            drained = False  # all of the part was taken, and nothing is under way
            while not drained:
                offset = (taken - written) * self._row_bytes
                if taken < len(part) and (not taken or offset % self.parameters.beat_bytes):
                    self._driver.write_memory(self._rows_at, part[taken:])
                    written, offset = taken, 0
                failure = self._driver.run(
                    [
                        Command(
                            operation=Operation.JOIN,
                            length_a=len(part) - taken,
                            length_b=self._max_results,
                            keys_a=self._rows_at + (offset if taken < len(part) else 0),
                            keys_out=self._results_at,
                        )
                    ],
                    survive=(ErrorCode.CORE_STUCK,),
                )
                summary = self._driver.read_memory(0, 16).view(np.uint32)
                took, made = (int(summary[_SUMMARY[name][0]]) for name in ("rows", "results"))
                if made:
                    raw = self._driver.read_memory(self._results_at, made * RESULT_BYTES)
                    results.append(raw.view(np.uint32).reshape(-1, 2))
                taken += took
                drained = _flag(summary, "drained")
                overflow |= _flag(summary, "overflow")
                if dead is None and _flag(summary, "incomplete"):
                    word, field = _SUMMARY["core"]
                    dead = (int(summary[word]) & field.mask) >> field.lsb
                if failure is not None and not self._driver.recover():
                    return Joined(_all(results), overflow, dead)
                if not took and not made and not drained:
                    raise DeviceError(
                        f"device {self._name}: the kernel takes no row and gives no result, with {len(part) - taken} "
                        "rows left: the board and this driver are out of step. Open the device again"
                    )
        return Joined(_all(results), overflow, dead)

    def counters(self) -> dict[str, int]:
        """As `KernelDriver.counters`."""
        return self._driver.counters()

    def close(self) -> None:
        """Gives the board back. Idempotent."""
        self._driver.close()


def _flag(summary: np.ndarray, name: str) -> bool:
    word, field = _SUMMARY[name]
    return bool(int(summary[word]) & field.mask)


def _all(results: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(results) if results else np.zeros((0, 2), np.uint32)
