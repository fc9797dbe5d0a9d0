"""What is malformed, too large or cut short is told by name, and harms nobody else."""

import dataclasses
import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Rows, WindowJoin
from muntin.host.daemon import DaemonClient, flight_server, service
from muntin.host.daemon.address import Address
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.daemon.definition import Definition
from muntin.host.daemon.frames import HEADER, MAGIC, MAX_JSON, VERSION, FrameSocket
from muntin.host.daemon.rows import Body, cut, decode, encode, encode_within, exchange_schema, unwrap, wrap
from muntin.host.errors import LimitError, MuntinError, ProtocolError, QueryError, UnsupportedError, from_wire
from muntin.host.keys import kept_types
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, TOKEN, batch, expected, open_query, process
from tests.host.daemon.test_replay import wait_until

PROCESS = {"op": "process", "query": "q", "batch": 0, "run": "", "instance": ""}


class Stranger:
    """A raw connection to a daemon."""

    def __init__(self, daemon: Daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(10)
        self.socket.connect(Address.parse(daemon.addresses[0]).path)
        self.frames = FrameSocket(self.socket, 1 << 30)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a frame and return the answer."""
        self.frames.send(message)
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


def written(*batches: pa.RecordBatch) -> bytes:
    """The bytes of a body of these."""
    return b"".join(encode(batches).parts)


def frame(message: bytes, body: bytes = b"", *, magic: bytes = MAGIC, version: int = VERSION) -> bytes:
    """The bytes of a frame."""
    return HEADER.pack(magic, version, len(message), len(body)) + message + body


@pytest.mark.parametrize(("version", "older"), [(VERSION - 1, "the other end's"), (VERSION + 1, "this end's")])
def test_other_version_says_what_to_update(daemon: Daemon, version: int, older: str) -> None:
    stranger = Stranger(daemon)
    stranger.socket.sendall(frame(b"{}", version=version))
    error = stranger.error()
    stranger.socket.close()
    assert type(error) is ProtocolError
    assert f"protocol version {version} of the other end; this end speaks {VERSION}: {older} muntin" in str(error)
    assert "Install the same release at both" in str(error)


def test_other_version_over_flight(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that knows no digests: the one before."""

    def before(service: Any, message: dict[str, Any]) -> dict[str, Any]:
        if message["op"] == "ping":
            return {"protocol": 2, "device": "numpy"}
        Definition.from_wire(message)
        return {}

    monkeypatch.setattr(flight_server, "operate", before)
    with DaemonClient(daemon.addresses[1], TOKEN, timeout=120) as client:
        with pytest.raises(ProtocolError, match="version 2 of the other end; this end speaks 3: the other end's"):
            open_query(client)
        assert client.ping()["protocol"] == 2


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
            written(batch(0)[0][1])[:-200],
            "Arrow data cannot be read",
        ),
        ({"op": "rows", "side": "up"}, written(batch(0)[0][1]), "'left' or 'right'"),
        ({"op": "rows", "side": "left"}, written(batch(0)[1][1]), "opened with limit, who"),
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
    stranger.frames.send(message, Body(body) if body else None)
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
    whole = written(rows)
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


KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(38, 2): st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=0, max_value=9**30),
    pa.timestamp("us", "UTC"): st.integers(0, 2**40),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.string(): st.text(max_size=9),
    pa.large_binary(): st.binary(max_size=9),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", "long" * 9]),
    pa.list_(pa.struct({"x": pa.int16()})): st.lists(st.fixed_dictionaries({"x": st.integers(0, 9)}), max_size=3),
    pa.null(): st.none(),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_frames_carry_rows_from_where_they_lie(data: st.DataObject) -> None:
    """Of all kinds of columns, in slices, several batches in a body, and in pieces that a socket takes."""
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6))
    kinds *= data.draw(st.sampled_from([1, 1, 100]))  # more buffers than go in one system call
    count = data.draw(st.integers(1, 40))
    columns = [pa.array(data.draw(st.lists(st.none() | KINDS[kind], min_size=count, max_size=count)), kind)
               for kind in dict.fromkeys(kinds)]  # fmt: skip
    of_kind = dict(zip(dict.fromkeys(kinds), columns, strict=True))
    whole = pa.RecordBatch.from_arrays([of_kind[kind] for kind in kinds], names=[f"c{n}" for n in range(len(kinds))])
    whole = pa.concat_batches([whole] * data.draw(st.sampled_from([1, 1, 500])))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    batches = [whole[first:last], whole[last:]]
    body = encode(batches)
    ends = socket.socketpair()
    with ends[0], ends[1], ThreadPoolExecutor(1) as thread:
        for end in ends:
            end.settimeout(10)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sent = thread.submit(FrameSocket(ends[0], 0).send, {"n": 1}, body)
        message, got = FrameSocket(ends[1], 1 << 30).receive()
        sent.result()
    assert message == {"n": 1}
    assert got is not None
    assert (got.size, len(decode(got))) == (body.size, 2)
    for one, other in zip(batches, decode(got), strict=True):
        assert one.equals(other)


