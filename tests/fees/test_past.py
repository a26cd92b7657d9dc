"""Transactions of a block as nodes describe them, and the backtest over a scripted node."""

import asyncio
import time
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp
from msgspec.structs import replace

from relaydeck.fees import FeeOptions
from relaydeck.fees.backtest import Backtest, Spread, spread_of
from relaydeck.fees.backtest import Tested as Result
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.fees.past import Past, read_past
from relaydeck.networks.evm.errors import NodesUnreachable
from relaydeck.networks.evm.transaction import Authorization, decode
from relaydeck.networks.model import FeeModelName
from tests.accounts import example
from tests.fees.archive import BLOCK, KEY, LEGACY, MARKET, RECEIPT, RECEIVER, SENDER, Archive, simulated
from tests.fees.scene import network
from tests.networks.fault_node import words


def past_of(sent: dict[str, Any], block: dict[str, Any] = BLOCK, **receipt: str) -> Past:
    found = read_past(sent, RECEIPT | receipt, block)
    assert found is not None
    return found


def test_a_legacy_transaction() -> None:
    """Its encoding is the one that its signature is made over."""
    found = past_of(LEGACY)
    fields = {"chainId": 7, "nonce": 2, "gas": 50_000, "gasPrice": 150, "to": RECEIVER, "value": 3}
    raw = example().sign_transaction(fields).raw_transaction.to_0x_hex()
    expected = decode(raw, chain_id=7, max_bytes=1000)
    assert found.transaction == replace(expected, sender=SENDER, signed_bytes=0)
    assert (found.sender, found.kind, found.base_fee, found.blob_price) == (SENDER, "type 0, transfer", 100, None)
    assert found.paid == 21_000 * 120


def test_a_transaction_with_an_access_list() -> None:
    found = past_of(MARKET)
    listed = [{"address": RECEIVER, "storageKeys": [KEY]}]
    fields = {"chainId": 7, "nonce": 2, "gas": 50_000, "maxFeePerGas": 500, "maxPriorityFeePerGas": 20, "value": 3}
    whole = fields | {"to": RECEIVER, "data": "0xabcd", "accessList": listed}
    expected = decode(example().sign_transaction(whole).raw_transaction.to_0x_hex(), chain_id=7, max_bytes=1000)
    assert found.transaction == replace(expected, sender=SENDER, signed_bytes=0)
    assert found.kind == "type 2, call"


def test_a_creation() -> None:
    found = past_of(MARKET | {"to": None, "accessList": None})
    assert (found.kind, found.transaction.to) == ("type 2, creation", None)
    assert found.transaction.unsigned[0] == 2
    assert rlp.decode(found.transaction.unsigned[1:])[5] == b""


def test_a_transaction_from_before_chain_ids() -> None:
    old = {name: value for name, value in LEGACY.items() if name not in ("type", "chainId")}
    found = past_of(old, block={})
    assert (found.kind, found.transaction.chain_id, found.base_fee) == ("type 0, transfer", None, None)
    assert rlp.decode(found.transaction.unsigned)[6:] == [b"", b"", b""]
    typed = past_of({name: value for name, value in MARKET.items() if name != "chainId"})
    assert rlp.decode(typed.transaction.unsigned[1:])[0] == b""


def test_blobs_and_authorizations() -> None:
    entry = {"chainId": "0x7", "address": RECEIVER, "nonce": "0x1", "yParity": "0x0", "r": "0x8", "s": "0x9"}
    sent = MARKET | {
        "type": "0x4",
        "maxFeePerBlobGas": "0x6",
        "blobVersionedHashes": ["0x01"],
        "authorizationList": [entry],
    }
    found = past_of(sent, blobGasUsed="0x20000", blobGasPrice="0x5")
    assert (found.kind, found.blob_price) == ("type 4, call", 5)
    assert found.paid == 21_000 * 120 + 131_072 * 5
    assert found.transaction.max_fee_per_blob_gas == 6
    assert found.transaction.blob_hashes == ("0x01",)
    assert found.transaction.authorizations == (Authorization(7, RECEIVER, 1, 0, 8, 9),)


