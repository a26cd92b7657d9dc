"""Traces of a worker. What they need is imported here, and only with RELAYDECK_OTEL_ENDPOINT."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.options import FeeOptions
from relaydeck.http.asgi import Handle
from relaydeck.http.pipeline import Pipeline
from relaydeck.tracing_extra import load_tracing

if TYPE_CHECKING:
    from relaydeck.tracing import Tracing

_OUTGOING = "relaydeck.outgoing_connections"
_PIPELINE = "relaydeck.http.traced_pipeline"
_ESTIMATOR = "relaydeck.fees.traced_estimator"


def open_tracing(endpoint: str, report: Callable[[str, int], None]) -> "Tracing":
    """For a running event loop, where `report` is called. Raises OperatorError when the extra is not installed."""
    make, loop = load_tracing().Tracing, asyncio.get_running_loop()
    tracing: Tracing = make(endpoint, lambda *problems: loop.call_soon_threadsafe(report, *problems))
    vars(import_module(_OUTGOING))["trace_with"] = tracing.outgoing
    return tracing


def make_estimator(options: FeeOptions, tracing: "Tracing | None") -> Estimator:
    if tracing is None:
        return Estimator(options)
    estimator: Estimator = import_module(_ESTIMATOR).TracedEstimator(options, tracing.tracer)
    return estimator


def make_handle(pipeline: Pipeline, tracing: "Tracing | None") -> Handle:
    if tracing is None:
        return pipeline
    handle: Handle = import_module(_PIPELINE).TracedPipeline(pipeline, tracing.tracer)
    return handle
