"""Traces over OTLP, for services that set RELAYDECK_OTEL_ENDPOINT. Without the setting nothing imports this module.

A span contains names, hosts, statuses and path templates: no query, header or body, so no secret can be in one.
"""

import logging
import time
from collections.abc import Callable
from functools import partial

import aiohttp
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from relaydeck import __version__
from relaydeck.web_addresses import shown_address

PROPAGATOR = TraceContextTextMapPropagator()  # W3C `traceparent` and `tracestate`
REPORT_SECONDS = 60.0


class ProblemReports(logging.Handler):
    """Reports how often the SDK had something to log, once a minute at most. Its own words contain URLs."""

    def __init__(self, report: Callable[[int], object], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._report, self._clock = report, clock
        self._problems, self._due = 0, clock()

    def emit(self, record: logging.LogRecord) -> None:
        """In the thread that exports, one at a time."""
        self._problems += 1
        if self._clock() >= self._due:
            problems, self._problems = self._problems, 0
            self._due = self._clock() + REPORT_SECONDS
            self._report(problems)


class Tracing:
    """One per process."""

    def __init__(self, endpoint: str, report: Callable[[str, int], object]) -> None:
        """`endpoint` is the address of a collector; spans go to `/v1/traces` below it.

        `report` is told, in another thread, of which collector and how many problems there were since the last time.
        """
        self._problems = ProblemReports(partial(report, shown_address(endpoint)))
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self._problems)
        self._logger.propagate = False  # or it would write to standard error, among our lines
        resource = Resource.create({"service.name": "relaydeck", "service.version": __version__})
        resource = resource.merge(OTELResourceDetector().detect())  # the environment takes precedence
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer: Tracer = self._provider.get_tracer("relaydeck", __version__)

    def close(self) -> None:
        """Sends what is left. Waits for the collector."""
        self._provider.shutdown()
        self._logger.removeHandler(self._problems)
        self._logger.propagate = True

    def outgoing(self, name: str) -> aiohttp.TraceConfig:
        """Makes a span of each request of a client session, and passes the trace on in its headers."""
        config = aiohttp.TraceConfig()
        outgoing = _OutgoingSpans(self.tracer, name)
        config.on_request_start.append(outgoing.start)
        config.on_request_end.append(outgoing.end)
        config.on_request_exception.append(outgoing.fail)
        return config


class _OutgoingSpans:
    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer, self._name = tracer, name

    async def start(
        self, _session: aiohttp.ClientSession, context: "object", params: aiohttp.TraceRequestStartParams
    ) -> None:
        attributes = {"http.request.method": params.method, "server.address": params.url.host or ""}
        port = {} if params.url.port is None else {"server.port": params.url.port}
        span = self._tracer.start_span(self._name, kind=SpanKind.CLIENT, attributes={**attributes, **port})
        context.span = span  # type: ignore[attr-defined]
        PROPAGATOR.inject(params.headers, context=set_span_in_context(span))

    async def end(
        self, _session: aiohttp.ClientSession, context: "object", params: aiohttp.TraceRequestEndParams
    ) -> None:
        end_response_span(context.span, params.response.status, failed_from=400)  # type: ignore[attr-defined]

    async def fail(
        self, _session: aiohttp.ClientSession, context: "object", params: aiohttp.TraceRequestExceptionParams
    ) -> None:
        span: Span = context.span  # type: ignore[attr-defined]
        span.set_attribute("error.type", type(params.exception).__name__)  # its text may quote a URL
        span.set_status(Status(StatusCode.ERROR))
        span.end()


def end_response_span(span: Span, status: int, *, failed_from: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= failed_from:
        span.set_status(Status(StatusCode.ERROR))
    span.end()
