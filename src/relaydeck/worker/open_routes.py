"""Paths that need no credential: health, metrics and documentation."""

from relaydeck.contract.description import DescriptionRoutes
from relaydeck.http.health_routes import HealthRoutes, IsReady
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.pipeline import Call, Reply, Route
from relaydeck.networks.evm.figure_files import read_figures
from relaydeck.settings import Settings
from relaydeck.store.open_store import Store
from relaydeck.worker.node_reports import node_metrics
from relaydeck.worker.stored_metrics import StoredMetrics

_EXPOSITION = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


def open_routes(
    metrics: Metrics, readiness: IsReady, store: Store, settings: Settings, *, serves_operations: bool
) -> dict[str, dict[str, Route]]:
    """Routes that need no credential. `serves_operations`: whether those of the contract are on the same port."""

    stored = StoredMetrics(store, settings.metrics_relayers)

    async def show_metrics(_call: Call) -> Reply:
        looked_up = {**await stored.count(), **node_metrics(read_figures(settings.run_folder))}
        return Reply(200, metrics.exposition(looked_up).encode(), _EXPOSITION)

    health = HealthRoutes(metrics, readiness).routes()
    description = DescriptionRoutes(serves_operations=serves_operations).routes()
    return {**health, "/metrics": {"GET": Route("operations", None, answer=show_metrics)}, **description}
