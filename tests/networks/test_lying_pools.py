"""Pools with nodes that lie, each beside honest ones: no estimate is wrong, and none fails where most nodes are honest.

What is wrong is more than 2 % from what an honest node leads to at the same block. Where there is no honest majority,
the estimate fails and names the disagreement.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
import rlp
from msgspec.structs import replace

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.models import op_stack
from relaydeck.networks.model import FeedRate, Network
from tests.fees.test_predeploys import place
from tests.networks.lying_proxy import SECRETS, LyingProxy
from tests.node.process import running_anvil
from tests.support.fee_chain import HARDHAT_KEY, Chain, call_data
from tests.support.fee_scene import ask, network, token
from tests.support.lengths import times

OPTIONS = FeeOptions(deadline=60.0, try_timeout=20.0, cache_age=0.0)
TWO_HOURS = 7200
STUCK = "stuck for two hours"
TIP = 2 * 10**10
MANY = times(40, short=25, setting="LYING_POOL_ESTIMATES")  # with 300 it takes minutes


class Scene(NamedTuple):
    """A chain with a token, a feed and a fee oracle, and the same chain as it was two hours ago."""

    chain: Chain
    stuck: Chain
    token: str
    feed: str


@pytest.fixture(scope="module", params=[31337, 1], ids=["rule not known", "rule known"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A chain with blocks on demand. On the second one Relaydeck computes the base fee, and knows the block time."""
    identity = ("--chain-id", str(request.param), "--block-base-fee-per-gas", "1000000000")
    past = str(int(time.time()) - TWO_HOURS)
    with (
        running_anvil(*identity) as url,
        running_anvil(*identity, "--timestamp", past) as old,
        closing(Chain(url, HARDHAT_KEY)) as chain,
        closing(Chain(old, HARDHAT_KEY)) as stuck,
    ):
        coin, feed = chain.deploy("token", 6), chain.deploy("aggregator", 8)
        chain.call(feed, "set_round(uint80,int256,uint256,uint80)", 9, 2000 * 10**8, int(time.time()), 9)
        place(chain, op_stack.ORACLE, "bound_oracle")
        yield Scene(chain, stuck, coin, feed)


class Wanted(NamedTuple):
    """What is estimated."""

    raw: str
    fee_token: str
    where: dict[str, Any]


def wanted(scene: Scene, subject: str, to: str) -> Wanted:
    data = call_data("transfer(address,uint256)", to, 1)
    if subject == "unsigned":
        to_token, call = bytes.fromhex(scene.token[2:]), bytes.fromhex(data[2:])
        fields = [scene.chain.chain_id, 0, 1, 2, 300_000, to_token, 0, call, []]
        return Wanted("0x02" + rlp.encode(fields).hex(), "ETH", {})
    fees = {"maxFeePerGas": 10**13, "maxPriorityFeePerGas": TIP}
    raw = scene.chain.sign({"to": scene.token, "data": data, "gas": 300_000, **fees})
    if subject == "token":
        coin = token(FeedRate(feed=scene.feed, max_age=360_000), address=scene.token)
        return Wanted(raw, "USDC", {"fee_tokens": (coin,)})
    return Wanted(raw, "ETH", {"fee_model": "op_stack"} if subject == "op_stack" else {})


def move_on(scene: Scene, to: str) -> None:
    """A block after which the account holds tokens: to send it more costs less than as of the block before."""
    data = call_data("transfer(address,uint256)", to, 1)
    scene.chain.send({"to": scene.token, "data": data, "maxFeePerGas": 10**13, "maxPriorityFeePerGas": TIP})
    newest = scene.chain.rpc("eth_blockNumber")
    while scene.chain.rpc("eth_feeHistory", "0x1", "latest", [50])["oldestBlock"] != newest:
        pass  # anvil adds a block to its history a moment later


@asynccontextmanager
async def pool(scene: Scene, lies: tuple[str, ...], honest: int, quorum: int | None) -> AsyncIterator[Network]:
    async with AsyncExitStack() as stack:
        urls = []
        for lie in (*lies, *[""] * honest):
            node = scene.stuck if lie == STUCK else scene.chain
            proxy = LyingProxy(node.url, "" if lie == STUCK else lie, behind=1)
            urls.append((await stack.enter_async_context(proxy)).url)
        where = network(*urls, chain_id=scene.chain.chain_id)
        yield where if quorum is None else replace(where, quorum=quorum)


async def outcomes(scene: Scene, case: "Case", count: int) -> tuple[Counter[str], set[str]]:
    """How many estimates were right, wrong or failed, and the descriptions of the failures."""
    found: Counter[str] = Counter()
    problems: set[str] = set()
    await asyncio.to_thread(scene.chain.rpc, "anvil_setNextBlockBaseFeePerGas", hex(10**11))
    await asyncio.to_thread(scene.chain.rpc, "anvil_mine", "0x1")
    estimator = Estimator(OPTIONS)
    async with pool(scene, case.lies, case.honest, case.quorum) as where:
        for number in range(count):
            if number % 10 == 0:
                to = f"0x{random.getrandbits(160):040x}"
                await asyncio.to_thread(move_on, scene, to)
                asked = await asyncio.to_thread(wanted, scene, case.subject, to)
                truth = await true_fee(scene, asked)
            try:
                found[await judged(estimator, where, asked, truth)] += 1
            except RpcFailure as failure:
                found["failed"] += 1
                problems.add(f"{failure.message}: {failure.description}")
    await estimator.close()
    return found, problems


