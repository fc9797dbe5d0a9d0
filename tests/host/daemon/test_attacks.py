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
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

import muntin
from muntin import Band, JoinSpec, Rows, Watermark, WindowJoin, Within
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

UUID = "0f5fa6a3-7c39-4f0f-9a50-7b1fd3a0c6d5"


@pytest.mark.parametrize("name", ["line\nbreak", "\x1b[2J", "half \ud800", "a" * 301, "zero\0"])
def test_names_that_would_forge_log_lines(daemon, name):
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
        with pytest.raises(QueryError, match="printable"):
            open_query(client, name)
        assert client.status()["queries"] == {}


def test_a_restart_without_its_window_leaves_nothing(daemon):
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
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


def fetch(port, path, authorization=None, accept="text/plain"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    if authorization:
        request.add_header("Authorization", authorization)
    with urllib.request.urlopen(request, timeout=120) as answer:
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
        with DaemonClient(daemon.addresses[0], timeout=120) as client:
            client.open_query("bids <i>and</i> asks", SPEC, LEFT, RIGHT)
            process(client, 0, query="bids <i>and</i> asks")
            told = json.loads(fetch(daemon.metrics_port, "/status.json"))
            assert told["queries"]["bids <i>and</i> asks"]["batch"] == 0
            page = fetch(daemon.metrics_port, "/")
            assert "innerHTML" not in page
            assert "muntin_query_batch_number" in fetch(daemon.metrics_port, "/metrics")
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(daemon.metrics_port, "/other")
    finally:
        daemon.stop()
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", daemon.metrics_port)) != 0


def test_dashboard_and_alerts_ask_for_what_is_scraped(directory):
    """Each metric of an expression has the labels that it matches, groups by or shows; in OpenMetrics too."""
    daemon = Daemon("cpu", directory / "s", metrics=("127.0.0.1", 0), state=str(directory / "state"))
    times = pa.schema([("limit", pa.int64()), ("at", pa.timestamp("us"))])
    spec = JoinSpec(
        on=Band("limit", "limit", 0, 0), within=Within("at", "at", "-1 second", "1 second"), capacity=100,
        watermark=Watermark("1 second", "1 second", lag=0),
    )  # fmt: skip
    rows = pa.record_batch([pa.array([1, 2]), pa.array([5_000_000, 9_000_000], times.field("at").type)], schema=times)
    try:
        with DaemonClient(daemon.addresses[0], timeout=120) as client:
            client.open_query(f"{UUID}/prices/1-of-2", spec, times, times, title="bids and asks")
            for number in range(2):
                list(client.process(f"{UUID}/prices/1-of-2", number, [("left", rows), ("right", rows)]))
            with pytest.raises(UnknownQueryError):
                client.process("nothing", 0, [])
        plain = fetch(daemon.metrics_port, "/metrics")
        openmetrics = fetch(daemon.metrics_port, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    finally:
        daemon.stop()
    families = list(openmetrics_families(openmetrics))
    assert {family.type for family in families} >= {"counter", "gauge", "histogram", "info"}
    labels: dict[str, set[str]] = {}
    for family in plain_families(plain):
        assert family.documentation, family.name
        for sample in family.samples:
            labels.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
            name, counter = sample.name, family.type == "counter"
            assert counter == name.endswith("_total") or name.endswith("_created"), name
    (build,) = (family for family in families if family.name == "muntin_build")
    assert build.samples[0].labels["version"] == muntin.__version__
    (info,) = (sample for family in families if family.name == "muntin_query" for sample in family.samples)
    query = f"{UUID}/prices/1-of-2"
    assert info.labels == {"query": query, "name": "bids and asks", "join": "prices", "partition": "1 of 2"}
    values = {(s.name, s.labels.get("side")): s.value for family in families for s in family.samples}
    assert values["muntin_query_watermark_timestamp_seconds", None] == 8.0
    assert values["muntin_query_watermark", None] == 8_000_000
    assert values["muntin_query_matches_total", None] == 5
    assert values["muntin_query_late_rows_total", "left"] == values["muntin_query_late_rows_total", "right"] == 1
    assert values["muntin_query_batch_duration_seconds_count", None] == 2
    docs = Path(__file__).parents[3] / "docs"
    dashboard = json.loads((docs / "grafana.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    asked = [(target["expr"], re.findall(r"{{(\w+)}}", target["legendFormat"])) for target in targets]
    assert len({target for target, _ in asked}) > 20
    rules = yaml.safe_load((docs / "alerts.yml").read_text())["groups"][0]["rules"]
    assert {"MuntinLag", "MuntinLateRows", "MuntinStateErrors", "MuntinMemory"} <= {rule["alert"] for rule in rules}
    asked += [(rule["expr"], re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) for rule in rules]
    for name in re.findall(r"muntin_\w+", (docs / "operations.md").read_text().partition("## Metrics")[2]):
        assert any(there.startswith(name) for there in labels), name
    for expression, shown in asked:
        metrics = re.findall(r"(?:muntin|process)_\w+", expression)
        assert metrics, expression
        assert not set(metrics) - set(labels), expression
        known = [labels[metric] for metric in metrics]
        by, on, of_other = (
            [{name.strip() for name in names.split(",")} for names in re.findall(rf"\b{word} \(([^)]*)\)", expression)]
            for word in ("by", "on", "group_left")
        )
        for metric, matched in re.findall(r"((?:muntin|process)_\w+){([^}]*)}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]", matched)) <= labels[metric], expression
        assert all(names <= one for names in on for one in known), expression
        assert all(names <= known[0] for names in by), expression
        assert all(names <= known[-1] for names in of_other), expression
        assert set(shown) <= set.union(by[0] if by else known[0], *of_other), (expression, shown)


def test_probes_need_no_token():
    why = [None]
    stop, port = serve_metrics(dict, "127.0.0.1", 0, "secret", lambda: why[0])
    try:
        assert fetch(port, "/healthz") == fetch(port, "/readyz") == "ok\n"
        why[0] = "stopping: SIGTERM"
        assert fetch(port, "/healthz") == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            fetch(port, "/readyz")
        assert refused.value.read() == b"stopping: SIGTERM\n"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch(port, "/metrics")
    finally:
        stop()


def test_a_daemon_is_ready_until_it_ends(directory):
    daemon = Daemon("numpy", directory / "s", metrics=("127.0.0.1", 0))
    try:
        assert fetch(daemon.metrics_port, "/readyz") == "ok\n"
        daemon.end("SIGTERM")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetch(daemon.metrics_port, "/readyz")
    finally:
        daemon.stop()
