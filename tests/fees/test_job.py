"""How a transaction is measured: the fields it runs with, and what is asked beside its gas."""

import time
from collections.abc import AsyncIterator

import msgspec
import pytest
import rlp

from relaydeck.fees.chain_cache import ChainCache, ChainCaches
from relaydeck.fees.estimator import Job, price_fields
from relaydeck.fees.gas import Run
from relaydeck.fees.gas_price import Price
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.models import MODELS
from relaydeck.networks.evm.questions import Question, at_block, read_quantity
from relaydeck.networks.evm.transaction import Transaction, decode
from relaydeck.networks.model import RpcUrl
from tests.support.accounts import example
from tests.support.fault_node import CHAIN_ID
from tests.support.fee_scene import network, relayer

TO = b"\x99" * 20
PRICE = Price(110, 100, "http://node", {}, None, 100)
LEGACY = rlp.encode([0, 150, 21_000, TO, 1, b"", CHAIN_ID, 0, 0])
LISTED = b"\x01" + rlp.encode([CHAIN_ID, 0, 150, 21_000, TO, 1, b"", []])
MARKET = b"\x02" + rlp.encode([CHAIN_ID, 0, 1, 2, 21_000, TO, 1, b"", []])
BLOBS = b"\x03" + rlp.encode([CHAIN_ID, 0, 1, 2, 21_000, TO, 1, b"", [], 7, [b"\x01" * 32]])
FREE_BLOBS = b"\x03" + rlp.encode([CHAIN_ID, 0, 1, 2, 21_000, TO, 1, b"", [], 0, [b"\x01" * 32]])


def decoded(raw: bytes) -> Transaction:
    return decode("0x" + raw.hex(), chain_id=CHAIN_ID, max_bytes=1000)


@pytest.mark.parametrize(
    ("raw", "blob_price", "fields"),
    [
        (LEGACY, None, {"gasPrice": "0x6e"}),
        (LISTED, None, {"gasPrice": "0x6e"}),
        (MARKET, None, {"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e"}),
        (BLOBS, None, {"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e", "maxFeePerBlobGas": "0x7"}),
        (FREE_BLOBS, None, {"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e", "maxFeePerBlobGas": "0x0"}),
        (BLOBS, 9, {"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e", "maxFeePerBlobGas": "0x9"}),
    ],
)
def test_the_price_fields_of_each_type(raw: bytes, blob_price: int | None, fields: dict[str, str]) -> None:
    assert price_fields(decoded(raw), Price(110, 100, "http://node", {}, blob_price, 100)) == fields


@pytest.fixture
async def cache() -> AsyncIterator[ChainCache]:
    caches = ChainCaches(FeeOptions(), time.monotonic)
    yield caches.find((RpcUrl("http://127.0.0.1:1"),), CHAIN_ID)
    await caches.close()


async def test_an_unsigned_transaction_runs_as_the_relayers(cache: ChainCache) -> None:
    job = Job(cache, relayer(), network("http://127.0.0.1:1"), decoded(MARKET), None)
    call = {"from": relayer().address, "to": "0x" + TO.hex(), "value": "0x1", "data": "0x"}
    found = job.run(PRICE)
    assert found == Run(
        call=call,
        prices={"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e"},
        base_fee=100,
        block=100,
        own_limit=21_000,
        is_signed=False,
        simulated=True,
        wants_limit=False,
        extra_calls=[],
        refuses=found.refuses,
    )


async def test_the_nonce_of_a_signed_transaction_is_asked_before_the_questions_of_the_fee_model(
    cache: ChainCache,
) -> None:
    fields = {"chainId": CHAIN_ID, "nonce": 0, "gas": 50_000, "gasPrice": 150, "to": "0x" + TO.hex(), "value": 0}
    transaction = decoded(example().sign_transaction(fields).raw_transaction)
    where = msgspec.structs.replace(network("http://127.0.0.1:1"), fee_model="scroll")
    call = {"from": example().address.lower(), "to": "0x" + TO.hex(), "value": "0x0", "data": "0x"}
    nonce = Question("eth_getTransactionCount", (example().address.lower(), hex(100)), read_quantity)
    job = Job(cache, relayer(), where, transaction, Trace())
    found = job.run(PRICE)
    assert found == Run(
        call=call,
        prices={"gasPrice": "0x6e"},
        base_fee=100,
        block=100,
        own_limit=50_000,
        is_signed=True,
        simulated=MODELS["scroll"].simulated,
        wants_limit=True,
        extra_calls=[nonce, *(at_block(each, "0x64") for each in MODELS["scroll"].questions(transaction, call))],
        refuses=found.refuses,
    )
    assert (len(found.extra_calls), job.model_questions) == (6, 5)
