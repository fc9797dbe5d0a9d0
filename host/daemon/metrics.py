"""Prometheus metrics and a status page, read from the daemon's status when they are asked for."""

from __future__ import annotations

import base64
import hmac
import json
import platform
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pyarrow as pa
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import muntin
from muntin.host.daemon.query import BOUNDS
from muntin.host.daemon.windows import shown_name
from muntin.host.errors import DaemonError
from muntin.host.sides import SIDES

_PAGE = Path(__file__).with_name("status.html")
#: By their names without "muntin_query_": the field of a query's status that each shows, and what it is. Where there
#: are two, they belong to the left and the right side. Counters end in "_total" where they are shown.
COUNTERS = {
    "requests": (("requests",), "Requests begun."),
    "repeated_requests": (("repeats",), "Requests answered with a result that was kept."),
    "discarded_requests": (("discarded",), "Requests whose stage was thrown away."),
    "input_rows": (("rows_left", "rows_right"), "Rows applied."),
    "output_rows": (("rows_out",), "Rows of results."),
    "matches": (("stats.matches",), "Pairs found."),
    "late_rows": (("stats.late_left", "stats.late_right"), "Rows dropped as late."),
    "unmatchable_rows": (("stats.unmatchable_left", "stats.unmatchable_right"), "Rows that no row can match."),
    "probed_runs": (("stats.probed_runs",), "Runs probed, summed over probe commands."),
    "state_wait_seconds": (("stats.state_seconds",), "Time that batches have waited for their state to be durable."),
    "state_sync_seconds": (("stats.sync_seconds",), "Time that files of the state took to become durable."),
    "state_restore_seconds": (("stats.restore_seconds",), "Time that it took to read and load the state."),
    "route_changes": (("routes_epoch",), "How often the routes of rows to partitions have changed."),
}
GAUGES = {
    "opened_timestamp_seconds": (("opened_at",), "When it was opened, since 1970."),
    "staged_bytes": (("staged_bytes",), "Bytes of input that wait to be applied."),
    "open_requests": (("open_requests",), "Requests in progress."),
    "lag_seconds": (("lag_seconds",), "How long the oldest rows that are not joined yet have been here."),
    "kept_bytes": (("kept_bytes",), "Bytes of the newest result, kept for a repeat."),
    "kept_file_bytes": (("kept_file_bytes",), "Those of them in a temporary file."),
    "batch_number": (("batch",), "Number of the newest batch."),
    "spread_bins": (("routes_spread",), "Bins whose rows are spread over all partitions."),
    "waiting_rows": (("stats.waiting_left", "stats.waiting_right"), "Rows that may still come out unmatched."),
    "window_rows": (("stats.window_left", "stats.window_right"), "Rows in the windows."),
    "window_fill_ratio": (("stats.fill_left", "stats.fill_right"), "Share of the declared window that is filled."),
    "watermark": (("stats.watermark",), "The watermark in force, in the unit of the time columns."),
    "watermark_timestamp_seconds": (("stats.watermark_seconds",), "The same since 1970, where it is a time."),
    "device_bytes": (("stats.device_bytes",), "Memory of the device taken by the windows."),
    "row_bytes": (("stats.row_bytes",), "Bytes of the rows kept for output."),
    "state_calls": (("stats.state_calls",), "Calls in the state, that another process would load."),
    "state_bytes": (("stats.state_bytes",), "Bytes of their rows."),
    "state_files": (("stats.state_files",), "Files of the state."),
}


class DaemonCollector(Collector):
    """Makes metrics out of `Service.status`.

    Parameters
    ----------
    status : callable
        Returns the status.
    """

    def __init__(self, status: Callable[[], dict[str, Any]]):
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Nothing: it takes a status to know them."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics now."""
        status = self._status()
        queries, device = status["queries"], status["device"]
        build = {"version": muntin.__version__, "python": platform.python_version(), "pyarrow": pa.__version__}
        yield InfoMetricFamily("muntin_build", "What runs here.", value={**build, "device": device["name"]})
        yield GaugeMetricFamily("muntin_queries", "Queries open.", value=len(queries))
        yield GaugeMetricFamily("muntin_connections", "Connections to the Unix socket.", value=status["connections"])
        for name, text in (("device", "Memory of the device for windows"), ("host", "Memory for windows and results")):
            used, limit = (device[field] for field in _MEMORY[name])
            yield GaugeMetricFamily(f"muntin_{name}_memory_used_bytes", f"{text}, taken.", value=used)
            yield GaugeMetricFamily(f"muntin_{name}_memory_limit_bytes", f"{text}, at most.", value=limit)
        errors = CounterMetricFamily("muntin_errors", "Errors that clients were told.", labels=["error"])
        for name, count in status["errors"].items():
            errors.add_metric([name], count)
        yield errors
        info = InfoMetricFamily("muntin_query", "What a query is called.", labels=["query"])
        for query, told in queries.items():
            name, join, partition = shown_name(query, told["title"])
            info.add_metric([query], {"name": name, "join": join, "partition": partition})
        yield info
        for kind, families in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, (fields, text) in families.items():
                yield _family(kind, f"muntin_query_{name}", text, queries, fields)
        batches = HistogramMetricFamily("muntin_query_batch_duration_seconds", "Of a micro-batch.", labels=["query"])
        steps = HistogramMetricFamily(
            "muntin_query_step_duration_seconds", "Of a step of a micro-batch's join.", labels=["query", "step"]
        )
        for query, told in queries.items():
            batches.add_metric([query], *_buckets(told["batch_seconds"]))
            for step, histogram in told["step_seconds"].items():
                steps.add_metric([query, step], *_buckets(histogram))
        yield batches
        yield steps


