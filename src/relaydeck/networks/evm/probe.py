"""Probes one URL: its chain id, its newest block, and whether it accepts batches."""

import asyncio
from dataclasses import dataclass
from typing import Any

from relaydeck.errors import described
from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import ErrorKind, NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.header import NEWEST_BLOCK, Header
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.questions import BLOCK_NUMBER, CHAIN_ID


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of a probe. `error` contains our own words and is empty when there is no problem."""

    node: str  # scheme and host
    ok: bool
    chain_id: int | None
    header: Header | None
    error: str
    seconds: float
    wait: float | None = None  # the pause that the node requested
    answers: bool = True  # a node of this chain is there, even if it does not serve us now

    @property
    def block(self) -> int | None:
        return self.header.number if self.header else None


async def probe(client: Client, node: Node, chain_id: int, timeout: float) -> Evidence:  # noqa: ASYNC109
    """Never raises: a failure is part of the evidence."""
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
        error, wait = f"answered error {answer.code} when asked for its chain id", answer.wait
    except Exception as defect:  # ours; without an end of the probe the URL would be probed again at once
        error, answers = f"could not be probed: an unexpected {described(defect)}", False
    return Evidence(node.shown, not error, chain, block, error, loop.time() - started, wait, answers)


async def _identify(client: Client, node: Node) -> tuple[int, Header]:
    """Ask in a batch, which shows whether the node accepts one, or else one question after the other."""
    answers: list[Any]
    try:
        answers = await client.ask_batch(node.url, (CHAIN_ID, NEWEST_BLOCK if node.has_blocks else BLOCK_NUMBER))
        node.batches = True
    except BatchRefused:
        answers = await _one_by_one(client, node)
    except UrlFailed as failure:
        if failure.busy:
            raise
        answers = await _one_by_one(client, node)
    chain, block = answers
    if isinstance(chain, NodeError):
        raise chain
    if isinstance(block, NodeError):  # some gateways return no blocks
        block = await newest_block(client, node)
    return chain, block if isinstance(block, Header) else Header(block)


async def _one_by_one(client: Client, node: Node) -> list[Any]:
    answers = [await client.ask(node.url, CHAIN_ID), await newest_block(client, node)]
    node.batches = False
    return answers


async def newest_block(client: Client, node: Node) -> Header:
    """Its block, or only the number of a node that returns no blocks."""
    if node.has_blocks:
        try:
            return await client.ask(node.url, NEWEST_BLOCK)
        except NodeError as error:
            if error_kind(error) in (ErrorKind.BUSY, ErrorKind.DENIED):
                raise
        node.has_blocks = False
    return Header(await client.ask(node.url, BLOCK_NUMBER))
