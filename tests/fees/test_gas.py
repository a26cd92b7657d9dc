"""How gas is measured: what a node is asked, depending on what it offers."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp

from relaydeck.fees.errors import ExecutionReverted, NodeRefused, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.gas import read_simulation
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.evm.errors import UrlFailed
from tests.support.accounts import example
from tests.support.fault_node import FaultNode, fault_nodes, started, words
from tests.support.fee_scene import ask, network, transaction

SENDER = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"  # of the example
OPTIONS = FeeOptions(deadline=30.0, try_timeout=30.0)
NOT_THERE = {"code": -32601, "message": "the method does not exist"}
BAD_PARAMS = {"code": -32602, "message": "too many arguments, want at most 2"}


def simulated(used: int, status: int = 1, **failure: Any) -> list[dict[str, Any]]:
    call = {"gasUsed": hex(used), "status": hex(status), "returnData": "0x", "logs": [], **failure}
    return [{"number": "0x65", "calls": [call]}]


def signed(**fields: Any) -> str:
    whole = {"chainId": 31337, "nonce": 0, "gas": 50_000, "gasPrice": 150, "to": "0x" + "99" * 20, "value": 0}
    return str(example().sign_transaction(whole | fields).raw_transaction.to_0x_hex())


async def gas_step(node: FaultNode, raw: str) -> dict[str, Any]:
    estimator, trace = Estimator(OPTIONS), Trace()
    try:
        await ask(estimator, network(node.url), raw, trace=trace)
    finally:
        await estimator.close()
    return next(step for step in trace.steps if step["step"] == "gas")


async def failure_of(node: FaultNode, raw: str) -> str:
    with pytest.raises(RpcFailure) as failure:
        await gas_step(node, raw)
    return f"{failure.value.message}: {failure.value.description}"


async def test_the_gas_used_comes_from_a_simulation_and_the_limit_beside_it() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": simulated(40_000), "eth_estimateGas": hex(48_000)}
        found = await gas_step(node, signed())
    assert (found["gas"], found["source"], found["limit_needed"]) == ("40000", "eth_simulateV1", "48000")
    assert (found["asked"]["from"], found["asked"]["gasPrice"]) == (SENDER, hex(150))


async def test_a_simulated_estimate_is_one_request() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": simulated(21_000)}
        estimator = Estimator(OPTIONS, monotonic=lambda: 0.0)
        await ask(estimator, network(node.url), signed())
        node.calls.clear()
        before = node.requests
        for _ in range(10):
            await ask(estimator, network(node.url), signed())
        assert node.calls == {"eth_simulateV1": 10, "eth_getTransactionCount": 10}
        assert node.requests - before == 10
        await estimator.close()


async def test_whether_a_node_simulates_is_found_once() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(OPTIONS)
        for nonce in range(5):
            await ask(estimator, network(node.url), transaction(nonce))
        assert (node.calls["eth_simulateV1"], node.calls["eth_estimateGas"]) == (1, 5)
        await estimator.close()


async def test_an_answer_with_too_many_logs_is_no_fault_of_the_node() -> None:
    long = simulated(900_000)
    long[0]["calls"][0]["logs"] = ["x" * 2_000_000]
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": long, "eth_estimateGas": hex(910_000)}
        found = await gas_step(node, transaction())
    assert (found["gas"], found["source"]) == ("910000", "eth_estimateGas")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ({"error": {"code": 3, "message": "execution reverted", "data": "0xdeadbeef"}}, "custom error 0xdeadbeef"),
        ({"error": {"code": -32015, "message": "out of gas"}}, "out of gas"),
        ({"returnData": "0xdeadbeef"}, "custom error 0xdeadbeef"),
        ({"error": {"code": 3, "message": "execution reverted"}}, "no reason given"),
    ],
)
async def test_a_failed_simulation_is_explained(failure: dict[str, Any], words: str) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": simulated(30_000, 0, **failure)}
        assert await failure_of(node, transaction()) == f"{ExecutionReverted.message}: {words}"


class Limited(FaultNode):
    """Its simulation fails with the transaction's own limit."""

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method != "eth_simulateV1":
            return super()._result(mood, method, params)
        (call,) = params[0]["blockStateCalls"][0]["calls"]
        return simulated(21_000, 0) if "gas" in call else simulated(60_000)


