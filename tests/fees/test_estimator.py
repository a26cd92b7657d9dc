"""The estimator over scripted nodes: what is asked, how often, and what comes of odd answers."""

import asyncio
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp
from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.fees.errors import InvalidParams, NodeRefused, NodeUnreachable, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, FeeOptions, Trace
from relaydeck.networks.model import FeedRate, RpcUrl
from tests.support.accounts import example
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_scene import ask, network, relayer, token, transaction

pytestmark = pytest.mark.slow

NOW = 1_800_000_000
FEED = "0x" + "fe" * 20
OPTIONS = FeeOptions(deadline=30.0, try_timeout=0.5)
# The try timeout we ship; the deadline is longer, because here clients and nodes share one busy process.
CROWDED = FeeOptions(deadline=20.0)


def with_feed(node: FaultNode) -> None:
    node.answers |= {
        "eth_call 0x313ce567": words(6),
        "eth_call 0xfeaf968c": words(9, 2000 * 10**6, NOW, NOW, 9),
        "eth_call 0x9a6fc8f5": words(8, 2000 * 10**6, NOW, NOW, 8),
    }


async def fee(node: FaultNode, **policies: Any) -> str:
    estimator = Estimator(OPTIONS)
    try:
        found = await ask(estimator, network(node.url), transaction(), who=relayer(**policies))
        return found.estimated_fee
    finally:
        await estimator.close()


async def test_a_warm_native_estimate_is_one_call() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(OPTIONS, monotonic=lambda: 0.0)
        await ask(estimator, network(node.url), transaction())
        node.calls.clear()
        for nonce in range(10):
            await ask(estimator, network(node.url), transaction(nonce))
        assert node.calls == {"eth_estimateGas": 10}
        await estimator.close()


async def test_a_thousand_estimates_ask_for_shared_facts_once() -> None:
    async with fault_nodes("healthy") as (node,):
        with_feed(node)
        where = network(node.url, tokens=(token(FeedRate(feed=FEED, max_age=60)),))
        estimator = Estimator(CROWDED, now=lambda: NOW)
        found = await asyncio.gather(*(ask(estimator, where, transaction(nonce), "USDC") for nonce in range(1000)))
        assert len(set(found)) == 1
        assert node.calls["eth_feeHistory"] == 1
        assert node.calls["eth_call"] == 4  # two decimals, one round and the one before
        assert node.calls.total() <= 1_100
        await estimator.close()


async def test_what_is_shared_travels_as_one_batch() -> None:
    async with fault_nodes("healthy") as (node,):
        with_feed(node)
        where = network(node.url, tokens=(token(FeedRate(feed=FEED, max_age=60)),))
        estimator = Estimator(OPTIONS, now=lambda: NOW)
        await ask(estimator, where, transaction(), "USDC")
        assert node.requests == 6  # the chain id; block and fees; the rate; a round; whether it simulates (no); the gas
        await estimator.close()


@pytest.mark.parametrize("moods", [("dead", "hangs", "http_500"), ("endless", "wrong_chain", "half_closed")])
async def test_a_thousand_estimates_with_one_healthy_node_of_four(moods: tuple[str, ...]) -> None:
    async with fault_nodes(*moods, "healthy") as nodes:
        estimator = Estimator(CROWDED)
        where = msgspec.structs.replace(network(*(node.url for node in nodes)), quorum=1)
        found = await asyncio.gather(*(ask(estimator, where, transaction(nonce)) for nonce in range(1000)))
        assert {one.estimated_fee for one in found} == {"0.00000000000231"}
        await estimator.close()


async def test_a_thousand_estimates_while_three_of_four_break() -> None:
    async with fault_nodes("healthy", "healthy", "healthy", "healthy") as nodes:
        estimator = Estimator(CROWDED)
        where = msgspec.structs.replace(network(*(node.url for node in nodes)), quorum=1)
        await asyncio.gather(*(ask(estimator, where, transaction(nonce)) for nonce in range(100)))
        for node, mood in zip(nodes, ("hangs", "closes", "garbage"), strict=False):
            node.mood = mood
        found = await asyncio.gather(*(ask(estimator, where, transaction(nonce)) for nonce in range(1000)))
        assert {one.estimated_fee for one in found} == {"0.00000000000231"}
        await estimator.close()


