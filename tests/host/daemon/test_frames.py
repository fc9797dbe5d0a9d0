"""What is malformed, too large or cut short is told by name, and harms nobody else."""

import dataclasses
import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin.host import Rows, WindowJoin
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.address import Address
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.daemon.flight_rows import exchange_schema, unwrap, wrap
from muntin.host.daemon.frames import HEADER, MAGIC, MAX_JSON, VERSION, FrameSocket
from muntin.host.daemon.rows import cut, decode, encode, encode_within
from muntin.host.errors import LimitError, MuntinError, ProtocolError, from_wire
from muntin.host.join import kept_types
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, batch, expected, open_query, process
from tests.host.daemon.test_replay import wait_until

PROCESS = {"op": "process", "query": "q", "batch": 0, "run": "", "instance": ""}


class Stranger:
    """A raw connection to a daemon."""

    def __init__(self, daemon: Daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(10)
        self.socket.connect(Address.parse(daemon.addresses[0]).path)
        self.frames = FrameSocket(self.socket, 1 << 30)

    def ask(self, message: dict[str, Any], body: pa.Buffer | None = None) -> dict[str, Any]:
        """Send a frame and return the answer."""
        self.frames.send(message, body)
        return self.frames.receive()[0]

    def error(self) -> MuntinError:
        """The error that the daemon tells."""
        return from_wire(self.frames.receive()[0]["error"])

    def closed(self) -> bool:
        """Whether the daemon closes the connection."""
        return self.socket.recv(1) == b""


@pytest.fixture
def stranger(daemon: Daemon, client: DaemonClient) -> Iterator[Stranger]:
    """A raw connection; query "q" is open."""
    open_query(client)
    stranger = Stranger(daemon)
    yield stranger
    stranger.socket.close()


def frame(message: bytes, body: bytes = b"", *, magic: bytes = MAGIC, version: int = VERSION) -> bytes:
    """The bytes of a frame."""
    return HEADER.pack(magic, version, len(message), len(body)) + message + body


@pytest.mark.parametrize(
    ("sent", "kind", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ProtocolError, "not a Muntin frame"),
        (frame(b"{}", magic=b"MUN!"), ProtocolError, "not a Muntin frame"),
        (frame(b"{}", version=9), ProtocolError, "version 9"),
        (frame(b"{nonsense"), ProtocolError, "JSON cannot be read"),
        (frame(b"\xff\xfe"), ProtocolError, "JSON cannot be read"),
        (frame(b"[" * 100_000), ProtocolError, "JSON cannot be read"),
        (frame(b"[1]"), ProtocolError, "must be an object"),
        (frame(b"{}", b"body"), ProtocolError, "no body"),
        (HEADER.pack(MAGIC, VERSION, 2, 1 << 62), LimitError, "--max-message"),
        (HEADER.pack(MAGIC, VERSION, MAX_JSON + 1, 0), LimitError, "above the limit"),
    ],
)
def test_bad_frame_is_told_and_ends_its_connection_alone(
    stranger: Stranger, client: DaemonClient, sent: bytes, kind: type[Exception], text: str
) -> None:
    stranger.socket.sendall(sent)
    error = stranger.error()
    assert type(error) is kind
    assert text in str(error)
    stranger.socket.shutdown(socket.SHUT_WR)
    assert stranger.closed()
    assert process(client, 0) == expected([0])
    assert client.status()["errors"] == {kind.__name__: 1}


@pytest.mark.parametrize("size", [1, 3, 4, HEADER.size - 1, HEADER.size, HEADER.size + 5])
def test_frame_cut_short(stranger: Stranger, client: DaemonClient, size: int) -> None:
    stranger.socket.sendall(frame(b'{"op": "ping"}')[:size])
    stranger.socket.shutdown(socket.SHUT_WR)
    assert "cut short" in str(stranger.error())
    assert process(client, 0) == expected([0])


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"op": None},
        {"op": "rows", "side": "left"},
        {"op": "open", "query": "x"},
        {"op": "open", "query": "x", "spec": {}, "left_schema": 1, "right_schema": "?", "streaming": True},
        {"op": "close"},
        {"op": "close", "query": 7},
        {**PROCESS, "batch": -1},
        {**PROCESS, "batch": "0"},
        {**PROCESS, "batch": True},
        {**PROCESS, "batch": 1 << 70},
        {**PROCESS, "query": None},
        {**PROCESS, "run": 1},
        {"op": "process", "query": "q", "batch": 0, "run": ""},
        {"op": "check", "spec": {}},
    ],
)
def test_bad_request_is_told_and_the_connection_stays(stranger: Stranger, message: dict[str, Any]) -> None:
    assert stranger.ask(message)["error"]["error"] in ("ProtocolError", "SchemaError", "PredicateError")
    assert "device" in stranger.ask({"op": "ping"})["ok"]