def test_the_encoding_of_blobs() -> None:
    """EIP-4844: the highest price of blob gas and the hashes of the blobs follow the access list."""
    hashes = ["0x01" + "ab" * 31, "0x01" + "cd" * 31]
    found = past_of(MARKET | {"type": "0x3", "maxFeePerBlobGas": "0x6", "blobVersionedHashes": hashes})
    receiver, listed = bytes.fromhex(RECEIVER[2:]), [[bytes.fromhex(RECEIVER[2:]), [bytes.fromhex(KEY[2:])]]]
    fields = [7, 2, 20, 500, 50_000, receiver, 3, b"\xab\xcd", listed, 6, [bytes.fromhex(each[2:]) for each in hashes]]
    assert found.transaction.unsigned == b"\x03" + rlp.encode(fields)
    expected = decode("0x" + found.transaction.unsigned.hex(), chain_id=7, max_bytes=1000)
    assert found.transaction == replace(expected, sender=SENDER)


def test_the_encoding_of_authorizations() -> None:
    """EIP-7702: the list of authorizations, each with its signature, follows the access list."""
    signed = example().sign_authorization({"chainId": 7, "address": RECEIVER, "nonce": 1})
    fields = {"chainId": 7, "nonce": 2, "gas": 50_000, "maxFeePerGas": 500, "maxPriorityFeePerGas": 20, "value": 3}
    listed = [{"address": RECEIVER, "storageKeys": [KEY]}]
    whole = fields | {"to": RECEIVER, "data": "0xabcd", "accessList": listed, "authorizationList": [signed]}
    expected = decode(example().sign_transaction(whole).raw_transaction.to_0x_hex(), chain_id=7, max_bytes=1000)
    entry = {"chainId": "0x7", "address": RECEIVER, "nonce": "0x1", "yParity": hex(signed.y_parity)}
    entry |= {"r": hex(signed.r), "s": hex(signed.s)}
    found = past_of(MARKET | {"type": "0x4", "authorizationList": [entry]})
    assert found.transaction == replace(expected, sender=SENDER, signed_bytes=0)


def test_the_fees_of_a_rollup_count() -> None:
    found = past_of(LEGACY, l1Fee="0x1388", operatorFeeScalar="0x7a120", operatorFeeConstant="0x4d")
    assert found.paid == 21_000 * 120 + 5_000 + 10_500 + 77


@pytest.mark.parametrize("footprint", ["0x190", "0x0"])
def test_the_operator_fee_since_jovian(footprint: str) -> None:
    """The upgrade of the OP stack multiplies the scalar by 100 instead of dividing it by a million."""
    found = past_of(LEGACY, daFootprintGasScalar=footprint, operatorFeeScalar="0x3", operatorFeeConstant="0x4d")
    assert found.paid == 21_000 * 120 + 21_000 * 3 * 100 + 77


@pytest.mark.parametrize(
    ("sent", "receipt"),
    [
        (LEGACY, RECEIPT | {"status": "0x0"}),
        (LEGACY, RECEIPT | {"effectiveGasPrice": "0x0"}),
        (LEGACY, None),
        (LEGACY | {"type": "0x7e"}, RECEIPT),
        (LEGACY | {"type": "0x5"}, RECEIPT),
    ],
)
def test_what_is_not_tested(sent: dict[str, Any], receipt: Any) -> None:
    assert read_past(sent, receipt, BLOCK) is None


# The backtest.


def test_the_spread_of_errors() -> None:
    percents = [Decimal(number) for number in range(-50, 50)]
    assert spread_of(percents) == Spread(100, Decimal(25), Decimal(47), Decimal(-50))
    assert spread_of([Decimal(number) for number in range(200)]) == Spread(
        200, Decimal(100), Decimal(189), Decimal(199)
    )
    assert spread_of([Decimal(3)]) == Spread(1, Decimal(3), Decimal(3), Decimal(3))


async def backtest(node: Archive, model: FeeModelName = "ethereum", *others: str) -> tuple[int, list[Result]]:
    await node.start()
    caches, loop = ChainCaches(FeeOptions(deadline=30.0), time.monotonic), asyncio.get_running_loop()
    where = msgspec.structs.replace(network(node.url, *others), fee_model=model)
    cache = caches.find(where.rpc_urls, where.chain_id)
    test = Backtest(where, cache, lambda: loop.time() + 5)
    try:
        return await test.newest(), await test.block(0x60)
    finally:
        await caches.close()
        await node.stop()


OF_OTHERS = [LEGACY | {"from": f"0x{number:040x}", "hash": hex(number)} for number in range(1, 5)]


async def test_a_block_is_estimated_as_of_the_block_before() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_210)}
    found = await backtest(node)
    assert found == (101, [Result(96, "type 0, transfer", Decimal(1))])
    ((method, params),) = node.asked
    (block,) = params[0]["blockStateCalls"]
    assert (method, params[1], block["blockOverrides"]) == ("eth_simulateV1", "0x5f", {"baseFeePerGas": "0x64"})
    call = {"from": SENDER, "to": RECEIVER, "value": "0x3", "data": "0x", "gas": "0xc350", "gasPrice": "0x96"}
    assert block["calls"] == [call]