async def test_facts_are_kept_a_second() -> None:
    clock = [0.0]
    async with fault_nodes("healthy") as (node,):
        with_feed(node)
        where = network(node.url, tokens=(token(FeedRate(feed=FEED, max_age=60)),))
        estimator = Estimator(OPTIONS, now=lambda: NOW, monotonic=lambda: clock[0])
        await ask(estimator, where, transaction())
        clock[0] = 0.9
        await ask(estimator, where, transaction())
        assert node.calls["eth_feeHistory"] == 1
        clock[0] = 1.1
        await ask(estimator, where, transaction())
        assert node.calls["eth_feeHistory"] == 2
        await ask(estimator, where, transaction(), "USDC")  # the rate is read as of the same block
        assert (node.calls["eth_feeHistory"], node.calls["eth_call"]) == (2, 4)
        await estimator.close()


async def test_relayers_with_the_same_urls_share_a_pool_and_others_do_not() -> None:
    async with fault_nodes("healthy", "healthy") as (first, second):
        estimator = Estimator(OPTIONS)
        where = network(first.url)
        await ask(estimator, where, transaction())
        await ask(estimator, where, transaction(), who=relayer((RpcUrl(first.url),)))
        assert (first.calls["eth_chainId"], first.calls["eth_feeHistory"]) == (1, 1)
        await ask(estimator, where, transaction(), who=relayer((RpcUrl(second.url),)))
        assert second.calls["eth_estimateGas"] == 1
        await estimator.close()


async def test_one_url_has_a_pool_for_each_chain() -> None:
    estimator, urls = Estimator(OPTIONS), (RpcUrl("http://127.0.0.1:1"),)
    one, other = [await estimator.pool(urls, network(chain_id=each)) for each in (1, 2)]
    assert one is await estimator.pool(urls, network(chain_id=1)) and one is not other
    await estimator.close()


async def test_an_idle_pool_is_dropped() -> None:
    clock = [0.0]
    async with fault_nodes("healthy", "healthy") as (first, second):
        estimator = Estimator(OPTIONS, monotonic=lambda: clock[0])
        await ask(estimator, network(first.url), transaction())
        clock[0] = 601
        await ask(estimator, network(second.url), transaction())
        await ask(estimator, network(first.url), transaction())
        assert first.calls["eth_chainId"] == 2  # a new pool had to ask again
        await estimator.close()


HISTORY = {"oldestBlock": "0x64", "baseFeePerGas": ["0x1", "0x64"], "gasUsedRatio": [0.5], "reward": [["0xa"]]}


@pytest.mark.parametrize(
    ("history", "extra", "per_gas"),
    [
        (HISTORY, {}, 110),
        ({**HISTORY, "reward": None}, {"eth_maxPriorityFeePerGas": "0x7"}, 107),
        ({**HISTORY, "reward": [None]}, {"eth_maxPriorityFeePerGas": "0x7"}, 107),
        ({**HISTORY, "gasUsedRatio": [0]}, {"eth_maxPriorityFeePerGas": "0x7"}, 107),
        ({**HISTORY, "gasUsedRatio": [0]}, {}, 100),  # no transaction in any block, and no suggestion
        ({**HISTORY, "reward": [["0x0"]]}, {"eth_maxPriorityFeePerGas": "0x7"}, 107),  # idle blocks
        ({**HISTORY, "reward": [["0x0"]]}, {}, 100),
        (
            {
                "oldestBlock": "0x5",
                "baseFeePerGas": ["0x1"] * 4 + ["0x64"],
                "gasUsedRatio": [0.1, 0, 0.2, 0.3],
                "reward": [["0x1"], ["0x0"], ["0x9"], ["0x5"]],
            },
            {},
            105,
        ),
    ],
)
async def test_priority_fees(history: Any, extra: dict[str, Any], per_gas: int) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history, **extra}
        assert Decimal(await fee(node)) == Decimal(21000 * per_gas).scaleb(-18)


