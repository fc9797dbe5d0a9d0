"""Arrow Flight: tokens, TLS, and clients that vanish."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from pyarrow import flight

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.certificate import NAME, Certificate, unnamed_file
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.daemon.rows import exchange_schema, wrap
from muntin.host.errors import AuthError, ConnectionLostError, DaemonError
from tests.host.daemon.conftest import LEFT, RIGHT, TOKEN, batch, expected, open_query, process
from tests.host.daemon.test_replay import wait_until


@pytest.mark.parametrize(
    ("token", "text"), [(None, "wants a token"), ("wrong", "token is wrong"), ("", "wants a token")]
)
def test_wrong_token(daemon: Daemon, token: str | None, text: str) -> None:
    with DaemonClient(daemon.addresses[1], token, timeout=120) as client:
        for call in (client.ping, client.status, lambda: open_query(client), lambda: process(client, 0)):
            with pytest.raises(AuthError, match=text):
                call()
    assert daemon.service.status()["queries"] == {}
    assert daemon.service.status()["errors"]["AuthError"] >= 4


def test_tls(start: Callable[..., Daemon], tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(TOKEN + "\n")
    options = FlightOptions.from_files("127.0.0.1:0", tmp_path / "token", tmp_path / "cert.pem", tmp_path / "key.pem")
    address = start(flight=options).addresses[1]
    assert address.startswith("grpc+tls://127.0.0.1:")
    with DaemonClient(address, TOKEN, timeout=120, tls_ca=tmp_path / "ca.pem") as client:
        open_query(client)
        assert process(client, 0) == expected([0])
    with DaemonClient(address, TOKEN, timeout=5) as client, pytest.raises(AuthError, match="Give tls_ca"):
        client.ping()  # the certificate's authority is not known
    plain = address.replace("+tls", "")
    with (
        DaemonClient(plain, TOKEN, timeout=5) as client,
        pytest.raises(ConnectionLostError, match=r"named by grpc\+tls"),
    ):
        client.ping()
    with pytest.raises(AuthError, match="unencrypted"):
        DaemonClient(plain, TOKEN, timeout=5, tls_ca=tmp_path / "ca.pem")
    with pytest.raises(DaemonError, match=r"token holds no certificate to trust"):
        DaemonClient(address, TOKEN, timeout=5, tls_ca=tmp_path / "token")
    with pytest.raises(DaemonError, match=r"cannot read .*missing"):
        DaemonClient(address, TOKEN, timeout=5, tls_ca=tmp_path / "missing")


class Recorder:
    """Passes connections on to a daemon, and keeps all that goes through them."""

    def __init__(self, address: str):
        self._port = int(address.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"{address.rpartition(':')[0]}:{self._listener.getsockname()[1]}"
        self.seen = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ends = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self._port))
                for source, target in (ends, ends[::-1]):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                self.seen += data
                target.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_the_network_sees(start: Callable[..., Daemon], encrypted: bool) -> None:
    made = Certificate.make()
    tls = (made.chain, made.key) if encrypted else None
    recorder = Recorder(start(flight=FlightOptions("127.0.0.1", 0, TOKEN, tls)).addresses[1])
    with DaemonClient(recorder.address, TOKEN, timeout=120, tls_ca=made.trust if encrypted else None) as client:
        open_query(client)
        assert process(client, 0) == expected([0])
    recorder.close()
    texts = {f"{side}{number}".encode() for side in "lr" for number in range(10, 40)}
    seen = [text for text in texts if text in recorder.seen]
    assert (TOKEN.encode() in recorder.seen, len(seen) == len(texts)) == (not encrypted, not encrypted)
    assert not (encrypted and b"price" in recorder.seen)
    assert len(recorder.seen) > 1000


def test_certificate_of_a_query(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """Clients trust it alone, by its name and not by the daemon's address; it is not shown by accident."""
    made, other = Certificate.make(), Certificate.make()
    assert made.name == other.name == NAME
    assert "PRIVATE" not in repr(made)
    address = start(flight=FlightOptions("127.0.0.1", 0, TOKEN, (made.chain, made.key))).addresses[1]
    with DaemonClient(address, TOKEN, timeout=120, tls_ca=made.trust) as client:
        assert client.ping()
    (tmp_path / "made.pem").write_bytes(made.chain)
    for wrong in (other.trust, (made.chain, "other.invalid"), tmp_path / "made.pem"):
        with (
            DaemonClient(address, TOKEN, timeout=120, tls_ca=wrong) as client,
            pytest.raises(AuthError, match="trusted"),
        ):
            client.ping()
    with pytest.raises(DaemonError, match="tls_ca holds no certificate"):
        DaemonClient(address, TOKEN, timeout=5, tls_ca=(b"", NAME))