async def test_the_low_limit_of_an_unsigned_transaction_does_not_count() -> None:
    node = Limited()
    await node.start()
    assert (await gas_step(node, transaction()))["gas"] == "60000"
    await node.stop()


@pytest.mark.parametrize(
    ("accepted", "shape"),
    [
        (3, ("pending", True, True)),
        (2, ("pending", True, False)),
        ("latest", ("0x64", True, False)),
        ("poor", ("0x64", False, False)),
    ],
)
async def test_eth_estimate_gas_is_asked_as_well_as_the_node_can(
    accepted: int | str, shape: tuple[str, bool, bool]
) -> None:
    asked: list[Any] = []

    class Choosy(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method != "eth_estimateGas":
                return super()._result(mood, method, params)
            asked.append(params)
            if len(params) > 2 and accepted != 3:
                return BAD_PARAMS
            if params[1] == "pending" and accepted in ("latest", "poor"):
                return {"code": -32602, "message": "pending is not available"}
            if "gasPrice" in params[0] and accepted == "poor":
                return {"code": -32000, "message": "insufficient funds for gas * price + value"}
            return "0x5208"

    node = Choosy()
    await node.start()
    found = await gas_step(node, signed())
    await node.stop()
    assert found["source"] == "eth_estimateGas"
    last = asked[-1]
    assert (last[1], "gasPrice" in last[0], len(last) == 3) == shape
    if len(last) == 3:
        assert last[2] == {SENDER: {"balance": hex(1 << 128)}}


async def test_a_node_that_refuses_every_form_is_not_quoted() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_estimateGas": {"code": -32000, "message": "not in the mood"}}
        assert await failure_of(node, transaction()) == f"{NodeRefused.message}: error -32000"


CANNOT = "Invalid params: the transaction cannot be sent: "


@pytest.mark.parametrize(
    ("fields", "answers", "words"),
    [
        ({"gasPrice": 99}, {}, "its gas price of 99 Wei is below the next block's base fee of 100 Wei"),
        (
            {"gasPrice": None, "maxFeePerGas": 99, "maxPriorityFeePerGas": 0},
            {},
            "its max fee per gas of 99 Wei is below the next block's base fee of 100 Wei",
        ),
        (
            {"gas": 31_000_000},
            {},
            "its gas limit of 31000000 is above the network's limit of 30000000",
        ),
        (
            {},
            {"eth_simulateV1": simulated(50_000, 0), "eth_estimateGas": hex(60_000)},
            "its gas limit of 50000 is below the 60000 gas that it needs",
        ),
        (
            {},
            {"eth_estimateGas": hex(60_000), "eth_call": {"code": -32000, "message": "out of gas"}},
            "its gas limit of 50000 is below the 60000 gas that it needs",
        ),
        ({}, {"eth_getTransactionCount": "0x3"}, "its nonce 0 is already used; the next nonce of its sender is 3"),
        (
            {},
            {"eth_getTransactionCount": "0x3", "eth_simulateV1": simulated(30_000, 0, returnData="0xdeadbeef")},
            "its nonce 0 is already used; the next nonce of its sender is 3",
        ),
    ],
)
async def test_what_cannot_be_sent_is_an_error_that_says_why(
    fields: dict[str, Any], answers: dict[str, Any], words: str
) -> None:
    fields = {name: value for name, value in ({"gasPrice": 150} | fields).items() if value is not None}
    raw = signed(**fields) if "gasPrice" in fields else market(**fields)
    async with fault_nodes("healthy") as (node,):
        node.answers = answers
        assert await failure_of(node, raw) == CANNOT + words


def market(**fields: Any) -> str:
    whole = {"chainId": 31337, "nonce": 0, "gas": 50_000, "to": "0x" + "99" * 20, "value": 0, **fields}
    return str(example().sign_transaction(whole).raw_transaction.to_0x_hex())


async def test_a_limit_that_the_nodes_search_overshoots_is_enough() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_estimateGas": hex(50_700), "eth_call": "0x"}
        assert (await gas_step(node, signed()))["gas"] == "50000"


@pytest.mark.parametrize(
    ("fields", "per_gas"),
    [
        ({"gasPrice": 150}, 150),
        ({"maxFeePerGas": 500, "maxPriorityFeePerGas": 20}, 120),
        ({"maxFeePerGas": 110, "maxPriorityFeePerGas": 20}, 110),
    ],
)
async def test_a_signed_transaction_pays_by_its_own_fields(fields: dict[str, int], per_gas: int) -> None:
    raw = market(**fields)
    async with fault_nodes("healthy") as (node,):
        estimator, trace = Estimator(OPTIONS), Trace()
        await ask(estimator, network(node.url), raw, trace=trace)
        await estimator.close()
    (price,) = (step for step in trace.steps if step["step"] == "price")
    assert (price["used_per_gas_wei"], price["capped"]) == (str(per_gas), False)


async def test_a_limit_that_the_simulation_finds_sufficient_is_enough() -> None:
    """The search of a node for the least limit may end above a limit that works."""
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": simulated(40_000), "eth_estimateGas": hex(48_000)}
        found = await gas_step(node, signed(gas=45_000))
    assert (found["gas"], found["limit_needed"]) == ("40000", "48000")


class Recorder(FaultNode):
    """Records what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any]] = []

    def _result(self, mood: str, method: str, params: Any) -> Any:
        self.asked.append((method, params))
        return super()._result(mood, method, params)

    def of(self, method: str) -> list[Any]:
        return [params for name, params in self.asked if name == method]


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    node = Recorder()
    await node.start()
    yield node
    await node.stop()


CALL = {"from": SENDER, "to": "0x" + "99" * 20, "value": "0x0", "data": "0x", "gasPrice": hex(150)}


async def test_what_a_simulation_asks(recorder: Recorder) -> None:
    recorder.answers = {"eth_simulateV1": simulated(40_000)}
    await gas_step(recorder, signed())
    block = {
        "stateOverrides": {SENDER: {"balance": hex(1 << 128)}},
        "calls": [CALL | {"gas": hex(50_000)}],
        "blockOverrides": {"baseFeePerGas": "0x64", "number": "0x65"},
    }
    assert recorder.of("eth_simulateV1") == [[{"blockStateCalls": [block], "validation": True}, "0x64"]]
    assert recorder.of("eth_getTransactionCount") == [[SENDER, "0x64"]]


async def test_the_retry_without_a_limit_is_in_the_same_block() -> None:
    blocks: list[dict[str, Any]] = []

    class Behind(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method != "eth_simulateV1":
                return super()._result(mood, method, params)
            (block,) = params[0]["blockStateCalls"]
            blocks.append(block)
            answer = simulated(21_000, 0) if "gas" in block["calls"][0] else simulated(60_000)
            return [answer[0] | {"number": block["blockOverrides"].get("number") or hex(self.block)}]

    node = Behind()
    await node.start()
    found = await gas_step(node, transaction())
    await node.stop()
    asked = blocks[-1]["calls"][0]
    assert [block["blockOverrides"].get("number") for block in blocks] == ["0x65", "0x65"]
    assert {name: found[name] for name in ("gas", "source", "limit_needed", "asked")} == {
        "gas": "60000",
        "source": "eth_simulateV1",
        "limit_needed": None,
        "asked": asked,
    }


async def test_the_gas_step_names_the_node(recorder: Recorder) -> None:
    recorder.answers = {"eth_simulateV1": simulated(40_000)}
    assert (await gas_step(recorder, signed()))["node"] == f"http://127.0.0.1:{recorder.port}"


async def test_a_retry_keeps_the_answers_of_the_fee_model() -> None:
    class Oracle(Limited):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            return words(5_000) if method == "eth_call" else super()._result(mood, method, params)

    node = Oracle()
    await node.start()
    estimator = Estimator(OPTIONS)
    where = msgspec.structs.replace(network(node.url), fee_model="op_stack")
    found = await ask(estimator, where, transaction())
    await estimator.close()
    await node.stop()
    assert Decimal(found.estimated_fee).scaleb(18) == 60_000 * 110 + 2 * 5_000  # of the data, and of the operator


async def test_a_failure_that_a_higher_limit_does_not_cure() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {
            "eth_simulateV1": simulated(50_000, 0, error={"message": "bad jump"}),
            "eth_estimateGas": hex(50_000),
        }
        assert await failure_of(node, signed()) == f"{ExecutionReverted.message}: a jump to an invalid place"


async def test_a_failure_without_a_message() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": simulated(50_000, 0, error={"code": 3, "message": 7})}
        assert await failure_of(node, transaction()) == f"{ExecutionReverted.message}: no reason given"


@pytest.mark.parametrize(
    ("refusal", "simulations"),
    [
        ({"code": -32601, "message": "no"}, 1),
        ({"code": -32000, "message": "eth_simulateV1 is not supported"}, 1),
        ({"code": -32000, "message": "the moon is full"}, 3),
        ({"code": -32000, "message": "transaction type not supported"}, 3),  # about one transaction
        ({"code": -32000, "message": "header not found"}, 3),
    ],
)
async def test_only_a_node_that_does_not_offer_simulations_is_not_asked_again(
    refusal: dict[str, Any], simulations: int
) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": refusal}
        estimator = Estimator(OPTIONS)
        for nonce in range(3):
            await ask(estimator, network(node.url), transaction(nonce))
        await estimator.close()
    assert node.calls["eth_simulateV1"] == simulations


@pytest.mark.parametrize(("code", "forms"), [(-32602, [3, 2, 2, 2]), (-32000, [3, 2, 3, 2])])
async def test_a_form_that_a_node_does_not_accept_is_not_asked_again(code: int, forms: list[int]) -> None:
    """Any other error may be about this transaction only."""
    asked: list[int] = []

    class Choosy(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method != "eth_estimateGas":
                return super()._result(mood, method, params)
            asked.append(len(params))
            return {"code": code, "message": "no overrides"} if len(params) > 2 else "0x5208"

    node = Choosy()
    await node.start()
    estimator = Estimator(OPTIONS)
    for _ in range(3 if code == -32602 else 2):
        await ask(estimator, network(node.url), transaction())
    await estimator.close()
    await node.stop()
    assert asked == forms


async def test_the_second_form_that_a_node_does_not_accept_is_remembered_too() -> None:
    asked: list[Any] = []

    class Choosy(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method != "eth_estimateGas":
                return super()._result(mood, method, params)
            asked.append((len(params), params[1]))
            return BAD_PARAMS if params[1] == "pending" else "0x5208"

    node = Choosy()
    await node.start()
    estimator = Estimator(OPTIONS)
    for _ in range(2):
        await ask(estimator, network(node.url), transaction())
    await estimator.close()
    await node.stop()
    assert asked == [(3, "pending"), (2, "pending"), (2, "0x64"), (2, "0x64")]


async def test_a_refusal_of_a_megabyte_is_read_in_part() -> None:
    """Searched as a whole, it would hold the event loop for minutes."""
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_simulateV1": {"code": -32000, "message": "eth_" * 200_000}}
        estimator = Estimator(OPTIONS)
        found = await ask(estimator, network(node.url), transaction())
        await estimator.close()
    assert found.estimated_fee == "0.00000000000231"  # 21,000 gas at 110 Wei


async def test_a_form_that_only_one_transaction_needs_is_not_remembered() -> None:
    """A node that does not know authorizations refuses them as it refuses a form."""
    asked: list[int] = []

    class WithoutAuthorizations(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method != "eth_estimateGas":
                return super()._result(mood, method, params)
            asked.append(len(params))
            refused = "authorizationList" in params[0] and "maxFeePerGas" in params[0]
            return {"code": -32602, "message": "unknown field"} if refused else "0x5208"

    authorization = [31337, b"\x99" * 20, 0, 0, 1, 1]
    fields = [31337, 0, 1, 2, 60_000, b"\x99" * 20, 1, b"", [], [authorization]]
    async with started(WithoutAuthorizations()) as node:
        estimator = Estimator(OPTIONS)
        await ask(estimator, network(node.url), "0x04" + rlp.encode(fields).hex())
        asked.clear()
        await ask(estimator, network(node.url), transaction())
        await estimator.close()
    assert asked == [3]


async def test_a_limit_is_tried_at_the_price_of_the_transaction(recorder: Recorder) -> None:
    recorder.answers = {"eth_estimateGas": hex(50_700), "eth_call": "0x"}
    await gas_step(recorder, signed())
    funds = {CALL["from"]: {"balance": hex(1 << 128)}}
    assert recorder.of("eth_call") == [[CALL | {"gas": hex(50_000)}, "pending", funds]]


async def test_the_gas_step_shows_what_eth_estimate_gas_was_asked(recorder: Recorder) -> None:
    assert await gas_step(recorder, signed()) == {
        "step": "gas",
        "gas": "21000",
        "source": "eth_estimateGas",
        "limit_needed": "21000",
        "node": f"http://127.0.0.1:{recorder.port}",
        "asked": CALL,
    }


async def test_the_gas_step_comes_before_the_refusal_of_a_low_limit(recorder: Recorder) -> None:
    recorder.answers = {"eth_simulateV1": simulated(50_000, 0), "eth_estimateGas": hex(60_000)}
    estimator, trace = Estimator(OPTIONS), Trace()
    with pytest.raises(RpcFailure):
        await ask(estimator, network(recorder.url), signed(), trace=trace)
    await estimator.close()
    assert trace.steps[-1] == {
        "step": "gas",
        "gas": "60000",
        "source": "eth_estimateGas",
        "limit_needed": "60000",
        "node": f"http://127.0.0.1:{recorder.port}",
        "asked": CALL,
    }


async def test_a_limit_that_is_what_the_transaction_needs_is_not_tried(recorder: Recorder) -> None:
    assert (await gas_step(recorder, signed(gas=21_000)))["gas"] == "21000"
    assert recorder.of("eth_call") == []


async def test_a_signed_transaction_without_a_limit_cannot_be_sent(recorder: Recorder) -> None:
    recorder.answers = {"eth_call": "0x"}
    words = "its gas limit of 0 is below the 21000 gas that it needs"
    assert await failure_of(recorder, signed(gas=0)) == CANNOT + words
    assert recorder.of("eth_call") == []


@pytest.mark.parametrize("answer", [None, [], [{}], [{"calls": []}], [{"calls": [{"gasUsed": "0x5208"}]}]])
def test_an_answer_that_is_no_simulation(answer: Any) -> None:
    with pytest.raises(UrlFailed) as failure:
        read_simulation(answer)
    assert failure.value.reason == "answered something other than a simulation"


async def test_the_deadline_ends_a_measurement() -> None:
    """Otherwise a node that never answers would hold the estimate for ever."""
    async with fault_nodes("healthy") as (node,):
        node.slow_method, node.delay = "eth_estimateGas", 3600.0
        estimator = Estimator(FeeOptions(deadline=0.3, try_timeout=0.2))
        async with asyncio.timeout(60):
            with pytest.raises(RpcFailure) as failure:
                await ask(estimator, network(node.url), transaction())
        await estimator.close()
    assert failure.value.message == "Node unreachable"
