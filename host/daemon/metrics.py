"""Prometheus metrics, read from the daemon's status when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from host.errors import DaemonError

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
    "kept_bytes": "Bytes of the newest result, kept for a repeat.",
    "batch": "Number of the newest batch.",
}


class DaemonCollector(Collector):
    """Makes metrics out of `Service.status`; numbers in a query's operator statistics become
    `mullion_join_<name>`.

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
        yield GaugeMetricFamily("mullion_uptime_seconds", "Since the start.", value=status["uptime_seconds"])
        yield GaugeMetricFamily("mullion_queries", "Queries open.", value=len(status["queries"]))
        yield GaugeMetricFamily("mullion_connections", "Connections to the Unix socket.", value=status["connections"])
        if status["memory_bytes"] is not None:
            yield GaugeMetricFamily("mullion_memory_bytes", "Memory of the daemon.", value=status["memory_bytes"])
        errors = CounterMetricFamily("mullion_errors", "Errors that clients were told.", labels=["error"])
        for name, count in status["errors"].items():
            errors.add_metric([name], count)
        yield errors
        for field, text in QUERY_COUNTERS.items():
            yield self._family(CounterMetricFamily, f"mullion_query_{field}", text, status["queries"], field)
        for field, text in QUERY_GAUGES.items():
            yield self._family(GaugeMetricFamily, f"mullion_query_{field}", text, status["queries"], field)
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
                    GaugeMetricFamily(f"mullion_join_{name}", f"{name} of WindowJoin.stats.", labels=["query", "part"]),
                )
                family.add_metric([query, part], value)
        yield from families.values()


def serve_metrics(status: Callable[[], dict[str, Any]], host: str, port: int) -> tuple[Callable[[], None], int]:
    """Serve metrics over HTTP; returns what stops it, and the port (that the system chose, for 0)."""
    registry = CollectorRegistry()
    registry.register(DaemonCollector(status))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise DaemonError(f"cannot serve metrics at {host}:{port}: {error.strerror}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop, server.server_port


def _numbers(stats: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for name, value in stats.items():
        if isinstance(value, dict):
            for part, number in value.items():
                if isinstance(number, int | float):
                    yield name, str(part), float(number)
        elif isinstance(value, int | float):
            yield name, "", float(value)