async def judged(estimator: Estimator, where: Network, asked: Wanted, truth: Decimal) -> str:
    estimate = await ask(estimator, replace(where, **asked.where), asked.raw, asked.fee_token)
    return "right" if abs(Decimal(estimate.estimated_fee) - truth) <= truth / 50 else "wrong"


async def true_fee(scene: Scene, asked: Wanted) -> Decimal:
    estimator, where = Estimator(OPTIONS), network(scene.chain.url, chain_id=scene.chain.chain_id)
    estimate = await ask(estimator, replace(where, **asked.where), asked.raw, asked.fee_token)
    await estimator.close()
    return Decimal(estimate.estimated_fee)


class Case(NamedTuple):
    lies: tuple[str, ...]
    honest: int
    quorum: int | None = None  # None: the default
    subject: str = "signed"


MAJORITY = [
    Case(("base_fee_10",), 2, 1),
    Case(("base_fee_10",), 2, 2),
    Case(("base_fee_10",), 2, 3, "unsigned"),
    Case(("base_fee_10_sealed",), 2),
    Case(("base_fee_24",), 4, 3),
    Case(("tips_20",), 2, 2, "unsigned"),
    Case(("old_state",), 2, 2),
    Case(("old_state",), 4, 4),
    Case(("gas_30",), 2, 2),
    Case(("gas_30",), 4, 4),
    Case(("gas_20M",), 2),
    Case(("gas_20M",), 1, 1, "unsigned"),  # against arithmetic: one honest node is enough
    Case(("feed_2",), 2, 2, "token"),
    Case(("l1_fee_0",), 2, 2, "op_stack"),
    Case(("false_revert",), 2, 2),
    Case(("false_revert",), 2, 1),
    Case(("false_nonce",), 2, 2),
    Case(("false_nonce",), 2, 1),
    Case(("secret_text",), 1),
    Case(("secret_text",), 2),
]
MINORITY = [
    Case(("base_fee_10_sealed",), 1, 2),
    Case(("tips_20",), 1, 2, "unsigned"),
    Case(("tips_20",), 1, 1, "unsigned"),
    Case(("old_state",), 1, 2),
    Case(("gas_30",), 1, 2),
    Case(("gas_30", "old_state"), 1, 2),
    Case(("feed_2",), 1, 2, "token"),
    Case(("l1_fee_0",), 1, 2, "op_stack"),
    Case(("false_revert",), 1),
    Case(("false_nonce",), 1),
]


@pytest.mark.parametrize("case", MAJORITY, ids=str)
async def test_with_an_honest_majority_no_estimate_is_wrong_or_fails(scene: Scene, case: Case) -> None:
    assert await outcomes(scene, case, 20) == (Counter(right=20), set())


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("case", MAJORITY, ids=str)
async def test_none_of_many_is_wrong_or_fails_with_an_honest_majority(scene: Scene, case: Case) -> None:
    assert await outcomes(scene, case, MANY) == (Counter(right=MANY), set())


@pytest.mark.parametrize("case", MINORITY, ids=str)
async def test_without_an_honest_majority_no_estimate_is_wrong(scene: Scene, case: Case) -> None:
    found, problems = await outcomes(scene, case, 20)
    assert found["wrong"] == 0
    assert found["failed"] > 0
    for problem in problems:
        assert problem.startswith("Nodes disagree: ")
        assert problem.count("http://127.0.0.1:") >= 2


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("case", MINORITY, ids=str)
async def test_none_of_many_is_wrong_without_an_honest_majority(scene: Scene, case: Case) -> None:
    assert (await outcomes(scene, case, MANY))[0]["wrong"] == 0


@pytest.mark.parametrize("scene", [1], ids=["rule known"], indirect=True)  # without a block time no block is too old
@pytest.mark.parametrize("honest", [0, 1])
async def test_nodes_that_are_stuck_have_no_current_block(scene: Scene, honest: int) -> None:
    found, problems = await outcomes(scene, Case((STUCK, STUCK), honest, 2), 20)
    assert found == Counter(failed=20)
    for problem in problems:
        assert "has no current block: its newest is 7" in problem


async def test_no_text_of_a_node_reaches_the_caller(scene: Scene) -> None:
    found, problems = await outcomes(scene, Case(("secret_text",), 0), 3)
    assert found == Counter(failed=3)
    assert problems == {"Node refused: error -32000"}
    assert not any(secret in problem for secret in SECRETS for problem in problems)


async def test_with_one_node_the_steps_say_what_cannot_be_verified(scene: Scene) -> None:
    estimator, trace = Estimator(OPTIONS), Trace()
    where = network(scene.chain.url, chain_id=scene.chain.chain_id)
    await ask(estimator, where, wanted(scene, "unsigned", "0x" + "88" * 20).raw, trace=trace)
    await estimator.close()
    (price,) = (step for step in trace.steps if step["step"] == "price")
    assert price["not_verified"] == "there is one node: nothing confirms its newest block, gas, tips and rates"
    assert price["block_hash_fits"] is True
    known = scene.chain.chain_id == 1
    assert price["base_fee_from"] == ("the chain's rule, from the newest block" if known else "the nodes")
    assert ("age_not_verified" in price) is not known
