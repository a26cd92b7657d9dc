"""The fee in Wei of one estimate: its deadline, the price that a cap leaves, and the steps that show it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import rlp

from relaydeck.fees.chain_cache import ChainCache, ChainCaches
from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.estimator import Job, native_fee
from relaydeck.fees.gas_price import GAS_PRICE
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.evm.errors import NodesUnreachable
from relaydeck.networks.evm.transaction import decode
from relaydeck.networks.model import RpcUrl
from tests.support.accounts import example
from tests.support.fault_node import CHAIN_ID, FaultNode, fault_nodes
from tests.support.fee_scene import network, relayer, transaction

FIELDS = {"chainId": CHAIN_ID, "nonce": 0, "gas": 50_000, "gasPrice": 150, "to": "0x" + "99" * 20, "value": 0}


def signed() -> str:
    return str(example().sign_transaction(FIELDS).raw_transaction.to_0x_hex())


def unsigned() -> str:
    return ""  # the usual one of the tests


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as (node,):
        yield node


@pytest.fixture
async def cache(node: FaultNode) -> AsyncIterator[ChainCache]:
    caches = ChainCaches(FeeOptions(cache_age=3600.0), time.monotonic)
    yield caches.find((RpcUrl(node.url),), CHAIN_ID)
    await caches.close()


def job_of(cache: ChainCache, raw: str = "", trace: Trace | None = None, **policies: Any) -> Job:
    decoded = decode(raw or transaction(), chain_id=CHAIN_ID, max_bytes=1000)
    return Job(cache, relayer(**policies), network("http://127.0.0.1:1"), decoded, trace)


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.mark.parametrize(
    ("encoded", "policies", "wei"),
    [
        (unsigned, {}, 21_000 * 110),
        (unsigned, {"gas_price_cap": 100}, 21_000 * 100),
        (unsigned, {"gas_price_cap": 0}, 0),
        (signed, {"gas_price_cap": 100}, 21_000 * 150),
        (signed, {"gas_limit_estimation": False}, 50_000 * 150),
    ],
)
async def test_a_deadline_that_has_passed_holds_for_every_question(
    node: FaultNode, cache: ChainCache, encoded: Callable[[], str], policies: dict[str, Any], wei: int
) -> None:
    """The shared values are there, so the second estimate has only its own questions to ask."""
    assert await native_fee(job_of(cache, encoded(), **policies), in_seconds(30)) == wei
    node.calls.clear()
    with pytest.raises(NodesUnreachable):
        await native_fee(job_of(cache, encoded(), **policies), in_seconds(-1))
    assert node.calls == {}


OWN_LIMIT = "the transaction's own limit (gas_limit_estimation is off)"


@pytest.mark.parametrize(
    ("encoded", "gas", "requests", "calls"),
    [
        (unsigned, 21_000, 2, {"eth_feeHistory": 2, "eth_getBlockByNumber": 1}),
        (signed, 50_000, 3, {"eth_feeHistory": 2, "eth_getBlockByNumber": 1, "eth_getTransactionCount": 1}),
    ],
)
async def test_without_estimation_the_own_limit_counts(
    node: FaultNode, cache: ChainCache, encoded: Callable[[], str], gas: int, requests: int, calls: dict[str, int]
) -> None:
    await cache.pool.ask(GAS_PRICE)  # connects
    node.calls.clear()
    trace, before = Trace(), node.requests
    await native_fee(job_of(cache, encoded(), trace, gas_limit_estimation=False), in_seconds(30))
    assert trace.steps[1] == {"step": "gas", "gas": str(gas), "source": OWN_LIMIT}
    assert (node.requests - before, node.calls) == (requests, calls)


async def test_without_estimation_a_price_that_is_known_needs_no_node(node: FaultNode, cache: ChainCache) -> None:
    await native_fee(job_of(cache, gas_limit_estimation=False), in_seconds(30))
    node.mood = "closes"
    with pytest.raises(NodesUnreachable):
        await cache.pool.ask(GAS_PRICE)
    assert await native_fee(job_of(cache, gas_limit_estimation=False), in_seconds(30)) == 21_000 * 110


async def test_without_estimation_a_transaction_needs_a_limit(cache: ChainCache) -> None:
    raw = "0x02" + rlp.encode([CHAIN_ID, 0, 1, 2, 0, b"\x99" * 20, 1, b"", []]).hex()
    with pytest.raises(InvalidParams) as failure:
        await native_fee(job_of(cache, raw, gas_limit_estimation=False), in_seconds(30))
    assert str(failure.value) == "the transaction has no gas limit, and gas_limit_estimation is off"


HISTORY = {"oldestBlock": "0x5", "baseFeePerGas": ["0x1", "0x64"], "gasUsedRatio": [0.5], "reward": [["0xa"]]}
BLOBS = "0x03" + rlp.encode([CHAIN_ID, 0, 1, 2, 21000, b"\x99" * 20, 1, b"", [], 1, [b"\x01" * 32] * 2]).hex()


@pytest.mark.parametrize(
    ("answers", "blob_price"),
    [
        ({"eth_feeHistory": {**HISTORY, "baseFeePerBlobGas": ["0x1", "0x3"]}}, 3),
        ({"eth_feeHistory": HISTORY, "eth_blobBaseFee": "0x5"}, 5),
    ],
)
async def test_the_last_steps_show_what_the_fee_is_made_of(
    node: FaultNode, cache: ChainCache, answers: dict[str, Any], blob_price: int
) -> None:
    node.answers, trace = answers, Trace()
    wei = await native_fee(job_of(cache, BLOBS, trace), in_seconds(30))
    assert wei == 21_000 * 110 + 262_144 * blob_price
    blobs = {"blob_gas": "262144", "blob_base_fee_wei": str(blob_price), "fee_wei": str(262_144 * blob_price)}
    assert [step["step"] for step in trace.steps] == ["price", "gas", "fee model", "blobs", "native fee"]
    assert trace.steps[2:] == [
        {"step": "fee model", "name": "ethereum", "charged_gas": "21000"},
        {"step": "blobs", **blobs},
        {"step": "native fee", "gas": "21000", "per_gas_wei": "110", "fee_wei": str(wei)},
    ]
