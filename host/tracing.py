"""OpenTelemetry spans, on request: where the time of a batch goes, from Spark's task through the daemon into the join.

Off until `start_tracing`; nothing of OpenTelemetry is imported before, and a span costs one comparison. The context
travels in requests as W3C Trace Context has it, in the field ``traceparent``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from functools import partial
from importlib import metadata
from typing import Any, TypeVar

from muntin.host.errors import UnsupportedError
from muntin.host.public import public

VARIABLE = "MUNTIN_TRACING"
FLUSH_SECONDS = 1.0

_tracer: Any = None
_flushing: threading.Thread | None = None
_OFF = contextlib.nullcontext()
_trace_id: ContextVar[int | None] = ContextVar("muntin_trace_id", default=None)
_Item = TypeVar("_Item")


@public("muntin")
def start_tracing(service: str = "muntin") -> None:
    """Turn on spans in this process: of joins, of requests to daemons, and of the daemon that runs here.

    They go to the process's own tracer provider if it has set one of the OpenTelemetry SDK, else to one that is set up
    by OpenTelemetry's environment variables: ``OTEL_EXPORTER_OTLP_ENDPOINT`` (OTLP over HTTP, by default
    ``http://localhost:4318``), ``OTEL_TRACES_EXPORTER`` (``otlp``, ``console`` or ``none``), ``OTEL_SERVICE_NAME``,
    ``OTEL_TRACES_SAMPLER`` and so on.

    Parameters
    ----------
    service : str
        The service's name where ``OTEL_SERVICE_NAME`` gives none.

    Raises
    ------
    UnsupportedError
        OpenTelemetry is not installed, or the exporter is none of these.

    Examples
    --------
    >>> from muntin import start_tracing
    >>> start_tracing("orders")  # doctest: +SKIP
    """
    global _tracer
    if _tracer is not None:
        return
    check_tracing()
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = _provider(service)
        trace.set_tracer_provider(provider)
    _tracer = provider.get_tracer("muntin", metadata.version("muntin"))


def check_tracing() -> None:
    """Raises UnsupportedError where OpenTelemetry is not installed."""
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(f"tracing needs OpenTelemetry ({error}): pip install 'muntin[tracing]'") from error


def tracing_wanted() -> bool:
    """Whether the environment asks for spans."""
    return os.environ.get(VARIABLE, "").lower() in ("1", "true", "yes", "on")


def settings() -> dict[str, str]:
    """OpenTelemetry's environment variables here, for a process elsewhere."""
    return {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}


def _provider(service: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import RandomIdGenerator, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    class Ids(RandomIdGenerator):
        """Puts the tasks of one micro-batch into one trace, though none of them has started the others."""

        def generate_trace_id(self) -> int:
            return _trace_id.get() or super().generate_trace_id()

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(named), id_generator=Ids())
    exporter = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "otlp":
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    elif exporter == "console":
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    elif exporter != "none":
        raise UnsupportedError(f"OTEL_TRACES_EXPORTER must be otlp, console or none, not {exporter!r}")
    return provider


def _flush() -> None:
    """Send what spans have ended: the process of a task may end without notice. A collector that does not answer is
    waited for once, for a moment, as long as what was sent to it is under way."""
    global _flushing
    from opentelemetry import trace

    if _flushing is None or not _flushing.is_alive():
        provider: Any = trace.get_tracer_provider()
        _flushing = threading.Thread(target=provider.force_flush, name="muntin-flush", daemon=True)
        _flushing.start()
        _flushing.join(FLUSH_SECONDS)


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """A span over a block of code, below the one that is current."""
    if _tracer is None:
        return _OFF
    return _tracer.start_as_current_span(name, attributes=_named(attributes))


