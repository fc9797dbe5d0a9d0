"""An OpenTelemetry collector on loopback, and the tree of the spans of a trace."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """A span, of whichever process."""

    name: str
    trace: int
    span: int
    parent: int | None
    attributes: dict[str, Any]
    failed: bool


class Collector:
    """Takes spans as OTLP over HTTP.

    Attributes
    ----------
    address : str
        For ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    spans : list of Seen
        In the order in which they came.
    """

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.spans: list[Seen] = []

    def take(self, body: bytes) -> None:
        """The body of a request."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {a.key: getattr(a.value, str(a.value.WhichOneof("value"))) for a in span.attributes}
                    parent = int.from_bytes(span.parent_span_id, "big") or None
                    ids = [int.from_bytes(number, "big") for number in (span.trace_id, span.span_id)]
                    self.spans.append(Seen(span.name, *ids, parent, values, span.status.code == 2))


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield collector
        server.shutdown()


def ended(spans: Iterable[Any]) -> list[Seen]:
    """Spans of this process, as the SDK's exporter in memory has them."""
    return [
        Seen(
            span.name,
            span.context.trace_id,
            span.context.span_id,
            span.parent.span_id if span.parent else None,
            dict(span.attributes or {}),
            not span.status.is_ok and not span.status.is_unset,
        )
        for span in spans
    ]


def paths(spans: Iterable[Seen]) -> set[str]:
    """The name of each span behind those of the spans above it: "request open/daemon open"."""
    spans = list(spans)
    known = {(span.trace, span.span): span for span in spans}

    def path(span: Seen) -> str:
        above = known.get((span.trace, span.parent or 0))
        return span.name if above is None else f"{path(above)}/{span.name}"

    return {path(span) for span in spans}
