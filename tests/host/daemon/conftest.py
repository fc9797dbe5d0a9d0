"""Daemons in this process, at short socket paths, on the reference device."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import Band, JoinSpec, Rows, WindowJoin
from muntin.host.daemon import DaemonClient, Limits
from muntin.host.daemon.daemon import Daemon, FlightOptions

TOKEN = "correct horse battery staple"
SPEC = JoinSpec(on=Band("limit", "price", -2, 2), left=Rows(50), right=Rows(30), order="inner")
LEFT = pa.schema([("limit", pa.int64()), ("who", pa.string())])
RIGHT = pa.schema([("price", pa.int64()), ("note", pa.string())])

Batch = list[tuple[str, pa.RecordBatch]]


def batch(number: int, rows: int = 40) -> Batch:
    """The rows of batch `number`: deterministic, in several pieces of both sides."""
    at = range(number * rows, (number + 1) * rows)
    left = pa.record_batch([pa.array([i * 7 % 101 for i in at]), pa.array([f"l{i}" for i in at])], schema=LEFT)
    right = pa.record_batch([pa.array([i * 5 % 103 for i in at]), pa.array([f"r{i}" for i in at])], schema=RIGHT)
    half = rows // 2
    return [("left", left[:half]), ("right", right), ("left", left[half:])]


def expected(numbers: list[int], spec: JoinSpec = SPEC) -> pa.Table:
    """What the operator itself says to these batches, the last one's result alone."""
    with WindowJoin.from_spec(spec, device="numpy", left_schema=LEFT, right_schema=RIGHT) as join:
        for number in numbers:
            rows = batch(number)
            sides = [pa.Table.from_batches([b for s, b in rows if s == side]) for side in ("left", "right")]
            result = join.process(*sides)
    return result


def process(client: DaemonClient, number: int, *, query: str = "q", run: str = "", instance: str = "") -> pa.Table:
    """Send batch `number` and return its result."""
    return as_table(client.process(query, number, batch(number), run=run, instance=instance))


def as_table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """The batches of a result as one table."""
    return pa.Table.from_batches(batches, schema=SPEC.output_schema(LEFT, RIGHT))


def open_query(client: DaemonClient, query: str = "q", *, streaming: bool = True) -> pa.Schema:
    """Open a query as these tests use it."""
    return client.open_query(query, SPEC, LEFT, RIGHT, streaming=streaming)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A private directory whose path is short enough for a socket's, wherever pytest keeps its own."""
    path = tempfile.mkdtemp(prefix="muntin-test-")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons that are stopped after the test."""
    daemons: list[Daemon] = []

    def start(**options: object) -> Daemon:
        flight, device = options.pop("flight", None), options.pop("device", "numpy")
        limits = Limits(**{"grace": 5.0, **options})  # type: ignore[arg-type]
        daemon = Daemon(device, directory / f"{len(daemons)}.sock", flight=flight, limits=limits)  # type: ignore[arg-type]
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        daemon.stop()


@pytest.fixture
def daemon(start: Callable[..., Daemon]) -> Daemon:
    """A daemon with both front ends."""
    return start(flight=FlightOptions("127.0.0.1", 0, TOKEN))


@pytest.fixture
def client(daemon: Daemon) -> Iterator[DaemonClient]:
    """A client of `daemon` over its Unix socket."""
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
        yield client


@pytest.fixture(params=["unix", "flight"])
def either(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[DaemonClient]:
    """A client of `daemon` over each front end in turn."""
    address, token = (daemon.addresses[0], None) if request.param == "unix" else (daemon.addresses[1], TOKEN)
    with DaemonClient(address, token, timeout=120) as client:
        yield client
