"""What the engine checks before it asks a node, and what it passes on to its nodes."""

import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import rlp

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, FeeOptions, Trace
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import node_guards
from relaydeck.relayers.model import Relayer
from tests.support.fault_node import FaultNode, fault_nodes
from tests.support.fee_scene import ask, network, relayer, transaction

RECEIVER, OTHER = "0x" + "99" * 20, "0x" + "Ab" * 20
OPTIONS = FeeOptions(deadline=30.0, try_timeout=30.0, max_transaction_bytes=9_000)


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as (node,):
        yield node


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    estimator = Estimator(OPTIONS)
    yield estimator
    await estimator.close()


def raw_of(*, chain_id: int = 31337, data: bytes = b"", to: bytes = b"\x99" * 20) -> str:
    encoded: bytes = rlp.encode([chain_id, 0, 1, 2, 500_000, to, 1, data, []])
    return "0x02" + encoded.hex()


async def failure_of(estimator: Estimator, who: Relayer, params: FeeEstimateParams) -> str:
    """Without a node: a failure that is found before any question."""
    with pytest.raises(RpcFailure) as failure:
        await estimator.estimate(who, network("http://127.0.0.1:1"), params)
    return f"{failure.value.message}: {failure.value.description}"


@pytest.mark.parametrize("elsewhere", ["params", "relayer"])
async def test_the_networks_of_request_and_relayer_are_the_same(estimator: Estimator, elsewhere: str) -> None:
    who = msgspec.structs.replace(relayer(), network="other" if elsewhere == "relayer" else "local")
    params = FeeEstimateParams("ETH", "other" if elsewhere == "params" else "local", transaction())
    found = await failure_of(estimator, who, params)
    assert found == "Invalid params: network is not the relayer's network"


LONG = b"\x01" * 8_500  # a thread decodes it


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (raw_of(chain_id=5), "the transaction is for chain id 5, not 31337"),
        (raw_of(chain_id=5, data=LONG), "the transaction is for chain id 5, not 31337"),
        (raw_of(data=LONG + LONG), "the transaction is longer than 9000 bytes"),
        ("0x" + "00" * 9_001, "the transaction is longer than 9000 bytes"),
    ],
)
async def test_transactions_that_are_not_estimated(estimator: Estimator, raw: str, problem: str) -> None:
    found = await failure_of(estimator, relayer(), FeeEstimateParams("ETH", "local", raw))
    assert found == f"Invalid params: {problem}"


@pytest.mark.parametrize("data", [b"\x01", LONG])
async def test_a_transaction_of_any_length_is_decoded(estimator: Estimator, node: FaultNode, data: bytes) -> None:
    trace, node.answers = Trace(), {"eth_estimateGas": hex(400_000)}
    await ask(estimator, network(node.url), raw_of(data=data), trace=trace)
    assert trace.steps[1] == {
        "step": "transaction", "type": "2", "signed": False, "sender": relayer().address, "to": RECEIVER,
        "value_wei": "1", "nonce": "0", "data_bytes": str(len(data)), "gas_limit": "500000", "blobs": "0",
    }  # fmt: skip


async def test_the_first_steps_show_the_request_and_the_policies(estimator: Estimator, node: FaultNode) -> None:
    trace, receivers = Trace(), (OTHER, RECEIVER)
    who = relayer(whitelist_receivers=receivers, gas_price_cap=105)
    found = await ask(estimator, network(node.url), transaction(), who=who, trace=trace)
    assert found.estimated_fee == "0.000000000002205"
    assert [trace.steps[0], trace.steps[2]] == [
        {"step": "inputs", "relayer": "r1", "network": "local", "chain_id": "31337", "fee_token": "ETH"},
        {
            "step": "policy",
            "gas_limit_estimation": True,
            "eip1559_pricing": True,
            "gas_price_cap_wei": "105",
            "whitelist_receivers": list(receivers),
        },
    ]
    price = {name: trace.steps[3][name] for name in ("per_gas_wei", "gas_price_cap_wei", "capped", "used_per_gas_wei")}
    assert price == {"per_gas_wei": "110", "gas_price_cap_wei": "105", "capped": True, "used_per_gas_wei": "105"}


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        (b"\x99" * 20, f"{RECEIVER} is not on the relayer's whitelist"),
        (b"", "the transaction creates a contract, and the relayer has a whitelist"),
    ],
)
async def test_a_receiver_that_the_relayer_refuses(estimator: Estimator, to: bytes, problem: str) -> None:
    who, params = relayer(whitelist_receivers=(OTHER,)), FeeEstimateParams("ETH", "local", raw_of(to=to))
    assert await failure_of(estimator, who, params) == f"Receiver not whitelisted: {problem}"


class Chosen(random.Random):
    """Records the ranges of which it is asked for a number."""

    def __init__(self) -> None:
        super().__init__(7)
        self.ranges: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.ranges.append((a, b))
        return super().uniform(a, b)


async def test_pauses_of_nodes_are_spread_with_the_generator_of_the_estimator() -> None:
    chosen = Chosen()
    estimator = Estimator(OPTIONS, random=chosen)
    async with fault_nodes("http_500") as (node,):
        with pytest.raises(RpcFailure):
            await ask(estimator, network(node.url), transaction())
    await estimator.close()
    assert chosen.ranges == [(0.5, 1.0)]