def test_certificate_from_files(tmp_path: Path) -> None:
    issued, nameless = trustme.CA().issue_cert("*.example.org"), trustme.CA().issue_cert("127.0.0.1")
    for name, kind in (("own", issued), ("nameless", nameless)):
        kind.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        (tmp_path / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in kind.cert_chain_pems))
    own = Certificate.from_files(tmp_path / "own.pem", tmp_path / "own.key")
    assert own.trust == (b"".join(blob.bytes() for blob in issued.cert_chain_pems), "*.example.org")
    with pytest.raises(DaemonError, match="no DNS name"):
        Certificate.from_files(tmp_path / "nameless.pem", tmp_path / "nameless.key")
    with pytest.raises(DaemonError, match="not a certificate and its private key"):
        Certificate.from_files(tmp_path / "own.pem", tmp_path / "nameless.key")
    with pytest.raises(DaemonError, match=r"cannot read .*missing"):
        Certificate.from_files(tmp_path / "missing", tmp_path / "own.key")


def test_certificate_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(DaemonError, match=r"pip install 'muntin\[spark\]'.*tls=False"):
        Certificate.make()


def test_unnamed_file() -> None:
    handle = unnamed_file(b"secret")
    try:
        assert os.fstat(handle).st_mode & 0o777 == 0o600
        assert os.fstat(handle).st_nlink == 0
        command = ["cat", f"/proc/self/fd/{handle}", f"/proc/self/fd/{handle}"]
        assert subprocess.run(command, pass_fds=[handle], capture_output=True, check=True).stdout == b"secretsecret"
    finally:
        os.close(handle)


def test_options_from_files(tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(" secret \n")
    assert FlightOptions.from_files("[::1]:5", tmp_path / "token", None, None) == FlightOptions("::1", 5, "secret")
    with pytest.raises(DaemonError, match="host:port"):
        FlightOptions.from_files("localhost", tmp_path / "token", None, None)
    with pytest.raises(DaemonError, match="together"):
        FlightOptions.from_files("localhost:1", tmp_path / "token", tmp_path / "cert", None)
    with pytest.raises(DaemonError, match=r"cannot read .*missing"):
        FlightOptions.from_files("localhost:1", tmp_path / "missing", None, None)
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("\n")
    with pytest.raises(AuthError, match="one line"):
        FlightOptions.from_files("localhost:1", tmp_path / "token", None, None)


def test_bad_certificate_and_taken_port(start: Callable[..., Daemon], daemon: Daemon) -> None:
    port = int(daemon.addresses[1].rpartition(":")[2])
    with pytest.raises(DaemonError, match=r"cannot listen"):
        start(flight=FlightOptions("256.256.256.256", port, TOKEN))


def test_stream_without_its_last_message_is_not_applied(daemon: Daemon) -> None:
    """What a killed client's stream may look like: it ends in order, but says nothing of being complete."""
    with DaemonClient(daemon.addresses[1], TOKEN, timeout=120) as client:
        open_query(client)
        raw = flight.FlightClient(daemon.addresses[1], generic_options=[("grpc.enable_http_proxy", 0)])
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())], timeout=120)
        command = json.dumps({"query": "q", "batch": 0, "run": "", "instance": ""}).encode()
        for end in ("done", "cancel"):
            writer, reader = raw.do_exchange(flight.FlightDescriptor.for_command(command), options)
            schema = exchange_schema(LEFT, RIGHT)
            writer.begin(schema)
            assert json.loads(reader.read_chunk().app_metadata.to_pybytes())["rows_wanted"]
            for side, rows in batch(0):
                writer.write_batch(wrap(side, rows, schema))
            if end == "done":
                writer.done_writing()
                with pytest.raises(flight.FlightServerError, match="nothing was applied"):
                    reader.read_chunk()
            else:
                reader.cancel()
        raw.close()
        wait_until(lambda: client.status()["queries"]["q"]["open_requests"] == 0)
        status = client.status()["queries"]["q"]
        assert (status["batch"], status["rows_left"], status["discarded"]) == (None, 0, 2)
        assert process(client, 0) == expected([0])


def test_both_front_ends_serve_the_same_queries(daemon: Daemon, client: DaemonClient) -> None:
    open_query(client)
    first = process(client, 0)
    with DaemonClient(daemon.addresses[1], TOKEN, timeout=120) as other:
        assert process(other, 0) == first
        assert process(other, 1) == expected([0, 1])
    assert process(client, 2) == expected([0, 1, 2])


def test_unreachable() -> None:
    with DaemonClient("grpc://127.0.0.1:1", "t", timeout=5) as client, pytest.raises(ConnectionLostError):
        client.ping()


def test_actions_are_listed(daemon: Daemon) -> None:
    raw = flight.FlightClient(daemon.addresses[1], generic_options=[("grpc.enable_http_proxy", 0)])
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())], timeout=120)
    assert {action.type for action in raw.list_actions(options)} == {
        "ping",
        "status",
        "check",
        "open",
        "figures",
        "routes",
        "describe",
        "close",
    }
    raw.close()
