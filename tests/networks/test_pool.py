"""The pool against nodes that fail: real HTTP servers on loopback."""

import asyncio
import errno
import os
import random
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import NodeError, NodesUnreachable, UrlFailed, refusal
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import CHAIN_ID as CHAIN_ID_QUESTION
from relaydeck.networks.evm.questions import Question, read_gas, read_quantity
from relaydeck.networks.model import RpcUrl
from tests.support.fault_node import CHAIN_ID, MOODS, FaultNode, fault_nodes
from tests.support.steady_loop import skip

QUICK = PoolOptions(deadline=2.0, try_timeout=0.3, pause_base=1.0, pause_max=8.0, max_response_bytes=100_000)
GAS = Question("eth_estimateGas", ({"to": "0x" + "11" * 20}, "latest"), read_gas)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@asynccontextmanager
async def pool_over(
    nodes: list[FaultNode],
    weights: list[int] | None = None,
    options: PoolOptions = QUICK,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[NodePool]:
    urls = [RpcUrl(node.url, weight) for node, weight in zip(nodes, weights or [1] * len(nodes), strict=True)]
    client = Client(options.max_response_bytes)
    pool = NodePool(urls, CHAIN_ID, client, options, monotonic=clock, jitter=random.Random(7))
    try:
        yield pool
    finally:
        await pool.close()
        await client.close()


async def gas_price(pool: NodePool) -> int:
    return (await pool.ask(Question("eth_gasPrice", (), read_gas))).value


def states(pool: NodePool) -> list[tuple[str, bool, str]]:
    return [(node.shown, node.answers, node.reason) for node in pool.nodes]


async def settle(condition: Callable[[], Any]) -> None:
    """Waits for something the pool does in the background, over real sockets."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_healthy_node_answers() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        answer = await pool.ask(GAS)
        assert (answer.value, answer.node) == (21000, nodes[0].url.removesuffix("/v2/secret-key"))
        assert await gas_price(pool) == 110
        assert nodes[0].calls == {
            "eth_chainId": 1, "eth_getBlockByNumber": 1, "eth_estimateGas": 1, "eth_gasPrice": 1,
        }  # fmt: skip


@pytest.mark.parametrize("mood", [*MOODS, "dead"])
async def test_every_fault_moves_the_call_to_the_healthy_node(mood: str) -> None:
    async with fault_nodes(mood, "healthy") as nodes, pool_over(nodes) as pool:
        assert {(await pool.ask(GAS)).value for _ in range(4)} == {21000}


@pytest.mark.parametrize("mood", [*MOODS, "dead"])
async def test_a_node_that_breaks_later_is_left_too(mood: str) -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes) as pool:
        await asyncio.gather(*(pool.ask(GAS) for _ in range(4)))
        if mood == "dead":
            await nodes[0].stop()
        nodes[0].mood = mood
        assert {(await pool.ask(GAS)).value for _ in range(6)} == {21000}


@pytest.mark.parametrize("mood", [*MOODS, "dead"])
async def test_all_out_fails_quickly_and_shows_hosts_only(mood: str) -> None:
    async with fault_nodes(mood, mood) as nodes, pool_over(nodes) as pool:
        with pytest.raises(NodesUnreachable) as first:
            await pool.ask(GAS)
        loop = asyncio.get_running_loop()
        started = loop.time()  # a clock that leaves stalls out
        with pytest.raises(NodesUnreachable) as second:
            await pool.ask(GAS)
        assert loop.time() - started < QUICK.deadline
        for failure in (first, second):
            assert "secret" not in str(failure.value)
            assert f"http://127.0.0.1:{nodes[0].port} " in str(failure.value)


async def test_no_url_at_all() -> None:
    async with pool_over([]) as pool:
        with pytest.raises(NodesUnreachable, match="no RPC URL is configured"):
            await pool.ask(GAS)


async def test_every_node_is_used_and_a_spare_is_not_even_probed() -> None:
    moods = ["healthy"] * 4
    async with fault_nodes(*moods) as nodes, pool_over(nodes, [5, 3, 2, 0]) as pool:
        for _ in range(100):
            await pool.ask(GAS)
    assert [bool(node.calls["eth_estimateGas"]) for node in nodes[:3]] == [True] * 3
    assert not nodes[3].calls


async def test_a_spare_is_used_only_while_the_others_are_out() -> None:
    clock = Clock()
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0], clock=clock) as pool:
        await pool.ask(GAS)
        nodes[0].mood = "http_500"
        assert (await pool.ask(GAS)).node.endswith(str(nodes[1].port))
        nodes[0].mood = "healthy"
        clock.time += QUICK.pause_max
        await pool.ask(GAS)  # starts the probe
        await settle(lambda: nodes[0].calls["eth_chainId"] >= 2)
        await asyncio.sleep(0.05)
        assert (await pool.ask(GAS)).node.endswith(str(nodes[0].port))


async def test_a_wrong_chain_is_never_used() -> None:
    async with fault_nodes("wrong_chain", "healthy") as nodes, pool_over(nodes, [100, 1]) as pool:
        for _ in range(10):
            await pool.ask(GAS)
        assert nodes[0].calls["eth_estimateGas"] == 0
        assert nodes[0].calls["eth_chainId"] == 1


async def test_pauses_grow_and_one_probe_is_sent_at_a_time() -> None:
    clock = Clock()
    async with fault_nodes("http_500", "healthy") as nodes, pool_over(nodes, clock=clock) as pool:
        probes = []
        for _ in range(60):  # a second of the fake clock each
            await asyncio.gather(*(pool.ask(GAS) for _ in range(5)))
            await asyncio.sleep(0.01)
            probes.append(nodes[0].calls["eth_chainId"])
            clock.time += 1
        seconds = [i for i in range(1, 60) if probes[i] != probes[i - 1]]
        gaps = [later - earlier for earlier, later in pairwise(seconds)]
        assert gaps[0] < gaps[2]
        assert max(gaps) <= QUICK.pause_max
        assert min(gaps[3:]) >= QUICK.pause_max / 2  # jittered between a half and the whole
        assert max(probes[i] - probes[i - 1] for i in range(1, 60)) <= 2  # as a batch and then singly


async def test_a_healed_node_is_back_within_one_probe_interval() -> None:
    clock = Clock()
    async with fault_nodes("http_500", "healthy") as nodes, pool_over(nodes, clock=clock) as pool:
        for _ in range(20):
            await pool.ask(GAS)
            await asyncio.sleep(0.005)
            clock.time += 5
        nodes[0].mood = "healthy"
        clock.time += QUICK.pause_max
        await pool.ask(GAS)
        await asyncio.sleep(0.1)
        served = {(await pool.ask(GAS)).node for _ in range(4)}
        assert len(served) == 2


async def test_calls_in_flight_move_when_the_first_one_fails() -> None:
    options = replace(QUICK, deadline=1000, try_timeout=300)  # far longer than the test
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, options=options) as pool:
        await asyncio.gather(*(pool.ask(GAS) for _ in range(4)))
        nodes[0].mood = "hangs"
        early = [asyncio.ensure_future(pool.ask(GAS)) for _ in range(100)]
        await settle(lambda: sum(call.done() for call in early) >= 50)
        nodes[0].mood = "closes"  # what arrives now fails at once, and takes the hanging ones along
        late = [asyncio.ensure_future(pool.ask(GAS)) for _ in range(50)]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*early, *late)
        assert {answer.value for answer in answers} == {21000}


async def test_a_silent_node_costs_one_deadline_not_one_per_call() -> None:
    patient = replace(QUICK, deadline=1000, try_timeout=300)  # far longer than a busy machine needs
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, options=patient) as pool:
        await asyncio.gather(*(pool.ask(GAS) for _ in range(4)))
        nodes[0].mood = "hangs"
        before = nodes[0].calls["eth_estimateGas"]
        calls = [asyncio.ensure_future(pool.ask(GAS)) for _ in range(500)]
        await settle(lambda: sum(call.done() for call in calls) >= 250)
        skip(301)
        await asyncio.gather(*calls)
        for _ in range(10):
            await pool.ask(GAS)
        # The first wave fills its connections; nothing is sent there once the first of them gave up.
        assert nodes[0].calls["eth_estimateGas"] - before == QUICK.connections_per_url


async def test_a_node_that_answers_others_is_not_set_aside_for_one_slow_question() -> None:
    heavy = Question("eth_heavy", (), read_quantity)
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        nodes[0].answers["eth_heavy"] = "0x1"
        nodes[0].delay, nodes[0].slow_method = QUICK.deadline * 2, "eth_heavy"
        slow = asyncio.ensure_future(pool.ask(heavy))
        while not slow.done():
            assert (await pool.ask(GAS)).value == 21000
            await asyncio.sleep(0.02)
        assert isinstance(slow.exception(), NodesUnreachable)
        assert nodes[0].calls["eth_chainId"] == 1  # no probe, so it was never out


async def test_a_single_slow_question_does_not_cost_a_pool_its_only_node() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        await pool.ask(GAS)
        nodes[0].mood = "hangs"
        slow = asyncio.ensure_future(pool.ask(GAS))
        await asyncio.sleep(0.1)
        nodes[0].mood = "healthy"
        with pytest.raises(NodesUnreachable):
            await slow
        assert (await pool.ask(GAS)).value == 21000


@pytest.mark.parametrize("weights", [[100, 1], [1, 100]])
async def test_a_slow_healthy_node_is_asked_again_when_the_others_are_no_better(weights: list[int]) -> None:
    """Whichever comes first, a call uses its whole deadline before it gives up on a node that is there."""
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, weights) as pool:
        await pool.ask(GAS)
        await settle(lambda: all(node.calls["eth_chainId"] for node in nodes))
        await asyncio.sleep(0.05)
        nodes[0].mood = "hangs"
        nodes[1].delay, nodes[1].slow_method = QUICK.try_timeout * 2, "eth_estimateGas"
        assert (await pool.ask(GAS)).value == 21000
        assert nodes[1].calls["eth_estimateGas"] <= 3  # one of them from before


async def test_a_question_is_asked_at_most_twice_of_one_node() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        await pool.ask(GAS)
        nodes[0].mood = "wrong_type"
        with pytest.raises(NodesUnreachable):
            await pool.ask(GAS)
        assert nodes[0].calls["eth_estimateGas"] == 3


async def test_too_much_is_not_read_to_its_end() -> None:
    async with fault_nodes("huge") as nodes, pool_over(nodes) as pool:
        with pytest.raises(NodesUnreachable, match="answered more than 100000 bytes"):
            await pool.ask(GAS)


async def test_pauses_are_spread_by_chance() -> None:
    async with fault_nodes(*["http_500"] * 8) as nodes, pool_over(nodes, clock=Clock()) as pool:
        with pytest.raises(NodesUnreachable):
            await pool.ask(GAS)
        await settle(lambda: all(node.resume_at for node in pool.nodes))
        pauses = {node.resume_at - Clock().time for node in pool.nodes}
    assert len(pauses) == 8
    assert QUICK.pause_base / 2 <= min(pauses) <= max(pauses) <= QUICK.pause_base


async def test_a_nodes_answer_is_not_a_failure_of_the_url() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes) as pool:
        for node in nodes:
            node.answers["eth_estimateGas"] = {"code": 3, "message": "execution reverted", "data": "0x"}
        for _ in range(4):
            with pytest.raises(NodeError):
                await pool.ask(GAS)
        assert await gas_price(pool) == 110
        assert [node.calls["eth_estimateGas"] for node in nodes] == [4, 4]  # each confirmed by the other, not retried


async def test_an_internal_error_is_asked_elsewhere_and_the_url_kept() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0]) as pool:
        nodes[0].answers["eth_estimateGas"] = {"code": -32603, "message": "internal error"}
        assert (await pool.ask(GAS)).node.endswith(str(nodes[1].port))
        assert await gas_price(pool) == 110
        assert nodes[0].calls["eth_gasPrice"] == 1


async def test_a_node_cannot_make_us_show_the_key_it_was_asked_with() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        nodes[0].answers["eth_estimateGas"] = {
            "code": -32000,
            "message": f"secret-key bad, see {nodes[0].url}",
        }
        with pytest.raises(NodeError) as failure:
            await pool.ask(GAS)
        assert str(failure.value) == refusal(failure.value) == "error -32000"


async def test_questions_together_are_one_batch_or_several_requests() -> None:
    questions = [
        GAS,
        Question("eth_gasPrice", (), read_quantity),
        Question("eth_nope", (), read_quantity),
    ]
    refusing = ("no_batch", "no_batch_list", "no_batch_403", "no_batch_500")
    for mood, requests in (("healthy", 2), *((mood, 6) for mood in refusing)):
        async with fault_nodes(mood) as nodes, pool_over(nodes) as pool:
            gas, price, error = (await pool.ask_any(questions)).value
            assert (gas, price) == (21000, 110)
            assert isinstance(error, NodeError)
            assert nodes[0].requests == requests


async def test_connections_are_kept_and_bounded() -> None:
    options = replace(QUICK, connections_per_url=8)
    async with fault_nodes("healthy") as nodes, pool_over(nodes, options=options) as pool:
        most = 0
        nodes[0].delay = 0.002
        asking = [asyncio.ensure_future(pool.ask(GAS)) for _ in range(200)]
        while not all(task.done() for task in asking):
            most = max(most, len(nodes[0]._writers))
            await asyncio.sleep(0.001)
        assert most <= 8


async def test_each_url_can_be_examined() -> None:
    async with fault_nodes("healthy", "wrong_chain", "hangs", "dead") as nodes, pool_over(nodes) as pool:
        found = await pool.probe_each()
    assert [(one.ok, one.chain_id, one.error) for one in found] == [
        (True, CHAIN_ID, ""),
        (False, 1, f"is on chain id 1, not {CHAIN_ID}"),
        (False, None, "timed out"),
        (False, None, "refused the connection"),
    ]
    assert "secret" not in str([one.node for one in found])


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("seed", range(12))
async def test_flapping_nodes_in_every_mix(seed: int) -> None:
    """Moods change all the time, one node stays healthy: every call is answered where one node decides."""
    dice = random.Random(seed)
    # A long deadline: it is the moving on that is proven here, and a busy machine is slow to move.
    restless = replace(QUICK, deadline=20.0, try_timeout=0.4, pause_base=0.01, pause_max=0.03)
    weights = [dice.randint(1, 5) for _ in range(4)]
    moods = ["healthy"] * 4
    async with fault_nodes(*moods) as nodes, pool_over(nodes, weights, restless) as pool:
        pool.rules = replace(pool.rules, quorum=1)
        for _ in range(30):
            for node in nodes[1:]:
                node.mood = dice.choice(["healthy", *MOODS])
            answers = await asyncio.gather(*(pool.ask(GAS) for _ in range(20)))
            assert {answer.value for answer in answers} == {21000}


async def failed(pool: NodePool) -> None:
    with pytest.raises(NodesUnreachable):
        await pool.ask(GAS)


async def test_who_asks_seldom_may_have_a_url_that_is_gone_looked_at_again() -> None:
    clock = Clock()
    async with fault_nodes("http_500") as nodes, pool_over(nodes, clock=clock) as pool:
        await failed(pool)
        nodes[0].mood = "healthy"
        asked = nodes[0].requests
        pool.probe_unreachable(5)  # looked at just now
        await failed(pool)
        assert nodes[0].requests == asked
        pool.probe_unreachable(0)
        assert (await pool.ask(GAS)).value == 21000


async def test_a_url_that_asked_us_to_stay_away_is_not_looked_at_again() -> None:
    clock = Clock()
    async with fault_nodes("http_429") as nodes, pool_over(nodes, clock=clock) as pool:
        await failed(pool)
        asked = nodes[0].requests
        pool.probe_unreachable(0)
        await failed(pool)
        assert nodes[0].requests == asked
        assert states(pool) == [(f"http://127.0.0.1:{nodes[0].port}", True, "answered HTTP 429")]


@pytest.mark.parametrize(
    ("mood", "answers", "problem"),
    [
        ("healthy", True, ""),
        ("dead", False, "refused the connection"),
        ("hangs", False, "timed out"),
        ("wrong_chain", False, "is on chain id 1, not 31337"),
        ("limit_exceeded", True, "answered error -32005 when asked for its chain id"),
    ],
)
async def test_what_was_seen_of_a_url(mood: str, answers: bool, problem: str) -> None:
    async with fault_nodes(mood) as nodes, pool_over(nodes) as pool:
        assert states(pool) == [(f"http://127.0.0.1:{nodes[0].port}", True, "not asked yet")]
        if mood == "healthy":
            await pool.ask(GAS)
        else:
            await failed(pool)
        assert states(pool) == [(f"http://127.0.0.1:{nodes[0].port}", answers, problem)]


async def test_a_node_is_not_blamed_when_too_many_names_are_being_resolved() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise OSError(errno.ENOBUFS, "too many names are being resolved")

    client = Client(1000, resolve=resolve)
    with pytest.raises(UrlFailed) as failure:
        await client.ask(RpcUrl("http://node.example"), GAS)
    await client.close()
    assert (failure.value.busy, failure.value.silent) == (True, False)


async def test_a_node_is_not_blamed_when_we_have_no_socket_left() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(first_free := os.dup(2))
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
        try:
            await failed(pool)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        shown = f"http://127.0.0.1:{nodes[0].port}"
        assert states(pool) == [
            (shown, True, "was not asked: this machine has no socket or lookup of names left for it")
        ]


async def test_a_closed_pool_asks_nothing_any_more() -> None:
    clock, client = Clock(), Client(QUICK.max_response_bytes)
    async with fault_nodes("healthy") as (node,):
        pool = NodePool([RpcUrl(node.url)], CHAIN_ID, client, QUICK, monotonic=clock)
        await pool.ask(GAS)
        node.mood, asked = "hangs", node.requests
        late = asyncio.create_task(pool.ask(GAS))
        while node.requests == asked:
            await asyncio.sleep(0)
        await pool.close()
        clock.time += 1000  # a comparison of newest blocks is due
        asked = node.requests
        late.cancel()
        await asyncio.wait([late])
        node.mood = "healthy"
        await client.ask(RpcUrl(node.url), CHAIN_ID_QUESTION)
        assert (late.cancelled(), node.requests) == (True, asked + 1)
        await client.close()
