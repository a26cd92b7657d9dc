"""The span of an estimate, and the options that estimates hand to their node pools."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.model import FeeEstimateParams, FeeOptions, Trace
from relaydeck.fees.traced_estimator import TracedEstimator
from tests.support.fault_node import FaultNode, fault_nodes
from tests.support.fee_scene import network, relayer, transaction

NAMES = {"relaydeck.network": "local", "relaydeck.relayer": "r1"}


async def span_of(node: FaultNode) -> ReadableSpan:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    estimator, trace = TracedEstimator(FeeOptions(deadline=30.0), provider.get_tracer("tests")), Trace()
    try:
        await estimator.estimate(relayer(), network(node.url), FeeEstimateParams("ETH", "local", transaction()), trace)
    except RpcFailure as failure:
        assert failure.code == -32001
    else:
        assert trace.steps[-1]["step"] == "result"
    await estimator.close()
    (span,) = exporter.get_finished_spans()
    return span


async def test_the_span_of_an_estimate() -> None:
    async with fault_nodes("healthy") as (node,):
        span = await span_of(node)
    assert (span.name, span.attributes) == ("feeEstimate", NAMES | {"relaydeck.outcome": "ok"})
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())


async def test_the_span_of_a_failure_quotes_nothing() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_estimateGas": {"code": 3, "message": "execution reverted"}}
        span = await span_of(node)
    assert (span.name, span.attributes) == ("feeEstimate", NAMES | {"relaydeck.outcome": "refused"})
    assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())