_MEMORY = {"device": ("used_bytes", "memory_bytes"), "host": ("host_used_bytes", "host_bytes")}


def _family(kind: Any, name: str, text: str, queries: dict[str, Any], fields: tuple[str, ...]) -> Metric:
    sides = [[side] for side in SIDES] if len(fields) > 1 else [[]]
    family: Metric = kind(name, text, labels=["query", "side"] if len(fields) > 1 else ["query"])
    for query, status in queries.items():
        for field, side in zip(fields, sides, strict=True):
            value: Any = status
            for part in field.split("."):
                value = value.get(part)
                if value is None:
                    break
            else:
                family.add_metric([query, *side], value)  # type: ignore[attr-defined]
    return family


def _buckets(histogram: dict[str, Any]) -> tuple[list[tuple[str, float]], float]:
    """A `Histogram` on the wire as a metric's: counts below each bound, and the sum."""
    bounds = [*map(str, BOUNDS), "+Inf"]
    return list(zip(bounds, accumulate(histogram["counts"]), strict=True)), histogram["sum"]


def serve_metrics(
    status: Callable[[], dict[str, Any]],
    host: str,
    port: int,
    token: str | None = None,
    ready: Callable[[], str | None] = lambda: None,
) -> tuple[Callable[[], None], int]:
    """Serve metrics at ``/metrics``, the status at ``/status.json`` and a page that shows it at ``/``, over HTTP.

    Without a token: ``/healthz``, 200 as long as the daemon answers, and ``/readyz``, 503 unless it takes requests.

    Parameters
    ----------
    status : callable
        Returns `Service.status`.
    host, port : str, int
        Port 0 lets the system choose.
    token : str, optional
        What clients must present: as a bearer token, or as the password of any user, as browsers do.
    ready : callable
        Returns why the daemon takes no requests, None where it does.

    Returns
    -------
    stop : callable
        Ends it.
    port : int

    Raises
    ------
    DaemonError
        It cannot listen there, or other hosts could read it without a token.
    """
    if token is None and host not in ("127.0.0.1", "::1", "localhost"):
        raise DaemonError(
            f"metrics at {host} could be read by other hosts: give --token-file too, or serve them at 127.0.0.1"
        )
    registry = CollectorRegistry()
    registry.register(DaemonCollector(status))
    ProcessCollector(registry=registry)
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        path = environ.get("PATH_INFO", "/")
        if path in ("/healthz", "/readyz"):
            wrong = ready() if path == "/readyz" else None
            start("503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain")])
            return [f"{wrong or 'ok'}\n".encode()]
        if token is not None and not _presents(environ.get("HTTP_AUTHORIZATION", ""), token):
            start("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="muntin"'), ("Content-Type", "text/plain")])
            return [b"This daemon asks for its token, as the password of any user.\n"]
        if path == "/metrics":
            return metrics(environ, start)
        if path == "/status.json":
            start("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            return [json.dumps(status()).encode()]
        if path == "/":
            start("200 OK", [("Content-Type", "text/html; charset=utf-8")])
            return [_PAGE.read_bytes()]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"There are /, /metrics, /status.json, /healthz and /readyz.\n"]

    try:
        server = make_server(host, port, answer, _Server, handler_class=_Handler)
    except OSError as error:
        raise DaemonError(f"cannot serve metrics at {host}:{port}: {error.strerror}") from error
    thread = threading.Thread(target=server.serve_forever, name="muntin-metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop, server.server_port


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread of its own."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


class _Handler(WSGIRequestHandler):
    """Keeps requests out of the log."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _presents(header: str, token: str) -> bool:
    """Whether an Authorization header holds the token."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(value.strip().encode(), token.encode())
