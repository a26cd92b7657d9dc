"""A span for each fee estimate; the node calls that it makes are below it."""

from opentelemetry.trace import Status, StatusCode, Tracer

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, FeeOptions, Trace
from relaydeck.networks.model import Network
from relaydeck.relayers.model import Relayer


class TracedEstimator(Estimator):
    def __init__(self, options: FeeOptions, tracer: Tracer) -> None:
        super().__init__(options)
        self._tracer = tracer

    async def estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None = None
    ) -> FeeEstimate:
        """Raises `RpcFailure` and nothing else."""
        attributes = {"relaydeck.network": network.name, "relaydeck.relayer": relayer.id}
        with self._tracer.start_as_current_span(
            "feeEstimate", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                estimate = await super().estimate(relayer, network, params, trace)
            except RpcFailure as failure:
                span.set_attribute("relaydeck.outcome", failure.outcome)
                span.set_status(Status(StatusCode.ERROR))
                raise
            span.set_attribute("relaydeck.outcome", "ok")
            return estimate