async def test_on_an_idle_chain_fee_data_take_one_request() -> None:
    """The first time they take two: only the blocks show that a suggestion is needed."""
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": {**HISTORY, "reward": [["0x0"]]}, "eth_maxPriorityFeePerGas": "0x7"}
        estimator, requests = Estimator(FeeOptions(cache_age=0.0), monotonic=lambda: 0.0), []
        for number in range(3):
            before = node.requests
            await ask(estimator, network(node.url), transaction(number))
            requests.append(node.requests - before)
        await estimator.close()
        assert requests[1:] == [2, 2]  # fee data, and the gas
        assert node.calls["eth_maxPriorityFeePerGas"] == 3


@pytest.mark.parametrize(
    ("history", "extra", "source"),
    [
        (HISTORY, {}, "eth_feeHistory"),
        ({**HISTORY, "reward": None}, {"eth_maxPriorityFeePerGas": "0x7"}, "eth_maxPriorityFeePerGas"),
        ({**HISTORY, "reward": []}, {"eth_maxPriorityFeePerGas": "0x7"}, "eth_maxPriorityFeePerGas"),
        ({**HISTORY, "reward": [[]]}, {"eth_maxPriorityFeePerGas": "0x7"}, "eth_maxPriorityFeePerGas"),
        ({**HISTORY, "gasUsedRatio": [0]}, {}, "no transaction in any block, and no suggestion from the nodes"),
    ],
)
async def test_the_trace_names_the_source_of_the_priority_fee(history: Any, extra: dict[str, Any], source: str) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history, **extra}
        estimator, trace = Estimator(OPTIONS), Trace()
        await ask(estimator, network(node.url), transaction(), trace=trace)
        await estimator.close()
    (price,) = (step for step in trace.steps if step["step"] == "price")
    assert price["priority_from"] == source


@pytest.mark.parametrize(
    "history",
    [
        [], {**HISTORY, "baseFeePerGas": [1, 2]}, {**HISTORY, "baseFeePerGas": 5},
        {**HISTORY, "reward": [["0x1", "0x2"]]}, {**HISTORY, "oldestBlock": None},
    ],
)  # fmt: skip
async def test_a_history_that_does_not_add_up_is_a_failure_of_the_url(history: Any) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history}
        with pytest.raises(NodeUnreachable):
            await fee(node)


UNKNOWN = {"code": -32601, "message": "the method does not exist"}


@pytest.mark.parametrize(
    "history",
    [
        *(UNKNOWN, None, {}, {**HISTORY, "baseFeePerGas": ["0x1"]}, {**HISTORY, "gasUsedRatio": []}),
        {**HISTORY, "baseFeePerGas": [None, None]},
    ],
    ids=["missing", "null", "empty", "one short", "no blocks", "no base fees"],
)
@pytest.mark.parametrize(
    ("suggested", "base", "per_gas"), [("0x78", "0x64", 120), ("0x5a", "0x64", 100), ("0x78", None, 120)]
)
async def test_without_a_fee_history_the_nodes_suggestion_counts(
    history: Any, suggested: str, base: str | None, per_gas: int
) -> None:
    block = {"number": "0x64", "gasLimit": "0x1c9c380"} | ({"baseFeePerGas": base} if base else {})
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_feeHistory": history, "eth_gasPrice": suggested, "eth_getBlockByNumber": block}
        assert Decimal(await fee(node)) == Decimal(21000 * per_gas).scaleb(-18)


@pytest.mark.parametrize(("bounds", "per_gas"), [
    ({}, 110), ({"tip_floor": 3}, 110), ({"tip_floor": 25}, 125), ({"tip_ceiling": 4}, 104), ({"tip_ceiling": 0}, 100),
    ({"tip_floor": 20, "tip_ceiling": 15}, 115),
])  # fmt: skip
async def test_the_tip_stays_within_the_bounds_of_the_network(bounds: dict[str, int], per_gas: int) -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(OPTIONS)
        where = msgspec.structs.replace(network(node.url), **bounds)
        found = await ask(estimator, where, transaction())
        await estimator.close()
    assert Decimal(found.estimated_fee) == Decimal(21000 * per_gas).scaleb(-18)