async def test_a_pause_of_a_node_ends_by_the_clock_of_the_estimator() -> None:
    clock = [1000.0]
    options = FeeOptions(deadline=30.0, try_timeout=30.0, pause_base=100.0, pause_max=100.0)
    estimator, asked = Estimator(options, monotonic=lambda: clock[0]), []
    async with fault_nodes("http_500") as (node,):
        for seconds in (0.0, 1.0, 100.0):
            clock[0] += seconds
            with pytest.raises(RpcFailure):
                await ask(estimator, network(node.url), transaction())
            asked.append(node.requests)
    await estimator.close()
    assert asked == [2, 2, 4]  # a probe is two requests


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"max_response_bytes": 10}, "answered more than 10 bytes"),
        ({"guards": node_guards("on", ())}, "leads to an address that RELAYDECK_RPC_GUARD refuses"),
    ],
)
async def test_the_limits_of_the_options_hold_for_nodes(node: FaultNode, limits: dict[str, Any], problem: str) -> None:
    estimator = Estimator(FeeOptions(deadline=30.0, **limits))
    with pytest.raises(RpcFailure) as failure:
        await ask(estimator, network(node.url), transaction())
    await estimator.close()
    assert failure.value.description == f"http://127.0.0.1:{node.port} {problem}"


async def test_the_rules_of_the_network_hold_for_its_nodes(estimator: Estimator, node: FaultNode) -> None:
    """The monitor, an estimate and a connection in advance set them."""
    strict = msgspec.structs.replace(network(node.url), max_lag_blocks=3)
    pool = await estimator.pool((RpcUrl(node.url),), strict)
    assert pool.rules == strict.pool_rules
    await ask(estimator, network(node.url), transaction())
    assert pool.rules == network(node.url).pool_rules
    stricter = msgspec.structs.replace(network(node.url), max_lag_blocks=2)
    await estimator.warm([stricter])
    assert pool.rules == stricter.pool_rules


async def test_a_node_that_fails_does_not_stop_the_others_from_being_connected_to(estimator: Estimator) -> None:
    async with fault_nodes("dead", "healthy") as (dead, node):
        await estimator.warm([network(dead.url), network(node.url)])
    assert node.calls["eth_feeHistory"] == 1


class Simulating(FaultNode):
    """Simulates in the last block, unless it is given the number of the next. Records the questions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method != "eth_simulateV1":
            return super()._result(mood, method, params)
        self.asked.append(params)
        number = params[0]["blockStateCalls"][0]["blockOverrides"].get("number", hex(self.block))
        return [{"number": number, "calls": [{"gasUsed": "0x5208", "status": "0x1", "returnData": "0x"}]}]


async def test_warming_estimates_a_transfer_of_nothing(estimator: Estimator) -> None:
    node, nobody = Simulating(), "0x" + "0" * 40
    await node.start()
    await estimator.warm([network(node.url)])
    await node.stop()
    call = {"from": nobody, "to": nobody, "value": "0x0", "data": "0x", "gasPrice": "0x6e"}
    block: dict[str, Any] = {"stateOverrides": {nobody: {"balance": hex(1 << 128)}}, "calls": [call]}
    block |= {"blockOverrides": {"baseFeePerGas": "0x64", "number": "0x65"}}
    assert node.asked == [[{"blockStateCalls": [block], "validation": True}, "0x64"]]
    assert node.calls["eth_estimateGas"] == 0


async def test_a_chain_without_simulation_is_warmed_without_one(estimator: Estimator, node: FaultNode) -> None:
    await estimator.warm([msgspec.structs.replace(network(node.url), fee_model="zksync")])
    assert (node.calls["eth_simulateV1"], node.calls["eth_estimateGas"]) == (0, 1)


class WithoutBaseFee(FaultNode):
    """A node of a chain before EIP-1559. Records the fields of the calls that it estimates."""

    def __init__(self) -> None:
        super().__init__()
        block = {"number": "0x64", "gasLimit": "0x1c9c380"}
        self.answers = {"eth_feeHistory": None, "eth_gasPrice": "0x78", "eth_getBlockByNumber": block}
        self.asked: list[set[str]] = []

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method == "eth_estimateGas":
            self.asked.append(set(params[0]))
        return super()._result(mood, method, params)


async def test_a_chain_without_a_base_fee_is_warmed_with_fields_that_its_nodes_know(estimator: Estimator) -> None:
    node = WithoutBaseFee()
    await node.start()
    await estimator.warm([network(node.url)])
    await node.stop()
    assert node.asked == [{"from", "to", "value", "data", "gasPrice"}]


async def test_an_unexpected_error_is_named_and_its_text_is_only_in_the_cause(node: FaultNode) -> None:
    def now() -> float:
        raise ZeroDivisionError("secret")

    estimator = Estimator(OPTIONS, now=now)
    with pytest.raises(RpcFailure) as failure:
        await ask(estimator, network(node.url), transaction())
    await estimator.close()
    assert (failure.value.message, failure.value.description) == ("Internal error", "an unexpected ZeroDivisionError")
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
