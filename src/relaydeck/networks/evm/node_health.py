"""Keeps the nodes of a pool in order: probes them, sets them aside, and lowers the rank of those that are outvoted.
The states of a node are drawn in `node.py`.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relaydeck.errors import described
from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import ErrorKind, NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.header import NEWEST_BLOCK, Header
from relaydeck.networks.evm.node import Node, State
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.questions import BLOCK_NUMBER, CHAIN_ID
from relaydeck.process.background import TaskSet

_FIRST_LOOK = 1.0  # seconds that the first question waits for slow nodes, so that it knows which are behind
_OUTVOTED_WEIGHT = 0.5  # of one wrong answer in the rank of a node: two in a row leave it a sixteenth of its share

# -- Probes one URL: its chain id, its newest block, and whether it accepts batches --


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


# -- What follows from a probe, and from failures --


class NodeHealth:
    def __init__(
        self,
        nodes: Sequence[Node],
        chain_id: int,
        client: Client,
        options: PoolOptions,
        monotonic: Callable[[], float],
        jitter: random.Random,
    ) -> None:
        self.nodes = nodes
        self._chain_id = chain_id
        self._client = client
        self._options = options
        self._monotonic = monotonic
        self._jitter = jitter
        self._tasks = TaskSet()
        self._introduction: asyncio.Task[None] | None = None
        self.is_introduced = False

    async def introduce(self) -> None:
        """Before the first question: probe every node, and wait a moment for the slow ones.

        Otherwise the node that answers first would serve the first questions, however far it is behind.
        """
        if self.is_introduced:
            return
        if self._introduction is None:
            self._introduction = self._tasks.start(self._introduce())
        await asyncio.shield(self._introduction)

    async def _introduce(self) -> None:
        for node in self.nodes:
            if node.state is State.NEW and node.probe is None and not node.spare:
                self.start_probe(node)
        probes = [node.probe for node in self.nodes if node.probe is not None]
        if probes:
            await asyncio.wait(probes, timeout=_FIRST_LOOK)
        self.is_introduced = True

    def doubt(self, node: Node, failure: UrlFailed) -> None:
        """The question may be the cause of a failure, so a probe decides, unless the node itself asks for a pause."""
        node.latency.add_error()
        node.note_fault(failure.reason)
        if node.state is not State.UP:
            return
        node.reason = failure.reason
        if failure.busy:
            node.failures += 1
            self._set_aside(node, answers=True, pause=self._pause(node, failure.wait))
        elif failure.silent:
            self._set_aside(node, answers=False, pause=0.0)
            self.start_probe(node)
        elif node.probe is None and self._monotonic() - node.doubted_at >= self._options.pause_base:
            node.doubted_at = self._monotonic()
            self.start_probe(node)

    def outvote(self, node: Node, reason: str) -> None:
        """Most nodes answered differently. It is asked less often; a probe would show nothing."""
        node.outvoted += 1
        node.latency.add_error(_OUTVOTED_WEIGHT)
        node.note_fault(reason)

    def blame(self, failed: dict[Node, UrlFailed], question: object) -> None:
        """Another URL answered what these failed. Two different questions in a row are no accident."""
        for node, failure in failed.items():
            if failure.busy or node.failed_question == question:
                continue
            node.failed_question = question
            node.failures += 1
            if node.failures > 1:
                self._set_aside(node, answers=node.answers, pause=self._pause(node))

    def _set_aside(self, node: Node, *, answers: bool, pause: float) -> None:
        node.resume_at = self._monotonic() + pause
        node.answers = answers
        if node.state is not State.UP:
            return
        node.state = State.OUT
        node.lag = None
        node.epoch += 1
        if any(other.state is not State.OUT for other in self.nodes):
            node.release_calls()

    def _pause(self, node: Node, wanted: float | None = None) -> float:
        grown = self._options.pause_base * (1 << min(node.failures - 1, 20))
        pause = min(self._options.pause_max, grown) * self._jitter.uniform(0.5, 1.0)
        return max(pause, min(wanted or 0.0, self._options.longest_wait))

    def probe_where_due(self, nodes: Sequence[Node]) -> None:
        now = self._monotonic()
        for node in nodes:
            if node.needs_probe(now):
                self.start_probe(node)

    def start_probe(self, node: Node) -> None:
        node.probe = self._tasks.start(self._probe(node))

    async def _probe(self, node: Node) -> None:
        try:
            evidence = await probe(self._client, node, self._chain_id, self._options.try_timeout)
        finally:
            node.probe = None
        node.probed_at = self._monotonic()
        if not evidence.ok:
            self._probe_failed(node, evidence)
            return
        self._probe_succeeded(node, evidence)

    def _probe_succeeded(self, node: Node, evidence: Evidence) -> None:
        node.header = evidence.header
        node.latency.add(NEWEST_BLOCK.method, evidence.seconds)
        node.answers = True
        if node.probed_at < node.resume_at:  # it was blamed during the probe
            return
        node.state = State.UP
        node.reason = ""

    def _probe_failed(self, node: Node, evidence: Evidence) -> None:
        node.reason = evidence.error
        node.note_fault(evidence.error)
        node.failures += 1
        wrong_chain = evidence.chain_id is not None
        wait = self._options.pause_max if wrong_chain else evidence.wait
        self._set_aside(node, answers=evidence.answers, pause=self._pause(node, wait))
        node.state = State.OUT

    def probe_unreachable(self, seconds: float) -> None:
        """Let the next question wait for a new probe of every unreachable URL not probed in the last `seconds`."""
        now = self._monotonic()
        for node in self.nodes:
            if node.state is State.OUT and not node.answers and now - node.probed_at >= seconds:
                node.resume_at = now

    async def probe_each(self) -> list[Evidence]:
        """Probe every URL once, now, without changing its state."""
        timeout = self._options.try_timeout
        probes = (probe(self._client, node, self._chain_id, timeout) for node in self.nodes)
        return list(await asyncio.gather(*probes))

    async def close(self) -> None:
        await self._tasks.cancel()
