"""Topics with rows, and what a join of them is to find."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from muntin.kafka import Format, Json, KafkaJoin
from tests.host.kafka.cluster import Producer, Topics, batch_of, given
from tests.host.kafka.worker import LEFT, RIGHT
from tests.host.kafka.worker import join as join_of

NUMBERS = itertools.count()


class World:
    """Two topics and those for results, of names of their own, and what was written to them."""

    def __init__(self, servers: str, folder: Path, *, span: int = 60):
        number = next(NUMBERS)
        self.left, self.right, self.out, self.dead = (f"{name}-{number}" for name in ("left", "right", "out", "dead"))
        self.name, self.servers, self.state = f"join-{number}", servers, folder / f"state-{number}"
        self.topics = Topics(servers, self.left, self.right, self.out, self.dead)
        self.rows: dict[str, list[pa.Table]] = {"left": [], "right": []}
        self._rng, self._span = np.random.default_rng(number), span
        self.newest = -1  # batch that was given out before `shown` was asked

    def write(self, count: int, left: Format | None = None, right: Format | None = None) -> None:
        """So many rows more on each side."""
        for side, schema, topic, format in (("left", LEFT, self.left, left), ("right", RIGHT, self.right, right)):
            first = sum(map(len, self.rows[side]))
            numbers = np.arange(first, first + count)
            times = numbers + self._rng.integers(-20, 20, count)
            rows = pa.table([numbers, times, self._rng.integers(0, self._span, count)], schema=schema)
            self.rows[side].append(rows)
            self.topics.send(topic, (format or Json()).encode(rows))

    def open(self, output: str | Callable[[pa.Table, int], object] | None = None, **options: Any) -> KafkaJoin:
        options = {"servers": self.servers, "name": self.name, "state": self.state, **options}
        return join_of((self.left, self.right), output=output or self.out, **options)

    def due(self) -> Counter[tuple[int, int]]:
        """The pairs of all rows, by DuckDB."""
        left_rows, right_rows = (pa.concat_tables(self.rows[side]) for side in ("left", "right"))
        con = duckdb.connect()
        con.register("l", left_rows)
        con.register("r", right_rows)
        # Hours of a hundred, of which DuckDB makes a hash join: it has none for a band alone.
        con.execute("CREATE VIEW near AS SELECT *, unnest([0, 1, 2]) - 1 + (t + 1000) // 100 AS hour FROM l")
        on = "hour = (u + 1000) // 100 AND b BETWEEN a - 2 AND a + 2 AND u BETWEEN t - 50 AND t + 50"
        return Counter(con.execute(f"SELECT id, rid FROM near JOIN r ON {on}").fetchall())

    def shown(self) -> list[dict[str, Any]]:
        """What a broker would show of the rows that were written since this was asked, all writers being dead: those of
        batches that were given out."""
        before, (self.newest, _) = self.newest, given(self.servers, self.name, (self.left, self.right))
        messages = self.topics.read(self.out)
        assert all(batch_of(message) > before for message in messages), "a batch was given out twice"
        return [json.loads(message.value()) for message in messages if batch_of(message) <= self.newest]


def batch(join: KafkaJoin) -> int:
    """The number of the next one."""
    while (number := join.step()) is None:
        pass
    return number


def pairs(rows: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    return Counter((row["id"], row["rid"]) for row in rows)


class Died(BaseException):
    """The process has ended."""


class Mortal(Producer):
    """Ends its process before, or right after, one of its operations."""

    operations = 0
    die_at = float("inf")

    def _do(self, name: str, *given: Any, **named: Any) -> Any:
        if Mortal.operations > Mortal.die_at:
            raise Died  # it does nothing more
        Mortal.operations += 1
        if Mortal.operations > Mortal.die_at:
            if Mortal.die_at % 1:
                getattr(Producer, name)(self, *given, **named)
            raise Died
        return getattr(Producer, name)(self, *given, **named)


for _name in ("begin_transaction", "flush", "send_offsets_to_transaction", "commit_transaction", "abort_transaction"):

    def _operation(self: Mortal, *given: Any, _name: str = _name) -> Any:
        return self._do(_name, *given)

    setattr(Mortal, _name, _operation)
