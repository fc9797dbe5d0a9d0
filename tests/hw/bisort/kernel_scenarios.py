"""Random commands for a kernel, each with the arrays it reads."""

from dataclasses import dataclass, field, replace

import numpy as np

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import RUN_PLACES, Command, ErrorCode, Operation

PROBING = (Operation.PROBE, Operation.GATHER, Operation.COUNT)
BATCHES = (Operation.MERGE, *PROBING)
MOVING = (Operation.COPY, Operation.INSERT, Operation.INDEX, *BATCHES)

MISTAKES = {
    ErrorCode.ZERO_LENGTH: MOVING,
    ErrorCode.MISALIGNED_ADDRESS: MOVING,
    ErrorCode.ADDRESS_RANGE: MOVING,
    ErrorCode.UNKNOWN_OPERATION: (Operation.COPY,),  # a copy but for its number
    ErrorCode.RUN_TOO_LONG: (Operation.INDEX, Operation.MERGE, Operation.GATHER, Operation.COUNT),
    ErrorCode.BUFFER_ROWS: (Operation.INSERT, *BATCHES),
    ErrorCode.BAD_INDEX: (Operation.INDEX, *PROBING),
    ErrorCode.BAD_RANGE: (Operation.GATHER, Operation.COUNT),
}
"""What a host can get wrong, by the error it is told."""

_PLACES = (0, 5, 31, RUN_PLACES - 1)  # of runs whose indexes are on chip, each with its part of the room


@dataclass
class Scenario:
    """A command, what it reads, and what it writes.

    Attributes
    ----------
    command
    writes
        Address and content of each array that is read.
    results
        Address and bytes of each array that is written and is the same for every kernel.
    merged
        Addresses of the keys and the row numbers of a merged run, and its rows: rows of equal keys are in any order.
    """

    command: Command
    writes: list[tuple[int, np.ndarray]] = field(default_factory=list)
    results: list[tuple[int, int]] = field(default_factory=list)
    merged: tuple[int, int, int] | None = None