async def test_blob_fee_from_the_history_or_asked_for() -> None:
    fields = [31337, 0, 1, 2, 21000, b"\x99" * 20, 1, b"", [], 1, [b"\x01" * 32] * 2]
    raw = "0x03" + rlp.encode(fields).hex()
    for answers, price in (
        ({"eth_feeHistory": {**HISTORY, "baseFeePerBlobGas": ["0x1", "0x3"]}}, 3),
        ({"eth_feeHistory": {**HISTORY, "baseFeePerBlobGas": ["0x0", "0x0"]}, "eth_blobBaseFee": "0x5"}, 5),
        ({"eth_feeHistory": HISTORY, "eth_blobBaseFee": "0x5"}, 5),
    ):
        async with fault_nodes("healthy") as (node,):
            node.answers = answers
            estimator, trace = Estimator(OPTIONS), Trace()
            await ask(estimator, network(node.url), raw, trace=trace)
            steps = {step["step"]: step for step in trace.steps}
            assert steps["blobs"]["fee_wei"] == str(2 * 131_072 * price)
            assert steps["native fee"]["fee_wei"] == str(21000 * 110 + 2 * 131_072 * price)
            await estimator.close()


async def test_a_refusal_of_the_node_is_told() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_estimateGas": {"code": -32000, "message": "insufficient funds for transfer"}}
        with pytest.raises(NodeRefused, match="the sender has not enough funds"):
            await fee(node)


async def test_gas_without_limit_and_without_estimation() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(OPTIONS)
        raw = "0x02" + rlp.encode([31337, 0, 1, 2, 0, b"\x99" * 20, 1, b"", []]).hex()
        with pytest.raises(InvalidParams, match="no gas limit"):
            await ask(estimator, network(node.url), raw, who=relayer(gas_limit_estimation=False))
        await estimator.close()


async def test_params_are_checked_before_any_node_is_asked() -> None:
    estimator = Estimator(OPTIONS)
    where = network("http://127.0.0.1:1", tokens=(token(),))
    for params, words_ in (
        (FeeEstimateParams("ETH", "other", transaction()), "network"),
        (FeeEstimateParams("DAI", "local", transaction()), "fee_token"),
        (FeeEstimateParams("ETH", "local", transaction(chain_id=5)), "for chain id 5, not 31337"),
    ):
        with pytest.raises(InvalidParams, match=words_):
            await estimator.estimate(relayer(), where, params)
    with pytest.raises(NodeUnreachable, match="no RPC URL is configured"):
        await ask(estimator, network(), transaction())
    await estimator.close()


@pytest.mark.parametrize(("tips", "middle"), [([5], 5), ([1, 9], 9), ([9, 1, 5], 5), ([1, 2, 3, 4], 3)])
def test_the_median_of_an_even_number_is_the_higher(tips: list[int], middle: int) -> None:
    from relaydeck.fees.gas_price import upper_median

    assert upper_median(tips) == middle


async def test_the_cap_and_the_signer_reach_the_answer() -> None:
    async with fault_nodes("healthy") as (node,):
        assert await fee(node, gas_price_cap=100) == "0.0000000000021"
        signed = example().sign_transaction(
            {"chainId": 31337, "nonce": 0, "gas": 21000, "gasPrice": 150, "value": 0, "data": "0x"}
        )
        estimator, trace = Estimator(OPTIONS), Trace()
        await ask(estimator, network(node.url), signed.raw_transaction.to_0x_hex(), trace=trace)
        asked = next(step["asked"] for step in trace.steps if step["step"] == "gas")
        assert asked["from"] == "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
        await estimator.close()


async def test_tokens_by_symbol_or_address_in_any_case() -> None:
    async with fault_nodes("healthy") as (node,):
        with_feed(node)
        estimator = Estimator(OPTIONS, now=lambda: NOW)
        where = network(node.url, tokens=(token(address="0x" + "Ab" * 20),))
        for name in ("USDC", "usdc", "0x" + "ab" * 20, "0X" + "AB" * 20):
            assert (await ask(estimator, where, transaction(), name)).conversion_rate == "2500.5"
        for name in ("ETH", "eth"):
            assert (await ask(estimator, where, transaction(), name)).conversion_rate == "1"
        await estimator.close()