@pytest.mark.parametrize(
    ("message", "body", "text"),
    [
        ({"op": "rows", "side": "left"}, b"not arrow", "Arrow data cannot be read"),
        (
            {"op": "rows", "side": "left"},
            encode(batch(0)[0][1]).to_pybytes()[:-200],
            "Arrow data cannot be read",
        ),
        ({"op": "rows", "side": "up"}, encode(batch(0)[0][1]).to_pybytes(), "'left' or 'right'"),
        ({"op": "rows", "side": "left"}, encode(batch(0)[1][1]).to_pybytes(), "opened with limit, who"),
        ({"op": "rows", "side": "left"}, None, "rows or commit must follow"),
        ({"op": "ping"}, None, "rows or commit must follow"),
        ({"op": "commit", "left_rows": 1, "right_rows": 0}, None, "0 and 0 arrived"),
        ({"op": "commit"}, None, "'left_rows'"),
    ],
)
def test_bad_rows_are_told_and_not_applied(
    stranger: Stranger, client: DaemonClient, message: dict[str, Any], body: bytes | None, text: str
) -> None:
    assert stranger.ask(PROCESS)["ok"]["rows_wanted"]
    stranger.frames.send(message, pa.py_buffer(body) if body else None)
    assert text in str(stranger.error())
    wait_until(lambda: client.status()["queries"]["q"]["open_requests"] == 0)
    assert client.status()["queries"]["q"]["staged_bytes"] == 0
    assert process(client, 0) == expected([0])


def test_compressed_body_is_refused() -> None:
    rows = batch(0)[0][1]
    for compression in ("lz4", "zstd"):
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_batch(rows)
        with pytest.raises(ProtocolError, match="compressed"):
            decode(sink.getvalue())


def test_damaged_bodies_never_get_through_unchecked(seed: int) -> None:
    rows = pa.record_batch(
        {
            "n": pa.array(range(50)),
            "s": pa.array([f"t{i}" for i in range(50)]),
            "d": pa.array(["x"] * 50).dictionary_encode(),
        }
    )
    whole = encode(rows).to_pybytes()
    assert decode(pa.py_buffer(whole)) == [rows]
    chance = random.Random(seed)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            for got in decode(pa.py_buffer(bytes(damaged[: chance.randint(1, 2 * len(damaged))]))):
                got.validate(full=True)
        except ProtocolError:
            refused += 1
    assert refused > 100


def test_messages_above_the_limit(start: Callable[..., Daemon]) -> None:
    daemon = start(max_message=4096, max_staged=20_000)
    with DaemonClient(daemon.addresses[0], timeout=20) as client:
        open_query(client)
        stranger = Stranger(daemon)
        stranger.ask(PROCESS)
        stranger.socket.sendall(HEADER.pack(MAGIC, VERSION, 2, 4097) + b"{}")
        assert "4,097 bytes" in str(stranger.error())
        # The client cuts what it sends, and the daemon its result.
        assert process(client, 0) == expected([0])
        huge = pa.record_batch([pa.array([1]), pa.array(["x" * 5000])], schema=LEFT)
        with pytest.raises(LimitError, match="one row of"):
            client.process("q", 1, [("left", huge)])
        with pytest.raises(LimitError, match="--max-staged"):
            list(client.process("q", 1, batch(1) * 30))
        wait_until(lambda: client.status()["queries"]["q"]["staged_bytes"] == 0)
        assert process(client, 1) == expected([0, 1])


def test_limits_over_flight(start: Callable[..., Daemon]) -> None:
    daemon = start(max_message=8192, max_staged=20_000, flight=FlightOptions("127.0.0.1", 0, "t"))
    with DaemonClient(daemon.addresses[1], "t", timeout=20) as client:
        open_query(client)
        assert process(client, 0) == expected([0])
        huge = pa.record_batch([pa.array([1]), pa.array(["x" * 9000])], schema=LEFT)
        with pytest.raises(LimitError, match="--max-message"):
            list(client.process("q", 1, [("left", huge)]))
        with pytest.raises(LimitError, match="--max-staged"):
            list(client.process("q", 1, batch(1) * 60))
        assert process(client, 1) == expected([0, 1])


def test_silent_connection_is_closed(start: Callable[..., Daemon]) -> None:
    daemon = start(idle_timeout=0.2)
    assert Stranger(daemon).closed()
    with DaemonClient(daemon.addresses[0], timeout=20) as client:
        open_query(client)
        stranger = Stranger(daemon)
        stranger.ask(PROCESS)
        stranger.socket.sendall(frame(b'{"op": "rows", "side": "left"}', b"x" * 100)[:-50])
        assert "0.2 seconds" in str(stranger.error())
        stranger.socket.close()
        wait_until(lambda: client.status()["queries"]["q"]["open_requests"] == 0)
        assert process(client, 0) == expected([0])  # over a connection that the daemon closed meanwhile