class Scenarios:
    """Makes scenarios that fit a part of memory, from `span` bytes of each channel.

    Parameters
    ----------
    parameters
    seed
    span
    """

    def __init__(self, parameters: Parameters, seed: int, span: int):
        self.parameters = parameters
        self.span = span
        self.rng = np.random.default_rng(seed)
        self.kind = np.dtype(np.uint32 if parameters.key_bits == 32 else np.uint64)
        self.buffered = 0  # rows in the insertion buffer
        self.buffer_signed = False
        # By part of the room on chip: the run's keys, whether they are signed, where they are, and what row numbers lie
        # behind them; all in one channel and behind everything else.
        self.indexed: dict[int, tuple[np.ndarray, bool, int, np.ndarray]] = {}
        self._runs = int(self.rng.integers(parameters.channels)) * (
            (1 << parameters.address_bits) // parameters.channels
        )
        self._runs += span - span // 8
        self._free: list[int] = []

    def _place(self, nbytes: int, channel: int | None = None) -> int:
        """Somewhere in memory, or in a channel, where nothing of this scenario lies."""
        p = self.parameters
        channel = int(self.rng.integers(p.channels)) if channel is None else channel
        at = self._free[channel] + int(self.rng.integers(0, 9)) * p.beat_bytes
        self._free[channel] = at + -(-nbytes // p.beat_bytes) * p.beat_bytes
        assert self._free[channel] <= self.span - self.span // 8, "the scenario needs a larger span"
        return channel * ((1 << p.address_bits) // p.channels) + at

    def _put(self, scenario: Scenario, content: np.ndarray, channel: int | None = None) -> int:
        address = self._place(content.nbytes, channel)
        scenario.writes.append((address, content))
        return address

    def keys(self, count: int, signed: bool) -> np.ndarray:
        """Ascending keys, of a few values, of all, or at the limits."""
        bits = self.parameters.key_bits
        top = (1 << bits) - 1
        shape = self.rng.integers(4)
        if shape == 0:
            keys = self.rng.integers(0, top, count, self.kind, endpoint=True)
        elif shape == 1:
            keys = self.rng.integers(0, 5, count).astype(self.kind) + self.kind.type(top // 2)
        elif shape == 2:
            keys = self.rng.choice(np.array([0, 1, top - 1, top, top // 2, top // 2 + 1], self.kind), count)
        else:
            keys = self.rng.integers(0, 3 * count + 1, count).astype(self.kind)
        view = keys.view(f"i{bits // 8}") if signed else keys
        return np.sort(view).view(self.kind)

    def make(self, operation: Operation, rows: int, *, behind: bool = False, **choices: bool) -> Scenario:
        """A scenario of some operation with up to so many rows; `behind` the places of the one before.

        Keywords, such as ``buffered=True``, decide what is otherwise left to chance.
        """
        if not behind:  # 0 is the address of what there is not
            self._free = [self.parameters.beat_bytes] * self.parameters.channels
        return getattr(self, f"_{operation.name.lower()}")(rows, **choices)

    def _count_rows(self, rows: int) -> int:
        return int(self.rng.integers(1, max(int(self.rng.integers(1, rows + 1)), 1) + 1))

    def _rows(self, count: int) -> np.ndarray:
        start = np.uint32((1 << 32) - 1 - count // 2)  # row numbers pass 2**32
        return self.rng.permutation(start + np.arange(count, dtype=np.uint32))

    def _nop(self, rows: int) -> Scenario:
        return Scenario(Command(operation=Operation.NOP))

    def _discard(self, rows: int) -> Scenario:
        self.buffered = 0
        # What it does not use may be anything.
        length_a, keys_a = (int(value) for value in self.rng.integers(0, 1 << 32, 2))
        return Scenario(Command(operation=Operation.DISCARD, length_a=length_a, keys_a=keys_a))

    def _copy(self, rows: int) -> Scenario:
        length = self._count_rows(8 * rows)
        s = Scenario(Command(operation=Operation.COPY))
        source = self._put(s, self.rng.integers(0, 256, length, np.uint8))
        out = self._place(length)
        s.command = replace(s.command, length_a=length, keys_a=source, keys_out=out)
        s.results.append((out, length))
        return s

    def _insert(self, rows: int) -> Scenario:
        room = self.parameters.buffer_rows - self.buffered
        if not room:
            return self._merge(rows, buffered=True)
        count = int(self.rng.integers(1, room + 1))
        if not self.buffered:
            self.buffer_signed = bool(self.rng.integers(2))
        s = Scenario(Command(operation=Operation.INSERT, signed=self.buffer_signed, length_a=count))
        keys = self.rng.permutation(self.keys(count, self.buffer_signed))
        s.command = replace(s.command, keys_a=self._put(s, keys), rows_a=self._put(s, self._rows(count)))
        self.buffered += count
        return s

    def _merge(self, rows: int, *, buffered: bool | None = None) -> Scenario:
        p = self.parameters
        if buffered is None:
            buffered = bool(self.buffered) and self.rng.random() < 0.5
        signed = self.buffer_signed if buffered else bool(self.rng.integers(2))
        a = self._count_rows(rows)
        b = self.buffered if buffered else self._count_rows(rows)
        s = Scenario(Command(operation=Operation.MERGE, signed=signed, buffer=buffered, length_a=a, length_b=b))
        places = {"keys_a": self._put(s, self.keys(a, signed)), "rows_a": self._put(s, self._rows(a))}
        if buffered:
            self.buffered = 0
        else:
            places |= {"keys_b": self._put(s, self.keys(b, signed)), "rows_b": self._put(s, self._rows(b))}
        key = p.key_bits // 8
        index = -(-(a + b) >> p.partition_log2)
        places |= {name: self._place((a + b) * size) for name, size in (("keys_out", key), ("rows_out", 4))}
        places["index_out"] = self._place(index * key)
        s.command = replace(s.command, **places)
        s.results += [(places["keys_out"], (a + b) * key), (places["index_out"], index * key)]
        s.merged = places["keys_out"], places["rows_out"], a + b
        return s

    def _index(self, rows: int) -> Scenario:
        p = self.parameters
        part = int(self.rng.integers(len(_PLACES)))
        room, entries = self.span // 8 // len(_PLACES), p.index_rows // len(_PLACES)
        a = min(self._count_rows(rows), entries << p.partition_log2, (room - p.beat_bytes) // (p.key_bits // 8 + 4))
        signed, keys_a = bool(self.rng.integers(2)), self._runs + part * room
        run = self.keys(a, signed)
        index = run[:: p.partition_rows].copy()
        start = part * entries + int(self.rng.integers(entries - len(index) + 1))
        s = Scenario(Command(operation=Operation.INDEX, signed=signed, length_a=a, length_b=_PLACES[part]))
        numbers = self._rows(a)
        s.writes += [(keys_a, run), (self._behind(keys_a, run), numbers)]
        s.command = replace(
            s.command, keys_a=keys_a, rows_a=self._put(s, index), keys_b=self._behind(keys_a, run), index_out=start
        )
        self.indexed[part] = run, signed, keys_a, numbers
        return s

    def _behind(self, address: int, content: np.ndarray) -> int:
        """The next beat."""
        return address + -(-content.nbytes // self.parameters.beat_bytes) * self.parameters.beat_bytes

    def _probe(self, rows: int, operation: Operation = Operation.PROBE, *, buffered: bool | None = None) -> Scenario:
        """Of the runs whose indexes are on chip; where there are none, and no buffer, one is loaded instead.

        As GATHER or COUNT with the flag `probe`.
        """
        p = self.parameters
        top = 1 << p.key_bits
        if buffered is None:
            buffered = bool(self.buffered) and (not self.indexed or self.rng.random() < 0.4)
        if not buffered and not self.indexed:
            return self._index(rows)
        b = self._count_rows(rows)
        on_chip = operation != Operation.PROBE
        s = Scenario(Command(operation=operation, buffer=buffered, length_b=b, probe=on_chip))
        places: dict[str, int] = {}
        if buffered:
            signed, a, runs = self.buffer_signed, self.buffered, 1
        else:
            signed, a = self.indexed[int(self.rng.choice(list(self.indexed)))][1], 0
            chosen = [part for part, (_, kind, *_) in self.indexed.items() if kind == signed]
            chosen = sorted(self.rng.choice(chosen, int(self.rng.integers(1, len(chosen) + 1)), False).tolist())
            for part in chosen:
                run, _, at, numbers = self.indexed[part]
                s.writes += [(at, run), (self._behind(at, run), numbers)]
            places = {"keys_a": sum(1 << _PLACES[part] for part in chosen), "rows_a": self.indexed[chosen[0]][2]}
            runs = len(chosen)
        low, high = ((0, 1), (-3, 4), (-top, top), (-top, 1), (5, top), (-top // 2, top // 2), (top - 1, top))[
            int(self.rng.integers(7))
        ]
        places |= {name: self._put(s, self.keys(b, signed)) for name in ("keys_b", "rows_b")}
        limits = on_chip and bool(self.rng.integers(2))
        if limits:
            channel = places["keys_b"] >> (p.address_bits - (p.channels.bit_length() - 1))
            places["index_out"] = self._put(s, self._limits(b, rows), channel)
        if operation == Operation.COUNT:
            size = 4 * b
        elif operation == Operation.PROBE:
            size = 16 * b * runs
        elif buffered:
            size = 8 * b * self.buffered
        else:  # as much as there is room for, which may be less than there is
            a = self._count_rows(12 * rows)
            size = 8 * a
        places["keys_out"] = self._place(size)
        if operation != Operation.COUNT:
            places["rows_out"] = self._place(p.beat_bytes)
            s.results.append((places["rows_out"], p.beat_bytes))
        # What lies behind the results must stay as it is.
        s.writes.append((places["keys_out"], self.rng.integers(0, 256, size, np.uint8)))
        s.command = replace(
            s.command, signed=signed, limits=limits, length_a=a, low_offset=low, high_offset=high, **places
        )
        s.results.append((places["keys_out"], size))
        return s

    def _limits(self, count: int, rows: int) -> np.ndarray:
        first = self.rng.integers(0, 1 << 32, count, np.uint32)
        first[::2] = np.uint32((1 << 32) - 3)
        span = self.rng.integers(0, 1 << 32, count, np.uint32)
        span[::3] = self.rng.integers(0, rows + 9)
        return np.stack([first, span], axis=1)

    def _gather(self, rows: int, operation: Operation = Operation.GATHER, *, probe: bool | None = None) -> Scenario:
        p = self.parameters
        if probe if probe is not None else (self.buffered or self.indexed) and self.rng.random() < 0.6:
            return self._probe(rows, operation)
        buffered = bool(self.buffered) and self.rng.random() < 0.4
        limits = bool(self.rng.integers(2))
        a = self.buffered if buffered else self._count_rows(rows)
        b = self._count_rows(rows)
        s = Scenario(Command(operation=operation, buffer=buffered, limits=limits, length_a=a, length_b=b))
        starts = self.rng.integers(0, a + 1, b)
        longest = int(self.rng.integers(1, 12))
        stops = np.minimum(starts + self.rng.integers(0, longest + 1, b), a)
        places: dict[str, int] = {}
        if limits:
            places["keys_a"] = self._put(s, self._limits(b, a))
        if not buffered:
            places["rows_a"] = self._put(s, self._rows(a))
        places["keys_b"] = self._put(s, starts.astype(np.uint32))
        places["rows_b"] = self._put(s, stops.astype(np.uint32))
        if operation == Operation.COUNT:
            places["keys_out"] = self._place(4 * b)
            s.results.append((places["keys_out"], 4 * b))
        else:
            pairs = 8 * int((stops - starts).sum())
            places |= {"keys_out": self._place(max(pairs, 1)), "rows_out": self._place(p.beat_bytes)}
            # What lies behind the pairs must stay as it is.
            s.writes.append((places["keys_out"], self.rng.integers(0, 256, max(pairs, 1), np.uint8)))
            s.results += [(places["keys_out"], max(pairs, 1)), (places["rows_out"], p.beat_bytes)]
        s.command = replace(s.command, **places)
        return s

    def _count(self, rows: int, *, probe: bool | None = None) -> Scenario:
        return self._gather(rows, Operation.COUNT, probe=probe)

    def wrong(
        self, operation: Operation | None = None, code: ErrorCode | None = None, rows: int = 40
    ) -> tuple[Scenario, ErrorCode]:
        """A scenario with a mistake, and the error it must end with; one of `MISTAKES`, or any of them.

        The insertion buffer must be empty, and for the mistake of a probe a run must have its index on chip.
        """
        before = self.buffered, dict(self.indexed)
        if operation is None or code is None:
            mistakes = [(one, code) for code, operations in MISTAKES.items() for one in operations]
            if not self.indexed:
                mistakes = [(one, code) for one, code in mistakes if one not in PROBING]
            operation, code = mistakes[int(self.rng.integers(len(mistakes)))]
        choices = {}
        if operation in (Operation.GATHER, Operation.COUNT):
            by_hand = code in (ErrorCode.RUN_TOO_LONG, ErrorCode.BAD_RANGE)
            choices = {"probe": not by_hand and (code == ErrorCode.BAD_INDEX or bool(self.rng.integers(2)))}
        s = self.make(operation, rows, **choices)
        self.buffered, self.indexed = before
        s.command = self._spoiled(s, code)
        return s, code

    def _spoiled(self, s: Scenario, code: ErrorCode) -> Command:
        """The command of a scenario with a mistake; ranges of its arrays are spoiled in their place."""
        p, c = self.parameters, s.command
        operation = Operation(c.operation)
        probing = operation == Operation.PROBE or c.probe
        names = {
            Operation.INSERT: ["keys_a", "rows_a"],
            Operation.INDEX: ["keys_a", "rows_a", "keys_b"],
            Operation.PROBE: ["keys_b", "rows_b", "keys_out", "rows_out"],
            Operation.GATHER: ["rows_b", "keys_out"],
            Operation.COUNT: ["rows_b", "keys_out"] + ["index_out"] * (c.probe and c.limits),
        }
        name = str(self.rng.choice(names.get(operation, ["keys_a", "keys_out"])))
        match code:
            case ErrorCode.ZERO_LENGTH:
                nothing = {"keys_a": 0} if probing else {"length_a": 0}
                return replace(c, **({"length_b": 0} if operation in BATCHES and self.rng.integers(2) else nothing))
            case ErrorCode.MISALIGNED_ADDRESS:
                return replace(c, **{name: getattr(c, name) + p.beat_bytes // 2})
            case ErrorCode.ADDRESS_RANGE:
                return replace(c, **{name: 1 << p.address_bits})
            case ErrorCode.UNKNOWN_OPERATION:
                return replace(c, operation=int(self.rng.integers(max(BISORT.operations) + 1, 256)))
            case ErrorCode.RUN_TOO_LONG:
                return replace(c, length_a=p.run_rows + 1)
            case ErrorCode.BUFFER_ROWS if operation == Operation.INSERT:
                return replace(c, length_a=p.buffer_rows + 1)
            case ErrorCode.BUFFER_ROWS:
                return replace(c, buffer=True, **{"length_b" if operation == Operation.MERGE else "length_a": 1})
            case ErrorCode.BAD_INDEX if probing:
                return replace(c, keys_a=c.keys_a | 1 << 7)
            case ErrorCode.BAD_INDEX:
                wrong = {"index_out": p.index_rows} if self.rng.random() < 0.5 else {"length_b": RUN_PLACES}
                return replace(c, **wrong)
        assert code == ErrorCode.BAD_RANGE
        stops = next(content for address, content in s.writes if address == c.rows_b)
        stops[int(self.rng.integers(len(stops)))] = c.length_a + 1
        return c


def same(scenario: Scenario, key_type: np.dtype, ours, theirs) -> str:
    """Where two memories differ after a scenario; empty if nowhere.

    Parameters
    ----------
    scenario
    key_type
        dtype of a key.
    ours, theirs
        Functions of an address and a length that give bytes as an array.
    """
    for address, length in scenario.results:
        a, b = ours(address, length), theirs(address, length)
        if not np.array_equal(a, b):
            return f"{int((a != b).argmax())} bytes into the array of {length} at {address:#x}"
    if scenario.merged:
        keys_at, rows_at, rows = scenario.merged
        keys = ours(keys_at, rows * key_type.itemsize).view(key_type)
        pairs = [np.rec.fromarrays([keys, read(rows_at, 4 * rows).view(np.uint32)]) for read in (ours, theirs)]
        if not np.array_equal(*map(np.sort, pairs)):
            return "row numbers of the merged run"
    return ""
