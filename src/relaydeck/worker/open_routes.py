"""Paths that need no credential: health, metrics and documentation."""

from relaydeck.contract.description import DescriptionRoutes
from relaydeck.http.health_routes import IsReady, OperationsRoutes
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import Figures
from relaydeck.http.pipeline import Route
from relaydeck.networks.evm.figure_files import read_figures
from relaydeck.settings import Settings
from relaydeck.store.open_store import Store
from relaydeck.worker.node_reports import node_metrics
from relaydeck.worker.stored_metrics import StoredMetrics


def open_routes(
    metrics: Metrics, readiness: IsReady, store: Store, settings: Settings, *, serves_operations: bool
) -> dict[str, dict[str, Route]]:
    """Routes that need no credential. `serves_operations`: whether those of the contract are on the same port."""

    stored = StoredMetrics(store, settings.metrics_relayers)

    async def look_up() -> Figures:
        nodes = node_metrics(read_figures(settings.run_folder))
        return {**await stored.count(), **nodes}

    operations = OperationsRoutes(metrics, readiness, look_up)
    return operations.routes() | DescriptionRoutes(serves_operations=serves_operations).routes()
