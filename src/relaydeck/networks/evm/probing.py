"""Asking one URL who it is: its chain id, its newest block, and whether it takes a batch."""

import asyncio
from dataclasses import dataclass
from typing import Any

from relaydeck.networks.evm import quantity
from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.question import Question

CHAIN_ID: Question[int] = Question("eth_chainId", (), quantity.quantity)
BLOCK_NUMBER: Question[int] = Question("eth_blockNumber", (), quantity.quantity)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one URL said of itself. `error` holds our own words, empty when all is well."""

    node: str  # scheme and host
    ok: bool
    chain_id: int | None
    block: int | None
    error: str
    seconds: float
    wait: float | None = None  # how long it asked us to stay away
    answers: bool = True  # there is a node of this chain, even if it will not serve us now


async def examine(client: Client, node: Node, chain_id: int, timeout: float) -> Evidence:  # noqa: ASYNC109
    """Never raises: whatever happened is in the evidence."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    chain = block = wait = None
    error, answers = "", True
    try:
        async with asyncio.timeout(timeout):
            chain, block = await _identify(client, node)
        if chain != chain_id:
            error, answers = f"is on chain id {chain}, not {chain_id}", False
    except TimeoutError:
        error, answers = "timed out", False
    except UrlFailed as failure:
        error, wait, answers = failure.reason, failure.wait, failure.busy
    except NodeError as answer:
        error = f"answered error {answer.code} when asked for its chain id"
    return Evidence(node.shown, not error, chain, block, error, loop.time() - started, wait, answers)


async def _identify(client: Client, node: Node) -> tuple[int, int]:
    """Asked as a batch, which shows whether the node takes one; else one after the other."""
    answers: list[Any]
    try:
        answers = await client.ask_batch(node.url, (CHAIN_ID, BLOCK_NUMBER))
        node.batches = True
    except BatchRefused:
        answers = await _one_by_one(client, node)
    except UrlFailed as failure:
        if failure.busy:
            raise
        answers = await _one_by_one(client, node)
    for answer in answers:
        if isinstance(answer, NodeError):
            raise answer
    return answers[0], answers[1]


async def _one_by_one(client: Client, node: Node) -> list[Any]:
    answers = [await client.ask(node.url, CHAIN_ID), await client.ask(node.url, BLOCK_NUMBER)]
    node.batches = False
    return answers
