"""Transactions of a block as nodes describe them, and the backtest over a scripted node."""

import asyncio
import time
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp
from msgspec.structs import replace

from relaydeck.fees.backtest import Aged, BacktestRow, BlockTests, PaidTransaction, conclusions, read_paid, spread_of
from relaydeck.fees.backtest import Tested as Result
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.evm.errors import NodesUnreachable
from relaydeck.networks.evm.transaction import Authorization, decode
from relaydeck.networks.model import FeeModelName
from tests.fees.archive import BLOCK, KEY, LEGACY, MARKET, RECEIPT, RECEIVER, SENDER, Archive, simulated
from tests.support.accounts import example
from tests.support.fault_node import words
from tests.support.fee_scene import network


def past_of(sent: dict[str, Any], block: dict[str, Any] = BLOCK, **receipt: str) -> PaidTransaction:
    found = read_paid(sent, RECEIPT | receipt, block)
    assert found is not None
    return found


def test_a_legacy_transaction() -> None:
    """Its encoding is the one that its signature is made over."""
    found = past_of(LEGACY)
    fields = {"chainId": 7, "nonce": 2, "gas": 50_000, "gasPrice": 150, "to": RECEIVER, "value": 3}
    raw = example().sign_transaction(fields).raw_transaction.to_0x_hex()
    expected = decode(raw, chain_id=7, max_bytes=1000)
    assert found.transaction == replace(expected, sender=SENDER, signed=b"")
    assert (found.sender, found.kind, found.base_fee, found.blob_price) == (SENDER, "type 0, transfer", 100, None)
    assert found.paid == 21_000 * 120


def test_a_transaction_with_an_access_list() -> None:
    found = past_of(MARKET)
    listed = [{"address": RECEIVER, "storageKeys": [KEY]}]
    fields = {"chainId": 7, "nonce": 2, "gas": 50_000, "maxFeePerGas": 500, "maxPriorityFeePerGas": 20, "value": 3}
    whole = fields | {"to": RECEIVER, "data": "0xabcd", "accessList": listed}
    expected = decode(example().sign_transaction(whole).raw_transaction.to_0x_hex(), chain_id=7, max_bytes=1000)
    assert found.transaction == replace(expected, sender=SENDER, signed=b"")
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
    assert found.transaction == replace(expected, sender=SENDER, signed=b"")


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
    assert read_paid(sent, receipt, BLOCK) is None


# The backtest.


def test_the_spread_of_errors() -> None:
    percents = [Decimal(number) for number in range(-50, 50)]
    assert spread_of("all", percents) == BacktestRow("all", 100, "25.00", "47.00", "-50.00")
    positive = [Decimal(number) for number in range(200)]
    assert spread_of("all", positive) == BacktestRow("all", 200, "100.00", "189.00", "+199.00")
    assert spread_of("all", [Decimal(3)]) == BacktestRow("all", 1, "3.00", "3.00", "+3.00")


async def backtest(
    node: Archive, model: FeeModelName = "ethereum", *others: str, **fields: Any
) -> tuple[int, list[Result]]:
    await node.start()
    options = FeeOptions(deadline=30.0)
    caches, loop = ChainCaches(options, time.monotonic), asyncio.get_running_loop()
    where = msgspec.structs.replace(network(node.url, *others), fee_model=model, **fields)
    cache = caches.find(where.rpc_urls, where.chain_id)
    test = BlockTests(where, cache, options, lambda: loop.time() + 5)
    try:
        return await test.newest(), await test.block(0x60)
    finally:
        await caches.close()
        await node.stop()


OVERRIDES = {"baseFeePerGas": "0x64", "number": "0x60"}
OF_OTHERS = [LEGACY | {"from": f"0x{number:040x}", "hash": hex(number)} for number in range(1, 5)]


async def test_a_block_is_estimated_as_of_the_block_before() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_210)}
    found = await backtest(node)
    assert found == (100, [Result(96, "type 0, transfer", Decimal(1))])
    ((method, params),) = node.asked
    (block,) = params[0]["blockStateCalls"]
    assert (method, params[1], block["blockOverrides"]) == ("eth_simulateV1", "0x5f", OVERRIDES)
    call = {"from": SENDER, "to": RECEIVER, "value": "0x3", "data": "0x", "gas": "0xc350", "gasPrice": "0x96"}
    assert block["calls"] == [call]


PAID = Decimal(100) / 150  # percent of the price that was paid, for each Wei


def history(block: int, base: int, tip: int) -> dict[str, Any]:
    fees = {"baseFeePerGas": ["0x1", hex(base)], "gasUsedRatio": [0.5], "reward": [[hex(tip)]]}
    return {"oldestBlock": hex(block)} | fees


@pytest.mark.parametrize(
    ("fields", "after", "later"),
    [
        ({}, Aged(Decimal(-20), Decimal(-20), 20), Aged(Decimal(-60), Decimal(-60), 10)),
        ({"tip_floor": 250}, Aged(PAID * 200, PAID * 200, 20), Aged(PAID * 150, PAID * 150, 10)),
    ],
)
async def test_the_price_is_judged_as_of_one_and_six_blocks_before(
    fields: dict[str, Any], after: Aged, later: Aged
) -> None:
    """150 Wei were paid. One block before, an estimate assumes 100 and 20; six blocks before, 50 and 10."""
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_000)}
    node.histories = {"0x5f": history(0x5F, 100, 20), "0x5a": history(0x5A, 50, 10)}
    _, (found,) = await backtest(node, **fields)
    assert (found.percent, found.next, found.later) == (Decimal(0), after, later)