def test_definition_is_told_once(start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch) -> None:
    """Later clients name its digest, whatever query they open; a daemon that does not know it, or no longer, asks."""
    monkeypatch.setattr(service, "MAX_DEFINITIONS", 2)
    for streaming in (True, False):
        daemon = start(flight=FlightOptions("127.0.0.1", 0, "t"))
        digest = Definition(SPEC, LEFT, RIGHT, streaming).digest
        stranger = Stranger(daemon)

        def ask(query: str, digest: str = digest, stranger: Stranger = stranger) -> dict[str, Any]:
            return stranger.ask({"op": "open", "query": query, "definition": digest})

        assert ask("q") == {"ok": {"definition_wanted": True}}
        for address, token in zip(daemon.addresses, (None, "t"), strict=True):
            with DaemonClient(address, token, timeout=120) as client:
                schema = open_query(client, streaming=streaming)
                assert set(ask("q")["ok"]) == set(ask("another")["ok"]) == {"schema"}
                assert process(client, 0, query="another") == expected([0])
                others = [dataclasses.replace(SPEC, left=Rows(rows)) for rows in (7, 8)]
                for other in others:
                    client.open_query(f"of {other.left.count}", other, LEFT, RIGHT)
                assert ask("q") == {"ok": {"definition_wanted": True}}
                with pytest.raises(QueryError, match="another join"):
                    client.open_query("q", others[0], LEFT, RIGHT, streaming=streaming)
                assert open_query(client, streaming=streaming) == schema
                assert set(ask("q")["ok"]) == {"schema"}
        assert ask("q", "0")["ok"] == {"definition_wanted": True}
        assert stranger.ask({"op": "open", "query": "q", "definition": 7})["error"]["error"] == "ProtocolError"
        stranger.socket.close()


@given(st.sampled_from([(SPEC, LEFT, RIGHT, True, None), (SPEC, LEFT, LEFT, False, "/s")]), st.data())
@settings(max_examples=40)
def test_digest_tells_definitions_apart(given: tuple[Any, ...], data: st.DataObject) -> None:
    """It is the same on the other end, and another where anything differs."""
    first = Definition(*given)
    read = Definition.from_wire(json.loads(json.dumps(first.to_wire())))
    assert (read.digest, Definition(*given).digest) == (first.digest, first.digest)
    values = [dataclasses.replace(SPEC, left=Rows(data.draw(st.integers(1, 60)))), *[pa.schema(
        [pa.field(data.draw(st.sampled_from(["limit", "price", "who"])), pa.int64(), data.draw(st.booleans()))]
    )] * 2, data.draw(st.booleans()), data.draw(st.none() | st.text(max_size=3))]  # fmt: skip
    changed = [data.draw(st.sampled_from([old, new])) for old, new in zip(given, values, strict=True)]
    second = Definition(*changed)
    assert (second.digest == first.digest) == (second == first)


def test_messages_above_the_limit(start: Callable[..., Daemon]) -> None:
    daemon = start(max_message=4096, max_staged=20_000)
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
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
    with DaemonClient(daemon.addresses[1], "t", timeout=120) as client:
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
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
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
    for batches, limit in ([rows], 4000), (pieces, 4000), (pieces, 20_000), (pieces, 1 << 20):
        bodies = [(count, pa.py_buffer(b"".join(body.parts))) for count, body in encode_within(batches, limit)]
        assert all(body.size <= limit for _, body in bodies)
        again = pa.Table.from_batches([b for _, body in bodies for b in decode(body)])
        assert again == pa.Table.from_batches([rows])
        assert [count for count, _ in bodies] == [sum(b.num_rows for b in decode(body)) for _, body in bodies]
    assert len(bodies) == 1


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


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_are_refused_where_flight_sends_the_first_alone(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr(flight_server, "FLIGHT_SENDS_DICTIONARIES_ONCE", True)
    kind = pa.dictionary(pa.int8(), pa.string())
    left = pa.schema([("limit", pa.int64()), ("word", pa.list_(kind) if nested else kind)])
    with DaemonClient(daemon.addresses[1], TOKEN, timeout=120) as client:
        client.open_query("q", SPEC, left, RIGHT, streaming=True, state=None)
        with pytest.raises(UnsupportedError, match=r"column 'word' .* install pyarrow>=22 beside the daemon"):
            list(client.process("q", 0, []))


@pytest.mark.parametrize("front_end", [0, 1], ids=["unix", "flight"])
@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_and_chunks_through_a_daemon(
    start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch, front_end: int, nested: bool, tmp_path: Path
) -> None:
    """Dictionaries that outgrow their indices, and text for several chunks: as in process, and from the disk."""
    monkeypatch.setattr(kept_types, "MAX_CHUNK_BYTES", 500)
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
        DaemonClient(daemon.addresses[front_end], "t" if front_end else None, timeout=120) as client,
    ):
        client.open_query("q", spec, left, RIGHT, streaming=True, state=str(tmp_path))
        for call in range(4):
            due = join.process(pa.Table.from_batches([rows(call)]), pa.Table.from_batches([right])).to_pylist()
            for _ in range(2):  # the second time from what was kept
                batches = list(client.process("q", call, [("left", rows(call)), ("right", right)]))
                assert {batch.schema for batch in batches} == {spec.output_schema(left, RIGHT)}
                assert [row for batch in batches for row in batch.to_pylist()] == due