async def test_three_senders_of_a_block_are_tested_once_each() -> None:
    node = Archive(LEGACY, LEGACY, *OF_OTHERS)
    node.answers = {"eth_simulateV1": simulated(21_000)}
    _, found = await backtest(node)
    assert found == [Result(96, "type 0, transfer", Decimal(0))] * 3
    senders = [params[0]["blockStateCalls"][0]["calls"][0]["from"] for _, params in node.asked]
    assert senders == [SENDER, OF_OTHERS[0]["from"], OF_OTHERS[1]["from"]]


async def test_an_empty_block() -> None:
    assert await backtest(Archive()) == (101, [])


@pytest.mark.parametrize(
    "wrong", [{"nonce": "-0x1"}, {"value": "0xzz"}, {"input": None}, {"to": 5}, {"accessList": [7]}]
)
async def test_a_transaction_that_the_node_describes_incorrectly(wrong: dict[str, Any]) -> None:
    node = Archive(LEGACY | wrong, OF_OTHERS[0])
    node.answers = {"eth_simulateV1": simulated(21_000)}
    _, found = await backtest(node)
    problem = "the node describes the transaction incorrectly"
    assert found == [Result(96, "unreadable", None, problem), Result(96, "type 0, transfer", Decimal(0))]


@pytest.mark.parametrize("wrong", [None, [], {}, {"transactions": None}, {"transactions": [{"from": SENDER}]}])
async def test_a_block_that_is_none(wrong: Any) -> None:
    node = Archive()
    node.served = wrong
    with pytest.raises(NodesUnreachable, match="answered something other than a block"):
        await backtest(node)


async def test_a_transaction_without_an_estimate() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_estimateGas": {"code": -32000, "message": "no such \x1b[31mstate"}}
    _, (found,) = await backtest(node)
    assert (found.block, found.kind, found.percent) == (96, "type 0, transfer", None)
    assert found.problem.startswith("no such") and "\x1b" not in found.problem
    assert [params[1] for method, params in node.asked if method == "eth_estimateGas"] == ["0x5f"] * 4


async def test_the_oracle_is_asked_about_the_block_before() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_000), "eth_call": words(31_500)}
    _, (found,) = await backtest(node, "scroll")
    assert found.percent == Decimal(1)
    assert [params[1] for method, params in node.asked if method == "eth_call"] == ["0x5f"]


async def test_a_method_without_a_block_stays_as_it_is() -> None:
    node = Archive(LEGACY)
    node.answers = {"zks_estimateFee": {"gas_limit": hex(31_500)}}
    _, (found,) = await backtest(node, "zksync")
    assert found.percent == Decimal(0)  # 31,500 gas at the base fee of 100 instead of 21,000 at 150
    call = {"from": SENDER, "to": RECEIVER, "value": "0x3", "data": "0x"}
    assert [params for method, params in node.asked if method == "zks_estimateFee"] == [[call]]
    assert node.calls["eth_simulateV1"] == 0


async def test_blobs_are_part_of_an_estimate() -> None:
    node = Archive(MARKET | {"type": "0x3", "maxFeePerBlobGas": "0x6", "blobVersionedHashes": ["0x01"]})
    node.receipt = RECEIPT | {"gasUsed": hex(40_000), "blobGasUsed": "0x20000", "blobGasPrice": "0x5"}
    node.answers = {"eth_simulateV1": simulated(40_000)}
    _, (found,) = await backtest(node)
    assert found.percent == Decimal(0)
    (block,) = node.asked[0][1][0]["blockStateCalls"]
    assert block["calls"][0]["maxFeePerBlobGas"] == "0x6"


async def test_blobs_without_a_price_in_the_receipt_cost_nothing() -> None:
    node = Archive(MARKET | {"type": "0x3", "maxFeePerBlobGas": "0x6", "blobVersionedHashes": ["0x01"]})
    node.receipt = RECEIPT | {"gasUsed": hex(40_000), "blobGasUsed": "0x20000"}
    node.answers = {"eth_simulateV1": simulated(40_000)}
    _, (found,) = await backtest(node)
    assert found.percent == Decimal(0)


