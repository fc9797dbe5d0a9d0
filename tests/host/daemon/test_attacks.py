"""What users and strangers do to a daemon that they should not."""

import base64
import json
import re
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.host import Band, Rows, WindowJoin
from muntin.host.daemon import DaemonClient, Limits
from muntin.host.daemon.daemon import Daemon, FlightOptions, read_token
from muntin.host.daemon.frames import HEADER, MAGIC, VERSION, FrameSocket
from muntin.host.daemon.metrics import serve_metrics
from muntin.host.errors import (
    AuthError,
    DaemonError,
    KeyTypeError,
    ProtocolError,
    QueryError,
    StateLostError,
    UnknownQueryError,
    from_wire,
)
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, open_query, process


@pytest.mark.parametrize("name", ["line\nbreak", "\x1b[2J", "half \ud800", "a" * 257, "zero\0"])
def test_names_that_would_forge_log_lines(daemon, name):
    with DaemonClient(daemon.addresses[0], timeout=20) as client:
        with pytest.raises(QueryError, match="printable"):
            open_query(client, name)
        assert client.status()["queries"] == {}


def test_a_restart_without_its_window_leaves_nothing(daemon):
    with DaemonClient(daemon.addresses[0], timeout=20) as client:
        for _ in range(3):
            open_query(client)
            with pytest.raises(StateLostError):
                process(client, 5)
        status = client.status()
    assert status["queries"] == {}
    assert status["device"]["used_bytes"] == 0


def test_more_clients_at_once_than_the_queue_holds(directory):
    daemon = Daemon("numpy", directory / "s", limits=Limits(max_connections=1000))
    listener = daemon._unix._file.listener
    listener.listen(1)  # so short a queue that most clients find it full
    start = threading.Barrier(60)

    def ask(_):
        start.wait()
        with DaemonClient(daemon.addresses[0], timeout=60) as client:
            return client.status()["pid"]

    try:
        with ThreadPoolExecutor(60) as executor:
            assert len(set(executor.map(ask, range(60)))) == 1
    finally:
        daemon.stop()


@pytest.mark.parametrize("mode", [0o604, 0o606, 0o602])
def test_a_token_that_all_can_read(tmp_path, mode):
    file = tmp_path / "token"
    file.write_text("secret\n")
    file.chmod(mode)
    with pytest.raises(AuthError, match="chmod o-rwx"):
        read_token(file)
    file.chmod(0o640)
    assert read_token(file) == "secret"


def test_a_certificate_that_is_none(tmp_path):
    files = [tmp_path / name for name in ("token", "cert.pem", "key.pem")]
    for file in files:
        file.write_text("garbage")
        file.chmod(0o600)
    with pytest.raises(DaemonError, match=r"cert\.pem and .*key\.pem are not a certificate and its private key"):
        FlightOptions.from_files("127.0.0.1:0", *files)


def test_text_that_is_no_utf_8(daemon):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(20)
        stranger.connect(daemon.addresses[0].removeprefix("unix:"))
        text = b'{"op": "\xff\xfe"}'
        stranger.sendall(HEADER.pack(MAGIC, VERSION, len(text), 0) + text)
        with pytest.raises(ProtocolError, match="JSON cannot be read"):
            raise from_wire(FrameSocket(stranger, 0).receive()[0]["error"])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_key_of_a_wrong_type_has_its_side(side):
    rows = {each: pa.table({"a": ["x"] if each == side else [1]}) for each in ("left", "right")}
    with (
        WindowJoin(on=Band("a", "a", -1, 1), left=Rows(2), right=Rows(2), device="numpy") as join,
        pytest.raises(KeyTypeError, match=f"^{side} side: column 'a' has type string"),
    ):
        join.process(rows["left"], rows["right"])


def fetch(port, path, authorization=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if authorization:
        request.add_header("Authorization", authorization)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def test_metrics_for_other_hosts_ask_for_the_token():
    with pytest.raises(DaemonError, match=r"0\.0\.0\.0 could be read by other hosts"):
        serve_metrics(dict, "0.0.0.0", 0)
    stop, port = serve_metrics(lambda: {"queries": {}}, "127.0.0.1", 0, "secret")
    try:
        basic = base64.b64encode(b"anyone:secret").decode()
        for wrong in (None, "Bearer secre", "Basic !", "Basic " + base64.b64encode(b"secret:").decode(), "secret"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                fetch(port, "/status.json", wrong)
        for right in ("Bearer secret", f"Basic {basic}"):
            assert json.loads(fetch(port, "/status.json", right)) == {"queries": {}}
    finally:
        stop()


def test_the_status_page(directory):
    daemon = Daemon("numpy", directory / "s", metrics=("127.0.0.1", 0))
    try:
        with DaemonClient(daemon.addresses[0], timeout=20) as client:
            client.open_query("bids <i>and</i> asks", SPEC, LEFT, RIGHT)
            process(client, 0, query="bids <i>and</i> asks")
            told = json.loads(fetch(daemon.metrics_port, "/status.json"))
            assert told["queries"]["bids <i>and</i> asks"]["batch"] == 0
            page = fetch(daemon.metrics_port, "/")
            assert "innerHTML" not in page
            assert "muntin_query_batch" in fetch(daemon.metrics_port, "/metrics")
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(daemon.metrics_port, "/other")
    finally:
        daemon.stop()
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", daemon.metrics_port)) != 0


def test_the_dashboard_asks_for_metrics_that_there_are(directory):
    daemon = Daemon("cpu", directory / "s", metrics=("127.0.0.1", 0), state=str(directory / "state"))
    try:
        with DaemonClient(daemon.addresses[0], timeout=20) as client:
            open_query(client)
            process(client, 0)
            with pytest.raises(UnknownQueryError):
                client.process("nothing", 0, [])
        there = fetch(daemon.metrics_port, "/metrics")
    finally:
        daemon.stop()
    dashboard = json.loads((Path(__file__).parents[3] / "docs/grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for expression in asked for name in re.findall(r"muntin_\w+", expression)}
    assert len(names) > 20
    for name in names:
        assert re.search(rf"^{name}[ {{]", there, re.MULTILINE), name
