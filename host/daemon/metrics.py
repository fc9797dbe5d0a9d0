"""Prometheus metrics and a status page, read from the daemon's status when they are asked for."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from muntin.host.errors import DaemonError

_PAGE = Path(__file__).with_name("status.html")
QUERY_COUNTERS = {
    "requests": "Requests begun.",
    "repeats": "Requests answered with a result that was kept.",
    "discarded": "Requests whose stage was thrown away.",
    "rows_left": "Left rows applied.",
    "rows_right": "Right rows applied.",
    "rows_out": "Rows of results.",
}
QUERY_GAUGES = {
    "staged_bytes": "Bytes of input that wait to be applied.",
    "open_requests": "Requests in progress.",
    "lag_seconds": "How long the oldest rows that are not joined yet have been here.",
    "kept_bytes": "Bytes of the newest result, kept for a repeat.",
    "kept_file_bytes": "Those of them in a temporary file.",
    "batch": "Number of the newest batch.",
    "routes_epoch": "How often the routes of rows to partitions have changed.",
    "routes_spread": "Bins whose rows are spread over all partitions.",
}


class DaemonCollector(Collector):
    """Makes metrics out of `Service.status`; numbers in a query's operator statistics become
    `muntin_join_<name>`.

    Parameters
    ----------
    status : callable
        Returns the status.
    """

    def __init__(self, status: Callable[[], dict[str, Any]]):
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Nothing: the names depend on the queries that are open."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics now."""
        status = self._status()
        yield GaugeMetricFamily("muntin_uptime_seconds", "Since the start.", value=status["uptime_seconds"])
        yield GaugeMetricFamily("muntin_queries", "Queries open.", value=len(status["queries"]))
        yield GaugeMetricFamily("muntin_connections", "Connections to the Unix socket.", value=status["connections"])
        if status["memory_bytes"] is not None:
            yield GaugeMetricFamily("muntin_memory_bytes", "Memory of the daemon.", value=status["memory_bytes"])
        errors = CounterMetricFamily("muntin_errors", "Errors that clients were told.", labels=["error"])
        for name, count in status["errors"].items():
            errors.add_metric([name], count)
        yield errors
        for field, text in QUERY_COUNTERS.items():
            yield self._family(CounterMetricFamily, f"muntin_query_{field}", text, status["queries"], field)
        for field, text in QUERY_GAUGES.items():
            yield self._family(GaugeMetricFamily, f"muntin_query_{field}", text, status["queries"], field)
        yield from self._join_statistics(status["queries"])

    @staticmethod
    def _family(kind: Any, name: str, text: str, queries: dict[str, Any], field: str) -> Metric:
        family = kind(name, text, labels=["query"])
        for query, status in queries.items():
            if status.get(field) is not None:
                family.add_metric([query], status[field])
        return family

    @staticmethod
    def _join_statistics(queries: dict[str, Any]) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for query, status in queries.items():
            for name, part, value in _numbers(status["stats"]):
                family = families.setdefault(
                    name,
                    GaugeMetricFamily(f"muntin_join_{name}", f"{name} of WindowJoin.stats.", labels=["query", "part"]),
                )
                family.add_metric([query, part], value)
        yield from families.values()


def serve_metrics(
    status: Callable[[], dict[str, Any]], host: str, port: int, token: str | None = None
) -> tuple[Callable[[], None], int]:
    """Serve metrics at ``/metrics``, the status at ``/status.json`` and a page that shows it at ``/``, over HTTP.

    Parameters
    ----------
    status : callable
        Returns `Service.status`.
    host, port : str, int
        Port 0 lets the system choose.
    token : str, optional
        What clients must present: as a bearer token, or as the password of any user, as browsers do.

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
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if token is not None and not _presents(environ.get("HTTP_AUTHORIZATION", ""), token):
            start("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="muntin"'), ("Content-Type", "text/plain")])
            return [b"This daemon asks for its token, as the password of any user.\n"]
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return metrics(environ, start)
        if path == "/status.json":
            start("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            return [json.dumps(status()).encode()]
        if path == "/":
            start("200 OK", [("Content-Type", "text/html; charset=utf-8")])
            return [_PAGE.read_bytes()]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"There are /, /metrics and /status.json.\n"]

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


def _numbers(stats: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for name, value in stats.items():
        if isinstance(value, dict):
            for part, number in value.items():
                if isinstance(number, int | float):
                    yield name, str(part), float(number)
        elif isinstance(value, int | float):
            yield name, "", float(value)
