"""The price of gas from the answers of a node, and what is refused."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp
from eth_utils.crypto import keccak

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.gas_price import (
    History,
    Price,
    fee_history_question,
    read_history,
    tip_within,
)
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.evm.errors import UrlFailed
from tests.support.accounts import example
from tests.support.fault_node import FaultNode, fault_nodes
from tests.support.fee_scene import ask, network, relayer, transaction

OPTIONS = FeeOptions(deadline=30.0, try_timeout=30.0)
HISTORY = {
    "oldestBlock": "0x63",
    "baseFeePerGas": ["0x64", "0x65", "0x66"],
    "gasUsedRatio": [0.5, 0.5],
    "reward": [["0xa"], ["0xb"]],
}


async def price_step(node: FaultNode, **policies: Any) -> dict[str, Any]:
    estimator, trace = Estimator(OPTIONS, monotonic=lambda: 0.0), Trace()
    who = relayer(gas_limit_estimation=False, **policies)
    try:
        await ask(estimator, network(node.url), transaction(), who=who, trace=trace)
    finally:
        await estimator.close()
    return next(step for step in trace.steps if step["step"] == "price")


def used(per_gas: int, **facts: Any) -> dict[str, Any]:
    return {
        "step": "price",
        "node": "127.0.0.1",
        "block": "100",
        "next_block_time": None,
        "block_hash": "",
        "block_hash_fits": False,
        "quorum": "1",
        "not_verified": "there is one node: nothing confirms its newest block, gas, tips and rates",
        "age_not_verified": "the block time of the chain is not known",
        "seconds_old": "0.000",
        "per_gas_wei": str(per_gas),
        "gas_price_cap_wei": None,
        "capped": False,
        "used_per_gas_wei": str(per_gas),
        **facts,
    }


def without_port(step: dict[str, Any]) -> dict[str, Any]:
    assert step["node"].startswith("127.0.0.1:") or step["node"].startswith("http://127.0.0.1:")
    return step | {"node": "127.0.0.1"}


FROM_HISTORY = {"method": "eth_feeHistory", "percentile": "50.0"}


async def test_the_price_from_the_fee_history() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": HISTORY}
        found = await price_step(node)
    facts = {"base_fee": "102", "base_fee_from": "the nodes", "priority_fee": "11", "priority_from": "eth_feeHistory"}
    assert without_port(found) == used(113, **FROM_HISTORY, **facts, blocks_with_transactions="2")


@pytest.mark.parametrize("history", [{"code": -32000, "message": "no"}, HISTORY | {"baseFeePerGas": ["0x64", "0x65"]}])
async def test_the_price_without_a_fee_history(history: Any) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history}
        found = await price_step(node)
    reason = "eth_feeHistory is not available, empty or inconsistent"
    assert without_port(found) == used(110, method="eth_gasPrice", reason=reason, base_fee="100")


async def test_a_suggested_price_is_not_below_the_base_fee() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": None, "eth_gasPrice": "0x63"}
        assert (await price_step(node))["per_gas_wei"] == "100"


async def test_a_free_chain_without_a_base_fee() -> None:
    block = {"number": "0x64", "gasLimit": "0x1c9c380"}
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": None, "eth_gasPrice": "0x0", "eth_getBlockByNumber": block}
        found = await price_step(node)
    assert (found["per_gas_wei"], found["base_fee"]) == ("0", None)


async def test_the_tip_bounds_apply_to_a_suggested_price() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": None}
        where = msgspec.structs.replace(network(node.url), tip_floor=20)
        estimator, trace = Estimator(OPTIONS), Trace()
        await ask(estimator, where, transaction(), trace=trace)
        await estimator.close()
    (step,) = (step for step in trace.steps if step["step"] == "price")
    assert step["per_gas_wei"] == "120"


async def test_the_price_without_eip_1559() -> None:
    async with fault_nodes("healthy") as (node,):
        found = await price_step(node, eip1559_pricing=False)
    assert without_port(found) == used(110, method="eth_gasPrice")


def blob_transaction(max_fee_per_blob_gas: int) -> str:
    fields = [31337, 0, 10, 500, 21_000, b"\x99" * 20, 0, b"", [], max_fee_per_blob_gas, [b"\x01" * 32]]
    signed = example().unsafe_sign_hash(keccak(b"\x03" + rlp.encode(fields)))
    encoded: bytes = rlp.encode([*fields, signed.v - 27, signed.r, signed.s])
    return "0x03" + encoded.hex()


@pytest.mark.parametrize("history", [HISTORY | {"baseFeePerBlobGas": ["0x5", "0x5", "0x5"]}, HISTORY])
async def test_a_signed_transaction_pays_for_its_blobs(history: dict[str, Any]) -> None:
    """The blob base fee is in the fee history, or the node is asked for it."""
    estimator, who = Estimator(OPTIONS), relayer(gas_limit_estimation=False)
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history, "eth_blobBaseFee": "0x5"}
        where = network(node.url)
        found = await ask(estimator, where, blob_transaction(5), who=who)
        with pytest.raises(RpcFailure) as failure:
            await ask(estimator, where, blob_transaction(4), who=who)
        await estimator.close()
    assert Decimal(found.estimated_fee).scaleb(18) == 21_000 * 112 + 131_072 * 5
    words = "its max fee per blob gas of 4 Wei is below the blob base fee of 5 Wei"
    assert failure.value.description == f"the transaction cannot be sent: {words}"


@pytest.mark.parametrize(("percentile", "asked"), [(50.0, "50"), (12.5, "12.5")])
def test_the_question_for_the_fee_history(percentile: float, asked: str) -> None:
    """A whole percentile is sent as an integer: some nodes refuse others."""
    question = fee_history_question(FeeOptions(priority_percentile=percentile, history_blocks=12), "latest")
    assert msgspec.json.encode(question.params).decode() == f'["0xc","latest",[{asked}]]'


def test_a_tip_within_its_bounds() -> None:
    price = Price(110, 7, "node", {"priority_fee": 10}, None, 100)
    assert tip_within(price, 10, 10) is price
    assert tip_within(price, 11, msgspec.UNSET) == Price(111, 7, "node", {"priority_fee": 11}, None, 100)
    free = Price(10, 7, "node", {}, None, 0)
    assert tip_within(free, 12, msgspec.UNSET) == Price(12, 7, "node", {"priority_fee": 12}, None, 0)


@pytest.mark.parametrize(
    ("blob_fees", "blob_base_fee"), [(None, None), (["0x1", "0x2", "0x3"], 3), (["0x1", "0x1", "0x0"], None)]
)
def test_a_fee_history(blob_fees: Any, blob_base_fee: int | None) -> None:
    found = read_history(HISTORY | {"baseFeePerBlobGas": blob_fees})
    assert found == History(100, 102, (10, 11), blob_base_fee)


@pytest.mark.parametrize(
    "missing",
    [{"baseFeePerGas": []}, {"baseFeePerGas": None}, {"gasUsedRatio": None}, {"gasUsedRatio": []}, {"gasUsedRatio": 2}],
)
def test_a_fee_history_without_the_next_base_fee(missing: dict[str, Any]) -> None:
    assert read_history(HISTORY | missing) is None


def test_blocks_without_transactions_have_no_tip() -> None:
    found = read_history(HISTORY | {"gasUsedRatio": [0, 0.5], "reward": [["0x0"], ["0xb"]]})
    assert found is not None and found.rewards == (11,)


INCONSISTENT = "answered an inconsistent fee history"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("0x", "answered something other than a fee history"),
        (HISTORY | {"reward": "0x"}, INCONSISTENT),
        (HISTORY | {"reward": {"0": ["0xa"], "1": ["0xa"]}}, INCONSISTENT),
        (HISTORY | {"reward": [["0xa"]]}, INCONSISTENT),
        (HISTORY | {"reward": [["0xa"], ["0xa", "0xb"]]}, INCONSISTENT),
    ],
)
def test_an_answer_that_is_no_fee_history(answer: Any, reason: str) -> None:
    with pytest.raises(UrlFailed) as failure:
        read_history(answer)
    assert failure.value.reason == reason
