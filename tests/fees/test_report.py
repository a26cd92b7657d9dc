"""The report of one estimate, with its steps, and of a process's nodes."""

import pytest
from msgspec import UNSET

from relaydeck.admin.relayer_state import report_estimate
from relaydeck.api.records import EstimateFailure, EstimateReport
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_scene import network, relayer, token, transaction

OPTIONS = FeeOptions(deadline=30.0, try_timeout=30.0)


async def report_of(node: FaultNode, raw: str, fee_token: str | None = None) -> EstimateReport:
    estimator = Estimator(OPTIONS)
    where = network(node.url, tokens=(token(),))
    try:
        if fee_token is None:
            return await report_estimate(estimator, relayer(), where, raw)
        return await report_estimate(estimator, relayer(), where, raw, fee_token)
    finally:
        await estimator.close()


@pytest.mark.parametrize(("fee_token", "shown"), [(None, "ETH"), ("", "ETH"), ("USDC", "USDC")])
async def test_a_report_has_every_step(fee_token: str | None, shown: str) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_call 0x313ce567": words(6)}
        report = await report_of(node, transaction(), fee_token)
    computed = ["price", "gas", "fee model", "native fee", "rate", "mined later", "rounding", "result"]
    names = ["inputs", "transaction", "policy", *computed]
    assert ([step["step"] for step in report.steps], report.error) == (names, UNSET)
    assert (report.steps[0]["fee_token"], report.steps[0]["network"]) == (shown, "local")
    rate, fee, decimals = ("2500.5", "0.000001", "6") if shown == "USDC" else ("1", "0.00000000000231", "18")
    assert report.steps[-1] == {"step": "result", "conversion_rate": rate, "estimated_fee": fee}
    assert report.steps[-2]["decimals"] == decimals


async def test_the_report_of_a_failure_has_the_steps_before_it() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_estimateGas": {"code": 3, "message": "execution reverted", "data": "0xdeadbeef"}}
        report = await report_of(node, transaction())
    assert [step["step"] for step in report.steps] == ["inputs", "transaction", "policy", "price"]
    assert report.error == EstimateFailure(-32001, "Execution reverted", "custom error 0xdeadbeef")


async def test_a_warm_estimator_has_connected_to_its_nodes() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(OPTIONS)
        assert not estimator.node_figures().hosts
        await estimator.warm([network(node.url), network()])
        figures = estimator.node_figures()
        await estimator.close()
    assert node.calls["eth_feeHistory"] == 1
    assert node.calls["eth_simulateV1"] == 1  # which it does not offer: no estimate has to find that out
    assert node.calls["eth_estimateGas"] == 1
    assert figures is not None and list(figures.hosts) == [f"127.0.0.1:{node.port}"]
