"""Traces over OTLP, for services that set RELAYDECK_OTEL_ENDPOINT. Without the setting nothing imports this module.

A span contains names, hosts, statuses and path templates: no query, header or body, so no secret can be in one.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from yarl import URL

from relaydeck import __version__
from relaydeck.http.pipeline import Pipeline
from relaydeck.http.request import Receive, Scope, Send
from relaydeck.outgoing.http_client import Exchange, Response
from relaydeck.web_addresses import shown_address

PROPAGATOR = TraceContextTextMapPropagator()  # W3C `traceparent` and `tracestate`


class ProblemReports(logging.Handler):
    """Reports that the SDK had something to log. Its own words contain URLs."""

    def __init__(self, report: Callable[[], object]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """In the thread that exports."""
        self._report()


class Tracing:
    """One per process."""

    def __init__(self, endpoint: str, report: Callable[[str], object]) -> None:
        """`endpoint` is the address of a collector; spans go to `/v1/traces` below it.

        `report` is told of which collector, in another thread, for each problem.
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

    async def outgoing(self, name: str, method: str, url: URL, exchange: Exchange) -> Response:
        """Makes a span of an outgoing request, and passes its trace on."""
        attributes = {"http.request.method": method, "server.address": url.host or ""}
        port = {} if url.port is None else {"server.port": url.port}
        span = self.tracer.start_span(name, kind=SpanKind.CLIENT, attributes={**attributes, **port})
        headers: dict[str, str] = {}
        PROPAGATOR.inject(headers, context=set_span_in_context(span))
        try:
            response = await exchange(headers)
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)  # its text may quote a URL
            span.set_status(Status(StatusCode.ERROR))
            span.end()
            raise
        end_response_span(span, response.status, failed_from=400)
        return response

    def traced(self, pipeline: Pipeline) -> "TracedPipeline":
        return TracedPipeline(pipeline, self.tracer)


def end_response_span(span: Span, status: int, *, failed_from: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= failed_from:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class TracedPipeline:
    def __init__(self, pipeline: Pipeline, tracer: Tracer) -> None:
        self._pipeline, self._tracer = pipeline, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        route = self._pipeline.path_template(scope)
        span = self._tracer.start_span(
            f"{scope['method']} {route}".rstrip(),
            context=PROPAGATOR.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"]} | ({"http.route": route} if route else {}),
        )
        status = 500  # of a request that ends without a response

        async def observed(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                span.set_attribute("relaydeck.request_id", dict(message["headers"])[b"x-request-id"].decode())
            await send(message)

        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self._pipeline(scope, receive, observed)
        finally:
            end_response_span(span, status, failed_from=500)
