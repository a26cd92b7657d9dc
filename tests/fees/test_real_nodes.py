"""Estimates against real nodes, compared with the receipt of the same transaction really sent."""

import asyncio
import time
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from math import ceil
from typing import Any

import pytest
import rlp
from eth_utils.crypto import keccak
from msgspec.structs import replace

from relaydeck.fees.errors import ExecutionReverted, NodeRefused, ReceiverNotWhitelisted, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.model import CrossedRate, FeedRate, FixedRate
from tests.support.accounts import account
from tests.support.fault_node import fault_nodes
from tests.support.fee_chain import Chain, call_data
from tests.support.fee_scene import ask, network, relayer, token, transaction

OTHER = "0x" + "99" * 20
GWEI = 10**9
TRANSFER = "transfer(address,uint256)"


@pytest.fixture(scope="module")
def usdc(hardhat: Chain) -> str:
    """A token that the receiver already holds, so that every transfer costs the same."""
    address = hardhat.deploy("token", 6)
    hardhat.call(address, TRANSFER, OTHER, 5)
    return address


@pytest.fixture(scope="module")
def feed(hardhat: Chain) -> str:
    return hardhat.deploy("aggregator", 8)


def set_feed(chain: Chain, feed: str, answer: int, age: int = 0, round_id: int = 7, answered_in: int = 7) -> None:
    chain.call(feed, "set_round(uint80,int256,uint256,uint80)", round_id, answer, int(time.time()) - age, answered_in)


def transfer(chain: Chain, usdc: str, **fees: int) -> str:
    fees = fees or {"maxFeePerGas": 100 * GWEI, "maxPriorityFeePerGas": GWEI}
    return chain.sign({"to": usdc, "data": call_data(TRANSFER, OTHER, 7), **fees})


def wei_of(receipt: dict[str, Any]) -> int:
    return int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)


def in_token(wei: int, rate: Fraction, decimals: int) -> Decimal:
    """Independent of the code under test: one fraction, rounded up once."""
    return Decimal(ceil(Fraction(wei, 10**18) * rate * 10**decimals)).scaleb(-decimals)


