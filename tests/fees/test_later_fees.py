"""What a transaction costs if it is mined some blocks later, and estimates that cover full blocks."""

import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from relaydeck.fees.chain_cache import ChainCache, ChainCaches
from relaydeck.fees.errors import InternalFailure
from relaydeck.fees.estimator import Job, native_fee
from relaydeck.fees.gas_price import Price, typical_base_fee
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.chains import BlobSchedule, ChainFacts
from relaydeck.networks.evm.header import Header, base_fee_after, next_base_fee, next_blob_base_fee
from relaydeck.networks.evm.options import PoolRules
from relaydeck.networks.evm.transaction import decode
from relaydeck.networks.model import RpcUrl
from tests.fees.test_native_fee import in_seconds
from tests.support.accounts import example
from tests.support.fault_node import CHAIN_ID, FaultNode, fault_nodes
from tests.support.fee_scene import network, relayer, transaction

LIMIT, BASE, TIP = 30_000_000, 1_000_000_000, 10
RULE = ChainFacts("eip1559")
HALF_FULL = {"number": "0x64", "baseFeePerGas": hex(BASE), "gasLimit": hex(LIMIT), "gasUsed": hex(LIMIT // 2)}
NO_RULE = "not known: no rule says how the price changes"


def full_blocks(base: int, count: int) -> int:
    """Each raises the base fee by an eighth, rounded down."""
    for _ in range(count):
        base += base // 8
    return base


def head(**fields: str) -> Header:
    return Header(100, BASE, LIMIT, {"gasUsed": hex(LIMIT // 2)} | fields)


@pytest.mark.parametrize("full", [0, 1, 4, 19])
def test_the_base_fee_after_full_blocks(full: int) -> None:
    assert base_fee_after(head(), RULE, full) == full_blocks(BASE, full)


def test_a_full_block_is_what_the_rule_says_of_one() -> None:
    """The bound of two blocks is the next base fee of the first of them, if that one is full."""
    first = next_base_fee(head(gasUsed=hex(LIMIT)), RULE)
    then = Header(101, first, LIMIT, {"gasUsed": hex(LIMIT)})
    assert base_fee_after(head(gasUsed=hex(LIMIT)), RULE, 1) == next_base_fee(then, RULE)


def test_the_blob_base_fee_after_full_blocks() -> None:
    """Each adds the gas of the blobs above the target to the excess."""
    facts = ChainFacts("eip1559", blobs=BlobSchedule(6, 9, 5_007_716))
    blobs = {"excessBlobGas": hex(60 * 131_072), "blobGasUsed": hex(6 * 131_072)}
    later = {"excessBlobGas": hex((60 + 4 * 3) * 131_072), "blobGasUsed": hex(6 * 131_072)}
    cheap = Header(100, 1, LIMIT, {"gasUsed": "0x0"} | blobs)
    then = Header(104, 1, LIMIT, {"gasUsed": "0x0"} | later)
    assert next_blob_base_fee(cheap, facts, 4) == next_blob_base_fee(then, facts)


def test_a_chain_without_a_known_rule() -> None:
    assert base_fee_after(head(), ChainFacts(), 3) is None
    assert Price(110, 100, "", {}, base_fee=100, head=head()).after(3) is None
    assert Price(110, 100, "", {}, head=head(), facts=RULE).after(3) is None
    assert Price(110, 100, "", {}, base_fee=100, facts=RULE).after(3) is None


def test_the_typical_change_is_the_median_of_recent_ones() -> None:
    """Over two blocks these rose by a half, a fifth and nothing."""
    recent = [100, 150, 150, 180, 150]
    assert typical_base_fee(1000, recent, 2) == 1200
    assert typical_base_fee(1000, recent, 5) is None
    assert typical_base_fee(1000, [0, 5, 7], 2) is None


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as (node,):
        history = {"oldestBlock": "0x62", "gasUsedRatio": [0.5] * 3, "reward": [[hex(TIP)]] * 3}
        fees = [hex(BASE)] * 4
        node.answers = {"eth_feeHistory": history | {"baseFeePerGas": fees}, "eth_getBlockByNumber": HALF_FULL}
        yield node


@pytest.fixture
async def cache(node: FaultNode) -> AsyncIterator[ChainCache]:
    caches = ChainCaches(FeeOptions(), time.monotonic)
    found = caches.find((RpcUrl(node.url),), CHAIN_ID)
    found.pool.rules = PoolRules(facts=RULE)
    yield found
    await caches.close()


def job_of(cache: ChainCache, raw: str = "", horizon: int = 0, trace: Trace | None = None, **policies: Any) -> Job:
    decoded = decode(raw or transaction(), chain_id=CHAIN_ID, max_bytes=1000)
    where = msgspec.structs.replace(network("http://127.0.0.1:1"), fee_horizon_blocks=horizon)
    return Job(cache, relayer(**policies), where, decoded, trace)


def signed(most: int) -> str:
    fields = {"chainId": CHAIN_ID, "nonce": 0, "gas": 21_000, "to": "0x" + "99" * 20, "value": 0}
    prices = {"maxFeePerGas": most, "maxPriorityFeePerGas": 5}
    return str(example().sign_transaction(fields | prices).raw_transaction.to_0x_hex())


@pytest.mark.parametrize(
    ("signed_price", "horizon", "policies", "per_gas"),
    [
        (0, 0, {}, BASE + TIP),
        (0, 3, {}, full_blocks(BASE, 3) + TIP),
        (0, 3, {"gas_price_cap": BASE + 20}, BASE + 20),
        (2 * BASE, 3, {}, full_blocks(BASE, 3) + 5),
        (BASE + 7, 3, {}, BASE + 7),  # it pays no more than that, whenever it is mined
    ],
)
async def test_an_estimate_covers_the_full_blocks_of_its_network(
    cache: ChainCache, signed_price: int, horizon: int, policies: dict[str, Any], per_gas: int
) -> None:
    raw = signed(signed_price) if signed_price else ""
    assert await native_fee(job_of(cache, raw, horizon, **policies), in_seconds(30)) == 21_000 * per_gas


async def test_a_horizon_needs_a_rule(cache: ChainCache) -> None:
    cache.pool.rules = PoolRules()
    with pytest.raises(InternalFailure) as failure:
        await native_fee(job_of(cache, horizon=1), in_seconds(30))
    assert failure.value.description == "fee_horizon_blocks is set, and no rule says how the price changes"


async def test_the_fees_of_later_blocks(node: FaultNode, cache: ChainCache) -> None:
    """Recent base fees fell by a tenth over four blocks; there are too few for twenty."""
    recent = [hex(each) for each in (1000, 1000, 1000, 1000, 900)]
    node.answers["eth_feeHistory"] |= {"baseFeePerGas": [hex(BASE)] * 4}
    job = job_of(cache, trace=Trace())
    await native_fee(job, in_seconds(30))
    node.answers["eth_feeHistory"] = {"baseFeePerGas": recent}
    await native_fee(job, in_seconds(30))
    assert job.later == {
        "next_block": 21_000 * (BASE + TIP),
        "in_5_blocks_at_most": 21_000 * (full_blocks(BASE, 4) + TIP),
        "in_5_blocks_typically": 21_000 * (BASE * 9 // 10 + TIP),
        "in_20_blocks_at_most": 21_000 * (full_blocks(BASE, 19) + TIP),
        "in_20_blocks_typically": NO_RULE,
    }


async def test_a_signed_transaction_that_later_blocks_do_not_take(cache: ChainCache) -> None:
    job = job_of(cache, signed(full_blocks(BASE, 4)), trace=Trace())
    await native_fee(job, in_seconds(30))
    assert job.later["in_5_blocks_at_most"] == 21_000 * full_blocks(BASE, 4)
    assert job.later["in_20_blocks_at_most"] == "not mined: its own price would be too low"
