"""Traces of a worker. What they need is imported here, and only with RELAYDECK_OTEL_ENDPOINT."""

from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.errors import OperatorError
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.options import FeeOptions
from relaydeck.http.asgi import Handle
from relaydeck.http.pipeline import Pipeline

if TYPE_CHECKING:
    from relaydeck.tracing import Tracing

_TRACING = "relaydeck.tracing"
_OUTGOING = "relaydeck.outgoing_connections"
_PIPELINE = "relaydeck.http.traced_pipeline"
_ESTIMATOR = "relaydeck.fees.traced_estimator"


def open_tracing(endpoint: str) -> "Tracing":
    """Raises OperatorError when the extra is not installed."""
    try:
        tracing: Tracing = import_module(_TRACING).Tracing(endpoint)
    except ModuleNotFoundError as missing:
        problem = f"RELAYDECK_OTEL_ENDPOINT is set, and the package {missing.name!r} is not installed"
        raise OperatorError(problem, "Install it: pip install '.[otel]' in the clone, or remove the setting.") from None
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
