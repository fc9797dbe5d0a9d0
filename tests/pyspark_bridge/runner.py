"""Streams made of files, one a micro-batch, and queries that collect what a stream gives."""

import itertools
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OLD = 1_600_000_000


class Runner:
    """Makes file streams under one folder and runs queries over them.

    Attributes
    ----------
    results : dict of str to list of (int, Row)
        For each query the micro-batch number of each row it gave and the row, in order.
    """

    def __init__(self, spark: object, folder: Path):
        self.spark = spark
        self.folder = folder
        self.results: dict[str, list] = {}
        self.queries: list = []
        self._number = itertools.count()

    def write(self, name: str, number: int, table: pa.Table) -> None:
        """Add a file to a stream; files are read in the order of their numbers."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        hidden = path / f"_{number:04d}"
        pq.write_table(table, hidden)
        os.utime(hidden, (OLD + number, OLD + number))
        hidden.rename(path / f"{number:04d}.parquet")

    def stream(self, name: str, tables: list[pa.Table] = ()) -> object:
        """A streaming DataFrame of a folder's files, one a micro-batch."""
        for number, table in enumerate(tables):
            self.write(name, number, table)
        path = str(self.folder / name)
        schema = self.spark.read.parquet(path).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)

    def start(self, frame: object, query: str, *, available_now: bool = True, fail: set = frozenset()) -> object:
        """Start a query that collects; a second start of the same name continues its checkpoint.

        `fail` holds the micro-batches whose sink raises after it took the rows, as a process killed before
        the commit.
        """
        collected = self.results.setdefault(query, [])

        def collect(rows: object, batch: int) -> None:
            # A replayed micro-batch replaces what it gave before, as an idempotent sink does.
            found = rows.collect()
            collected[:] = [entry for entry in collected if entry[0] != batch]
            collected.extend((batch, row) for row in found)
            if batch in fail:
                raise RuntimeError(f"the sink fails after micro-batch {batch}")

        writer = frame.writeStream.option("checkpointLocation", str(self.folder / f"checkpoint-{query}"))
        writer = writer.foreachBatch(collect)
        started = (writer.trigger(availableNow=True) if available_now else writer).start()
        self.queries.append(started)
        return started

    def run(self, frame: object, query: str = "query", **options: object) -> list:
        """Run a query over all that its streams hold; the rows it gave."""
        assert self.start(frame, query, **options).awaitTermination(600), "the query did not end"
        return [row for _, row in self.results[query]]

    def stop(self) -> None:
        """End all queries."""
        for query in self.queries:
            query.stop()