def test_limit_on_connections(start: Callable[..., Daemon]) -> None:
    daemon = start(max_connections=2)
    strangers = [Stranger(daemon) for _ in range(2)]
    assert [s.ask({"op": "ping"})["ok"]["device"] for s in strangers] == ["numpy", "numpy"]
    assert "--max-connections" in str(Stranger(daemon).error())
    strangers.pop().socket.close()
    wait_until(lambda: daemon.service.status()["connections"] == 1)
    assert "ok" in Stranger(daemon).ask({"op": "ping"})


def test_random_bytes(daemon: Daemon, client: DaemonClient, seed: int) -> None:
    open_query(client)
    chance = random.Random(seed)
    for _ in range(30):
        stranger = Stranger(daemon)
        stranger.socket.sendall(chance.choice([b"", MAGIC, MAGIC + struct.pack("!H", VERSION)]) + chance.randbytes(60))
        stranger.socket.close()
    assert process(client, 0) == expected([0])


def test_cut_and_encode_keep_every_row() -> None:
    rows = pa.record_batch({"n": pa.array(range(1000)), "s": pa.array(["x" * (i % 50) for i in range(1000)])})
    pieces = list(cut([rows, rows[:0]], rows=300, size=5000))
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([rows])
    assert max(piece.num_rows for piece in pieces) <= 300
    bodies = list(encode_within(rows, 4000))
    assert all(body.size <= 4000 for _, body in bodies)
    again = pa.Table.from_batches([b for _, body in bodies for b in decode(body)])
    assert again == pa.Table.from_batches([rows])
    assert [count for count, _ in bodies] == [sum(b.num_rows for b in decode(body)) for _, body in bodies]


def test_flight_rows_keep_every_row() -> None:
    schema = exchange_schema(LEFT, RIGHT)
    for side, rows in batch(0):
        ((got_side, got),) = unwrap(wrap(side, rows, schema))
        assert (got_side, got) == (side, rows)
    with pytest.raises(ProtocolError, match="list of structs"):
        list(unwrap(pa.record_batch({"left": pa.array([1])})))


def test_addresses() -> None:
    for text in ("unix:/a/b", "grpc://host:1", "grpc+tls://[::1]:65535"):
        assert str(Address.parse(text)) == text
    for text in ("", "unix:", "/a/b", "grpc://host", "grpc://host:70000", "http://host:1", "grpc://:1"):
        with pytest.raises(MuntinError, match="must be unix:"):
            Address.parse(text)


def test_status_is_json(daemon: Daemon, client: DaemonClient) -> None:
    open_query(client)
    process(client, 0)
    status = daemon.service.status()
    assert json.loads(json.dumps(status)) == status


@pytest.mark.parametrize("front_end", [0, 1], ids=["unix", "flight"])
@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_and_chunks_through_a_daemon(
    start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch, front_end: int, nested: bool, tmp_path: Path
) -> None:
    """Dictionaries that outgrow their indices, and text for several chunks: as in process, and from the disk."""
    monkeypatch.setattr(kept_types, "MOST_CHUNK_BYTES", 500)
    daemon = start(max_kept=600, max_message=4096, flight=FlightOptions("127.0.0.1", 0, "t"))
    kind = pa.dictionary(pa.int8(), pa.string())
    field = pa.list_(pa.struct({"x": kind})) if nested else kind
    left = pa.schema([("limit", pa.int64()), ("word", field), ("text", pa.string())])
    spec = dataclasses.replace(SPEC, left=Rows(1000), right=Rows(1000))

    def rows(call: int) -> pa.RecordBatch:
        column = pa.array([f"{n} of {call}" for n in range(90)]).dictionary_encode().cast(kind)
        if nested:
            offsets = pa.array(range(91), pa.int32())
            column = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([column], ["x"]))
        return pa.record_batch([pa.array(range(90)), column, pa.array(["x" * n for n in range(90)])], schema=left)

    right = pa.record_batch([pa.array(range(90)), pa.array(["r"] * 90)], schema=RIGHT)
    options: dict[str, Any] = {"left_schema": left, "right_schema": RIGHT}
    with (
        WindowJoin.from_spec(spec, device="numpy", **options) as join,
        DaemonClient(daemon.addresses[front_end], "t" if front_end else None, timeout=20) as client,
    ):
        client.open_query("q", spec, left, RIGHT, streaming=True, state=str(tmp_path))
        for call in range(4):
            due = join.process(pa.Table.from_batches([rows(call)]), pa.Table.from_batches([right])).to_pylist()
            for _ in range(2):  # the second time from what was kept
                batches = list(client.process("q", call, [("left", rows(call)), ("right", right)]))
                assert {batch.schema for batch in batches} == {spec.output_schema(left, RIGHT)}
                assert [row for batch in batches for row in batch.to_pylist()] == due