async def test_a_node_that_answers_nothing_fails_within_the_deadline() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(FeeOptions(deadline=0.5, try_timeout=0.2))
        await ask(estimator, network(node.url), transaction())
        node.mood = "hangs"
        started = asyncio.get_running_loop().time()
        with pytest.raises(NodeUnreachable):
            await ask(estimator, network(node.url), transaction())
        assert asyncio.get_running_loop().time() - started < 10.0  # without the deadline it would wait for ever
        await estimator.close()


async def test_an_estimate_that_is_given_up_does_not_take_others_along() -> None:
    async with fault_nodes("healthy") as (node,):
        node.delay = 0.1
        estimator = Estimator(OPTIONS)
        await estimator.pool((RpcUrl(node.url),), network())  # loads the engine
        first = asyncio.ensure_future(ask(estimator, network(node.url), transaction(1)))
        second = asyncio.ensure_future(ask(estimator, network(node.url), transaction(2)))
        await asyncio.sleep(0.15)
        first.cancel()
        assert (await second).estimated_fee == "0.00000000000231"
        assert node.calls["eth_feeHistory"] == 1
        await estimator.close()


async def test_the_trace_is_json_and_holds_no_secret() -> None:
    async with fault_nodes("healthy") as (node,):
        with_feed(node)
        estimator, trace = Estimator(OPTIONS, now=lambda: NOW), Trace()
        where = network(node.url, tokens=(token(FeedRate(feed=FEED, max_age=60), margin="1.5"),))
        await ask(estimator, where, transaction(), "USDC", trace=trace)
        text = msgspec.json.encode(trace.steps).decode()
        assert "secret" not in text
        assert [step["step"] for step in trace.steps] == [
            "inputs", "transaction", "policy", "price", "gas", "fee model", "native fee", "rate", "mined later",
            "rounding", "result",
        ]  # fmt: skip
        steps = {step["step"]: step for step in trace.steps}
        assert steps["price"]["block"] == "100"
        assert (steps["rate"]["block"], steps["rate"]["rounds"][0]["round"]) == ("100", "9")
        assert (steps["rate"]["before_margin"], steps["rate"]["conversion_rate"]) == ("2000", "2030")
        await estimator.close()


@given(
    st.one_of(st.text(max_size=60), st.binary(max_size=120).map(lambda raw: "0x" + raw.hex())),
    st.text(max_size=9),
)
@settings(max_examples=100, deadline=None)
def test_no_input_makes_anything_but_an_rpc_failure(raw: str, name: str) -> None:
    async def attempt() -> None:
        estimator = Estimator(OPTIONS)
        params = FeeEstimateParams(fee_token=name, network="local", transaction=raw)
        with pytest.raises(RpcFailure):
            await estimator.estimate(relayer(), network("http://127.0.0.1:1"), params)
        params = FeeEstimateParams(fee_token="ETH", network="local", transaction=raw)
        with pytest.raises(RpcFailure):
            await estimator.estimate(relayer(), network("http://127.0.0.1:1", "not a url"), params)
        await estimator.close()

    asyncio.run(attempt())


async def test_pools_used_longest_ago_make_room_unless_they_may_be_in_use() -> None:
    now = 0.0
    estimator = Estimator(FeeOptions(max_pools=2, deadline=5), monotonic=lambda: now)

    async def pool(number: int) -> int:
        return id(await estimator.pool((RpcUrl(f"http://127.0.0.1:9/{number}"),), network()))

    first, second, third = [await pool(number) for number in (1, 2, 3)]
    assert [await pool(number) for number in (1, 2, 3)] == [first, second, third]
    now = 11.0
    assert await pool(1) == first
    await pool(4)
    assert [urls[0].url[-1] for urls, _ in estimator._caches._caches] == ["1", "4"]
    await estimator.close()