async def test_a_limit_that_is_too_low_for_the_block_before() -> None:
    """The state differs: the estimate is then about the limit that the transaction needs there."""
    node = Archive(LEGACY)
    failed = {"gasUsed": hex(50_000), "status": "0x0", "returnData": "0x"}
    node.answers = {
        "eth_simulateV1": [{"number": "0x60", "calls": [failed]}],
        "eth_estimateGas": hex(63_000),
        "eth_call": words(31_500),
    }
    _, (found,) = await backtest(node, "scroll")
    assert found.percent == Decimal(201)  # three times the gas, and the oracle's fee


class Behind(Archive):
    """Simulates in the block that the state is of, unless it is given the next number."""

    def _result(self, mood: str, method: str, params: Any) -> Any:
        found = super()._result(mood, method, params)
        if method != "eth_simulateV1":
            return found
        number = params[0]["blockStateCalls"][0]["blockOverrides"].get("number", "0x5f")
        return [found[0] | {"number": number}]


async def test_a_block_is_simulated_after_the_block_before() -> None:
    node = Behind(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_000)}
    _, (found,) = await backtest(node)
    assert found.percent == Decimal(0)
    overrides = [params[0]["blockStateCalls"][0]["blockOverrides"] for _, params in node.asked]
    assert overrides == [{"baseFeePerGas": "0x64"}, {"baseFeePerGas": "0x64", "number": "0x60"}]


@pytest.mark.parametrize("kept", [0, 1, 2])
async def test_each_question_has_a_deadline(kept: int) -> None:
    """About the block, its receipts and the gas. Without the gas, only this transaction has no estimate."""
    node, now = Archive(LEGACY), asyncio.get_running_loop().time()
    node.answers = {"eth_simulateV1": simulated(21_000)}
    await node.start()
    caches = ChainCaches(FeeOptions(), time.monotonic)
    where, deadlines = network(node.url), [now + 60] * kept + [now - 1]
    test = Backtest(where, caches.find(where.rpc_urls, where.chain_id), lambda: deadlines.pop(0))
    if kept < 2:
        with pytest.raises(NodesUnreachable):
            await test.block(0x60)
    else:
        (found,) = await test.block(0x60)
        problem = f"no node answered in time: http://127.0.0.1:{node.port} did not answer in time"
        assert found == Result(96, "type 0, transfer", None, problem)
    deadlines.append(now - 1)
    with pytest.raises(NodesUnreachable):
        await test.newest()
    await caches.close()
    await node.stop()
    assert deadlines == []


async def test_a_transaction_that_no_node_would_take() -> None:
    """Chains let some transactions pay less than the base fee."""
    node = Archive(LEGACY | {"gasPrice": "0x63"}, OF_OTHERS[0])
    node.answers = {"eth_simulateV1": simulated(21_000)}
    _, found = await backtest(node)
    why = "the transaction cannot be sent: its gas price of 99 Wei is below the next block's base fee of 100 Wei"
    assert found == [Result(96, "type 0, transfer", None, why), Result(96, "type 0, transfer", Decimal(0))]


async def test_a_fee_model_that_the_chain_does_not_have() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_000), "eth_call": "0x"}
    _, found = await backtest(node, "scroll")
    why = (
        "the L1 gas price oracle at 0x5300000000000000000000000000000000000002 does not answer: "
        "fee_model of the network is probably wrong"
    )
    assert found == [Result(96, "type 0, transfer", None, why)]


async def test_a_receipt_that_the_node_refuses() -> None:
    node = Archive(LEGACY, OF_OTHERS[0])
    node.answers = {"eth_simulateV1": simulated(21_000)}
    node.receipt = {"code": -32000, "message": "not for \x1b[31myou"}
    _, found = await backtest(node)
    assert found == [
        Result(96, "unknown", None, "not for  [31myou"),
        Result(96, "type 0, transfer", Decimal(0)),
    ]


@pytest.mark.parametrize("wrong", ["abc", "", [1], [], 5, 0, True])
async def test_a_receipt_that_is_none(wrong: Any) -> None:
    node = Archive(LEGACY)
    node.receipt = wrong
    with pytest.raises(NodesUnreachable, match="answered something other than a receipt"):
        await backtest(node)


async def test_a_receipt_that_is_none_comes_from_the_next_node() -> None:
    wrong, right = Archive(LEGACY), Archive(LEGACY)
    wrong.receipt = "abc"
    wrong.answers = right.answers = {"eth_simulateV1": simulated(21_000)}
    await right.start()
    _, found = await backtest(wrong, "ethereum", right.url)
    await right.stop()
    assert found == [Result(96, "type 0, transfer", Decimal(0))]


async def test_a_receipt_that_the_node_does_not_have() -> None:
    node = Archive(LEGACY)
    node.receipt = None
    assert await backtest(node) == (101, [])
