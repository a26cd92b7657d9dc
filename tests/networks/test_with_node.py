"""Several questions to one URL, which depend on each other."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from relaydeck.networks.evm.agreement import Subject
from relaydeck.networks.evm.client import Client, OneNode
from relaydeck.networks.evm.node import State
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, CHAIN_ID, Question, read_quantity
from relaydeck.networks.model import RpcUrl
from tests.support.fault_node import CHAIN_ID as CHAIN
from tests.support.fault_node import fault_nodes

ANYTHING: Subject[Any] = Subject("anything")
GAS_PRICE: Question[int] = Question("eth_gasPrice", (), read_quantity)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client(PoolOptions().max_response_bytes)
    yield client
    await client.close()


def pool_of(client: Client, *urls: str) -> NodePool:
    return NodePool([RpcUrl(url) for url in urls], CHAIN, client, PoolOptions(), jitter=random.Random(1))


async def test_all_questions_of_a_conversation_go_to_one_url(client: Client) -> None:
    async def talk(node: OneNode) -> list[int]:
        return [*await node.ask(GAS_PRICE), *await node.ask(CHAIN_ID, BLOCK_NUMBER)]

    async with fault_nodes("healthy", "healthy") as nodes:
        pool = pool_of(client, *(node.url for node in nodes))
        assert (await pool.agree(talk, ANYTHING, key=talk)).value == [110, CHAIN, 100]
        assert sorted(node.calls["eth_gasPrice"] for node in nodes) == [0, 1]
        await pool.close()


async def test_a_failing_url_starts_the_conversation_again_with_the_next(client: Client) -> None:
    started: list[OneNode] = []

    async def talk(node: OneNode) -> int:
        started.append(node)
        (price,) = await node.ask(GAS_PRICE)
        return int(price)

    async with fault_nodes("wrong_type", "healthy") as nodes:
        pool = pool_of(client, *(node.url for node in nodes))
        for _ in range(2):  # the choice alternates
            assert (await pool.agree(talk, ANYTHING, key=talk)).value == 110
        assert len({node.key for node in started}) == 2
        await pool.close()


async def test_the_same_conversation_is_not_blamed_twice(client: Client) -> None:
    """However often one caller repeats what a node fails, the node stays in use for others."""

    async def talk(node: OneNode) -> int:
        (gas,) = await node.ask(Question("eth_estimateGas", ({"from": "0xbad"},), read_quantity))
        return int(gas)

    async with fault_nodes("healthy", "healthy") as nodes:
        nodes[0].poison = "0xbad"
        nodes[0].raw["poison"] = ("500 Oops", b"boom", "")
        pool = pool_of(client, *(node.url for node in nodes))
        for _ in range(12):
            await pool.agree(talk, ANYTHING, key={"from": "0xbad"})
        assert {node.state for node in pool.nodes} == {State.UP}
        await pool.close()
