"""A span for each request, with the trace that its `traceparent` header names as its parent."""

from typing import Any

from opentelemetry.trace import SpanKind, Tracer, use_span

from relaydeck.http.asgi import Receive, Scope, Send
from relaydeck.http.pipeline import Pipeline
from relaydeck.tracing import PROPAGATOR, end_response_span


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