async def test_three_senders_of_a_block_are_tested_once_each() -> None:
    node = Archive(LEGACY, LEGACY, *OF_OTHERS)
    node.answers = {"eth_simulateV1": simulated(21_000)}
    _, found = await backtest(node)
    assert found == [Result(96, "type 0, transfer", Decimal(0))] * 3
    senders = [params[0]["blockStateCalls"][0]["calls"][0]["from"] for _, params in node.asked]
    assert senders == [SENDER, OF_OTHERS[0]["from"], OF_OTHERS[1]["from"]]


def outcome(percent: int | None, **facts: Any) -> Result:
    return Result(96, "type 2, call", None if percent is None else Decimal(percent), **facts)


DATA_FEE = "this chain charges a data fee: 61 % of the fee is missing; try fee_model = op_stack"
OP_STACK: dict[str, Any] = {"fee_model": "op_stack", "data_percent": 61}
HIGH, LOW = Aged(Decimal(900), Decimal(900), 3), Aged(Decimal(-60), Decimal(-60), 3)


@pytest.mark.parametrize(
    ("fields", "found", "concluded"),
    [
        ({}, [], []),
        ({}, [outcome(0)], []),
        ({}, [outcome(-61, **OP_STACK)] * 5 + [outcome(0)], [DATA_FEE]),
        ({"fee_model": "scroll"}, [outcome(None, problem="no", **OP_STACK)] * 5, [DATA_FEE]),
        ({"fee_model": "op_stack"}, [outcome(9, **OP_STACK)] * 5, []),
        (
            {"fee_model": "scroll"},
            [outcome(None, problem="no")] * 2,
            ["this chain does not answer as fee_model = scroll requires; try fee_model = ethereum"],
        ),
        ({"fee_model": "scroll"}, [outcome(None, problem="no"), outcome(0)], []),
        ({}, [outcome(1, **OP_STACK)] * 5, []),
        ({}, [outcome(-61, **OP_STACK)] * 2 + [outcome(0)] * 2, []),
        (
            {},
            [outcome(-30, fee_model="gas_limit_charged")] * 3,
            ["this chain charges the gas limit; try fee_model = gas_limit_charged"],
        ),
        (
            {},
            [outcome(-30, fee_model="arbitrum")] * 3,
            ["this chain returns the receipts of another fee model; try fee_model = arbitrum"],
        ),
        (
            {"tip_floor": 10**12},
            [outcome(0, next=HIGH)] * 3,
            ["the price is off by +900 %: tip_floor is 1000000000000 Wei, and recent tips were 3 Wei"],
        ),
        (
            {"tip_ceiling": 1},
            [outcome(0, next=LOW)] * 3,
            ["the price is off by -60 %: tip_ceiling is 1 Wei, and recent tips were 3 Wei"],
        ),
        ({"tip_ceiling": 1}, [outcome(0, next=HIGH)] * 3, []),
        ({}, [outcome(0, next=HIGH)] * 3, []),
    ],
)
def test_what_a_backtest_concludes(fields: dict[str, Any], found: list[Result], concluded: list[str]) -> None:
    assert conclusions(msgspec.structs.replace(network(), **fields), found) == concluded


@pytest.mark.parametrize(
    ("sent", "receipt", "model", "percent"),
    [
        (MARKET, {}, "", 0),
        (MARKET, {"gasUsed": "0xc350"}, "gas_limit_charged", 0),
        (LEGACY, {"gasUsed": "0xc350"}, "", 0),
        (LEGACY, {"l1Fee": hex(21_000 * 120), "l1GasPrice": "0x1"}, "op_stack", 50),
        (LEGACY, {"l1Fee": hex(21_000 * 120)}, "scroll", 50),
        (LEGACY, {"gasUsedForL1": "0x1"}, "arbitrum", 0),
        (LEGACY, {"l1BatchNumber": "0x1"}, "zksync", 0),
    ],
)
def test_the_fee_model_that_a_receipt_looks_like(
    sent: dict[str, Any], receipt: dict[str, Any], model: str, percent: int
) -> None:
    found = past_of(sent, **receipt)
    assert (found.fee_model, found.data_percent) == (model, percent)


async def test_an_empty_block() -> None:
    assert await backtest(Archive()) == (100, [])


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
    assert found.problem == "error -32000"
    assert [params[1] for method, params in node.asked if method == "eth_estimateGas"] == ["0x5f"] * 4


# An L1 data fee of one percent, and no operator fee.
ORACLE = {
    "eth_call 0x49948e0e": words(31_500),
    "eth_call": {"code": 3, "message": "execution reverted", "data": "0x"},
}


async def test_the_oracle_is_asked_about_the_block_before() -> None:
    node = Archive(LEGACY)
    node.answers = {"eth_simulateV1": simulated(21_000), **ORACLE}
    _, (found,) = await backtest(node, "op_stack")
    assert found.percent == Decimal(1)
    assert [params[1] for method, params in node.asked if method == "eth_call"] == ["0x5f"] * 4


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
        **ORACLE,
    }
    _, (found,) = await backtest(node, "op_stack")
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
    assert overrides == [{"baseFeePerGas": "0x64", "number": "0x60"}]


@pytest.mark.parametrize("kept", [0, 1, 4])
async def test_each_question_has_a_deadline(kept: int) -> None:
    """About the block, its receipts, two prices and the gas. Without the gas, only this transaction has no estimate."""
    node, now = Archive(LEGACY), asyncio.get_running_loop().time()
    node.answers = {"eth_simulateV1": simulated(21_000)}
    await node.start()
    caches = ChainCaches(FeeOptions(), time.monotonic)
    where, deadlines = network(node.url), [now + 60] * kept + [now - 1]
    test = BlockTests(where, caches.find(where.rpc_urls, where.chain_id), FeeOptions(), lambda: deadlines.pop(0))
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
        Result(96, "unknown", None, "error -32000"),
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
    assert await backtest(node) == (100, [])