async def test_native_estimate_equals_the_receipt(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    raw = transfer(hardhat, usdc)
    hardhat.pin_base_fee(7_000_000_123)
    found = await ask(estimator, network(hardhat.url), raw)
    receipt = hardhat.send_raw(raw)
    assert int(receipt["effectiveGasPrice"], 16) == 7_000_000_123 + GWEI
    assert Decimal(found.estimated_fee) == Decimal(wei_of(receipt)).scaleb(-18)
    assert found.conversion_rate == "1"


async def test_legacy_price_equals_the_receipt(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    hardhat.pin_base_fee(3 * GWEI)
    price = int(hardhat.rpc("eth_gasPrice"), 16)
    raw = transfer(hardhat, usdc, gasPrice=price)
    found = await ask(estimator, network(hardhat.url), raw, who=relayer(eip1559_pricing=False))
    assert Decimal(found.estimated_fee) == Decimal(wei_of(hardhat.send_raw(raw))).scaleb(-18)


@pytest.mark.parametrize("margin", ["0", "1.5"])
@pytest.mark.parametrize("source", ["fixed", "feed", "inverse", "crossed"])
async def test_token_estimate_equals_an_independent_computation(
    hardhat: Chain, usdc: str, feed: str, estimator: Estimator, source: str, margin: str
) -> None:
    other = hardhat.deploy("aggregator", 18)
    set_feed(hardhat, feed, 312_345_678_901)  # 3123.45678901
    set_feed(hardhat, other, 999_700_000_000_000_003)  # just below one
    native_usd, token_usd = Fraction(312_345_678_901, 10**8), Fraction(999_700_000_000_000_003, 10**18)
    rate, expected = {
        "fixed": (FixedRate(fixed=Decimal("2500.5")), Fraction("2500.5")),
        "feed": (FeedRate(feed=feed, max_age=3600), native_usd),
        "inverse": (FeedRate(feed=feed, max_age=3600, inverse=True), 1 / native_usd),
        "crossed": (CrossedRate(native_usd=feed, token_usd=other, max_age=3600), native_usd / token_usd),
    }[source]
    expected *= 1 + Fraction(margin) / 100
    where = network(hardhat.url, tokens=(token(rate, usdc, margin=margin),))
    raw = transfer(hardhat, usdc)
    hardhat.pin_base_fee(7_000_000_123)
    found = await ask(estimator, where, raw, usdc.upper().replace("0X", "0x"))
    receipt = hardhat.send_raw(raw)
    assert Decimal(found.estimated_fee) == in_token(wei_of(receipt), expected, 6)
    # The rate shown is the rate used: anyone can repeat the multiplication.
    assert Decimal(found.estimated_fee) == in_token(wei_of(receipt), Fraction(found.conversion_rate), 6)
    assert 0 <= Fraction(found.conversion_rate) - expected < expected / 10**35


async def test_every_type_of_transaction(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    market: dict[str, Any] = {"maxFeePerGas": 100 * GWEI, "maxPriorityFeePerGas": GWEI}
    access = [{"address": usdc, "storageKeys": ["0x" + "00" * 32]}]
    data = {"to": usdc, "data": call_data(TRANSFER, OTHER, 7)}
    authority = account("0x" + "17" * 32)
    signed = authority.sign_authorization({"chainId": hardhat.chain_id, "address": usdc, "nonce": 0})
    kinds: list[dict[str, Any]] = [
        {**data, "gasPrice": 100 * GWEI},
        {**data, "gasPrice": 100 * GWEI, "accessList": access, "type": 1},
        {**data, **market, "accessList": access},
        {**data, **market, "authorizationList": [signed]},
    ]
    for kind, fields in enumerate(kinds):
        raw = hardhat.sign(fields)
        hardhat.pin_base_fee(5 * GWEI)
        trace = Trace()
        found = await ask(estimator, network(hardhat.url), raw, trace=trace)
        receipt = hardhat.send_raw(raw)
        steps = {step["step"]: step for step in trace.steps}
        assert steps["transaction"]["type"] == str([0, 1, 2, 4][kind])
        assert steps["transaction"]["sender"] == receipt["from"]
        paid = Decimal(wei_of(receipt)).scaleb(-18)
        if kind < 3:  # a new authority's account is paid for in advance and partly refunded
            assert Decimal(found.estimated_fee) == paid
        else:
            assert Decimal(found.estimated_fee) >= paid


async def test_blobs_are_paid_for(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    canonical, with_blobs = blob_transaction(hardhat, usdc)
    hardhat.pin_base_fee(5 * GWEI)
    trace = Trace()
    found = await ask(estimator, network(hardhat.url), canonical, trace=trace)
    before = int(hardhat.rpc("eth_getBalance", hardhat.account.address, "latest"), 16)
    receipt = hardhat.send_raw(with_blobs)
    paid = before - int(hardhat.rpc("eth_getBalance", hardhat.account.address, "latest"), 16)
    assert paid > wei_of(receipt)  # this node's receipt leaves out what the blob cost; the balance does not
    assert Decimal(found.estimated_fee) == Decimal(paid).scaleb(-18)
    assert next(step for step in trace.steps if step["step"] == "blobs")["blob_gas"] == "131072"
    with pytest.raises(RpcFailure, match="longer than 131072 bytes"):
        await ask(estimator, network(hardhat.url), with_blobs)


def blob_transaction(chain: Chain, to: str) -> tuple[str, str]:
    """Canonical, with one blob of zeros: its commitment and its proof are the point at infinity."""
    blob, infinity = b"\0" * 131_072, b"\xc0" + b"\0" * 47
    versioned_hash = b"\x01" + sha256(infinity).digest()[1:]
    numbers = [chain.chain_id, chain.nonce(), GWEI, 100 * GWEI, 300_000]
    data = bytes.fromhex(call_data(TRANSFER, OTHER, 7)[2:])
    payload = [*numbers, bytes.fromhex(to[2:]), 0, data, [], GWEI, [versioned_hash]]
    signature = chain.account.unsafe_sign_hash(keccak(b"\x03" + rlp.encode(payload)))
    payload += [signature.v - 27, signature.r, signature.s]
    sidecar = [payload, [blob], [infinity], [infinity]]
    return "0x03" + rlp.encode(payload).hex(), "0x03" + rlp.encode(sidecar).hex()


async def test_policies_change_the_answer(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    where, raw = network(hardhat.url), transfer(hardhat, usdc)
    hardhat.pin_base_fee(7 * GWEI)
    gas = int(hardhat.rpc("eth_estimateGas", {"from": hardhat.account.address, "to": usdc,
                                              "data": call_data(TRANSFER, OTHER, 7)}), 16)  # fmt: skip
    price = 8 * GWEI
    answers: dict[str, tuple[dict[str, Any], int]] = {
        "plain": ({}, gas * price),
        "own limit": ({"gas_limit_estimation": False}, 300_000 * price),
        "not capped: the signature fixes the price": ({"gas_price_cap": 2 * GWEI}, gas * price),
        "listed": ({"whitelist_receivers": (OTHER, usdc.upper().replace("0X", "0x"))}, gas * price),
        "its own price rules": ({"eip1559_pricing": False}, gas * price),
    }
    for policies, wei in answers.values():
        found = await ask(estimator, where, raw, who=relayer(**policies))
        assert Decimal(found.estimated_fee) == Decimal(wei).scaleb(-18)
    with pytest.raises(ReceiverNotWhitelisted):
        await ask(estimator, where, raw, who=relayer(whitelist_receivers=(OTHER,)))
    creation = hardhat.sign({"data": "0x6000", "gasPrice": GWEI})
    with pytest.raises(ReceiverNotWhitelisted, match="creates a contract"):
        await ask(estimator, where, creation, who=relayer(whitelist_receivers=(OTHER,)))


REVERTS = [
    ("0x08c379a0" + "20".zfill(64) + "04".zfill(64) + b"nope".hex().ljust(64, "0"), "nope"),
    ("0x4e487b71" + "11".zfill(64), "panic 0x11: arithmetic overflow or underflow"),
    ("0x4e487b71" + "99".zfill(64), "panic 0x99: unknown"),
    ("0xdeadbeef" + "00" * 32, "custom error 0xdeadbeef"),
    ("0x", "no reason given"),
]


@pytest.mark.parametrize(("returned", "words"), REVERTS)
async def test_reverts_are_explained(
    hardhat: Chain, ganache: Chain, estimator: Estimator, returned: str, words: str
) -> None:
    for chain in (hardhat, ganache):
        reverter = deployed_reverter(chain)
        data = call_data("revert_with(bytes)", bytes.fromhex(returned[2:]))
        raw = chain.sign({"to": reverter, "data": data, "gasPrice": 100 * GWEI})
        with pytest.raises(ExecutionReverted) as failure:
            await ask(estimator, network(chain.url, chain_id=chain.chain_id), raw)
        assert failure.value.description == words


_reverters: dict[str, str] = {}


def deployed_reverter(chain: Chain) -> str:
    if chain.url not in _reverters:
        _reverters[chain.url] = chain.deploy("reverter")
    return _reverters[chain.url]


async def test_a_reverting_token_transfer_says_why(hardhat: Chain, usdc: str, estimator: Estimator) -> None:
    raw = hardhat.sign({"to": usdc, "data": call_data(TRANSFER, OTHER, 2 * 10**30), "gasPrice": 100 * GWEI})
    with pytest.raises(ExecutionReverted) as failure:
        await ask(estimator, network(hardhat.url), raw)
    assert (failure.value.code, failure.value.description) == (-32001, "not enough tokens")


async def test_nodes_disagree_on_a_plain_transfer(hardhat: Chain, ganache: Chain, estimator: Estimator) -> None:
    """The node's word counts: it is the limit a transaction sent through that node needs."""
    price = {"maxFeePerGas": 100 * GWEI, "maxPriorityFeePerGas": 2 * GWEI}
    gas = {}
    for chain in (hardhat, ganache):
        raw = chain.sign({"to": OTHER, "value": 1, **price})
        trace = Trace()
        await ask(estimator, network(chain.url, chain_id=chain.chain_id), raw, trace=trace)
        gas[chain.url] = next(step["gas"] for step in trace.steps if step["step"] == "gas")
        assert int(chain.send_raw(raw)["gasUsed"], 16) == 21_000
    assert gas == {hardhat.url: "21001", ganache.url: "21000"}


async def test_the_other_node_prices_and_converts_too(ganache: Chain, estimator: Estimator) -> None:
    address = ganache.deploy("token", 18)
    where = network(ganache.url, chain_id=1337, tokens=(token(address=address, decimals=18),))
    history = ganache.rpc("eth_feeHistory", "0xa", "latest", [50])
    raw = transaction(ganache.nonce(), chain_id=1337)
    found = await ask(estimator, where, raw, "usdc", who=relayer(address=ganache.account.address))
    tips = sorted(
        int(row[0], 16) for row, ratio in zip(history["reward"], history["gasUsedRatio"], strict=True) if ratio
    )
    wei = 21_000 * (int(history["baseFeePerGas"][-1], 16) + tips[len(tips) // 2])
    assert Decimal(found.estimated_fee) == in_token(wei, Fraction("2500.5"), 18)


@pytest.mark.prove
async def test_a_thousand_estimates_with_a_real_node_among_four(hardhat: Chain, usdc: str, feed: str) -> None:
    """The other three are dead, silent and broken; the options are the ones we ship with."""
    set_feed(hardhat, feed, 2000 * 10**8)
    async with fault_nodes("dead", "hangs", "http_500") as nodes:
        estimator = Estimator(FeeOptions(deadline=60.0, try_timeout=30.0))
        source = token(FeedRate(feed=feed, max_age=3600), usdc)
        where = replace(network(*(node.url for node in nodes), hardhat.url, tokens=(source,)), quorum=1)
        found = await asyncio.gather(*(ask(estimator, where, transaction(nonce), "USDC") for nonce in range(1000)))
        assert len({one.estimated_fee for one in found}) == 1
        await estimator.close()


async def test_a_blob_on_a_node_without_blobs_is_refused_by_the_node(
    hardhat: Chain, ganache: Chain, usdc: str, estimator: Estimator
) -> None:
    fields = rlp.decode(bytes.fromhex(blob_transaction(hardhat, usdc)[0][4:]))[:11]
    raw = "0x03" + rlp.encode([(1337).to_bytes(2, "big"), *fields[1:5], b"\x99" * 20, *fields[6:]]).hex()
    with pytest.raises(NodeRefused, match="the request was not understood"):
        await ask(estimator, network(ganache.url, chain_id=1337), raw)
