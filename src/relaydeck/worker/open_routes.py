"""Paths that need no credential: health, metrics and documentation."""

from functools import partial

from relaydeck.contract.description import DescriptionRoutes
from relaydeck.http.metrics import Metrics
from relaydeck.http.operations import IsReady, OperationsRoutes
from relaydeck.http.pipeline import Route
from relaydeck.store.open_store import Store
from relaydeck.worker.stored_metrics import stored_metrics


def open_routes(
    metrics: Metrics, readiness: IsReady, store: Store, *, serves_operations: bool
) -> dict[str, dict[str, Route]]:
    """Routes that need no credential. `serves_operations`: whether those of the contract are on the same port."""
    operations = OperationsRoutes(metrics, readiness, partial(stored_metrics, store))
    return operations.routes() | DescriptionRoutes(serves_operations=serves_operations).routes()