@contextlib.contextmanager
def task_span(name: str, named: str, **attributes: Any) -> Iterator[None]:
    """A block in which spans are on, with one over it that has nothing above it, in the trace that a text names.

    For processes that run one task after another, of which some want spans. Raises as `start_tracing`.
    """
    global _tracer
    start_tracing("muntin-spark")
    from opentelemetry.context import Context
    from opentelemetry.trace import use_span

    token = _trace_id.set(int.from_bytes(hashlib.sha256(named.encode()).digest()[:16], "big"))
    root = _tracer.start_span(name, context=Context(), attributes=_named(attributes))
    _trace_id.reset(token)
    try:
        with use_span(root, end_on_exit=True):
            yield
    finally:
        _tracer = None
        _flush()


def serving(message: dict[str, Any]) -> AbstractContextManager[Any]:
    """A span over the daemon's work for a request, below the client's that is named in it."""
    if _tracer is None:
        return _OFF
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return _tracer.start_as_current_span(
        f"daemon {_operation(message)}",
        context=TraceContextTextMapPropagator().extract(context_of(message)),
        kind=SpanKind.SERVER,
        attributes=_named({name: message.get(name) for name in ("query", "batch")}),
    )


def request_span(message: dict[str, Any]) -> OpenSpan:
    """A span over a request to a daemon, which the message then names."""
    sent = OpenSpan(f"request {_operation(message)}", query=message.get("query"), batch=message.get("batch"))
    message.update(sent.traceparent())
    return sent


def context_of(message: dict[str, Any]) -> dict[str, str]:
    """The context that a request carries."""
    return {name: message[name] for name in ("traceparent", "tracestate") if isinstance(message.get(name), str)}


def _operation(message: dict[str, Any]) -> str:
    """What a request is for: one of `OPERATIONS`, or "process", "stage" or "fetch"."""
    return "fetch" if "keys" in message else "stage" if message.get("part") else str(message.get("op", "process"))[:40]


def carried(code: Callable[[], _Item]) -> Callable[[], _Item]:
    """The same code, for another thread: spans there are below the one that is current here."""
    return code if _tracer is None else partial(copy_context().run, code)


def failed(error: BaseException) -> None:
    """Note an error, which is sent to a client, in the current span."""
    if _tracer is not None:
        from opentelemetry import trace

        _note(trace.get_current_span(), error)


class OpenSpan:
    """A span that is not current by itself: of generators, between whose items other code runs.

    It begins when it is made, below the current one, and ends with `end`.
    """

    def __init__(self, name: str, **attributes: Any):
        self._span = None if _tracer is None else _tracer.start_span(name, attributes=_named(attributes))

    def current(self) -> AbstractContextManager[Any]:
        """A block in which it is the current span."""
        if self._span is None:
            return _OFF
        from opentelemetry import trace

        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def traceparent(self) -> dict[str, str]:
        """What a request that belongs to it carries."""
        carrier: dict[str, str] = {}
        if self._span is not None:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            with self.current():
                TraceContextTextMapPropagator().inject(carrier)
        return carrier

    def each(self, name: str, items: Iterable[_Item]) -> Iterable[_Item]:
        """The items, with a span below this one over the making of each."""
        return items if self._span is None else self._each(name, iter(items))

    def _each(self, name: str, items: Iterator[_Item]) -> Iterator[_Item]:
        while True:
            with self.current(), span(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def until_end(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """The same items; it ends with them."""
        return items if self._span is None else self._until_end(items)

    def _until_end(self, items: Iterator[_Item]) -> Iterator[_Item]:
        try:
            yield from items
        except BaseException as error:
            self.end(error)
            raise
        finally:
            self.end()

    def end(self, error: BaseException | None = None, **attributes: Any) -> None:
        """Ends it, with an error where there was one. Idempotent."""
        ended, self._span = self._span, None
        if ended is not None:
            ended.set_attributes(_named(attributes))
            if error is not None:
                _note(ended, error)
            ended.end()


def _note(noted: Any, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    noted.record_exception(error)
    noted.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"muntin.{name}": value for name, value in attributes.items() if value is not None}
