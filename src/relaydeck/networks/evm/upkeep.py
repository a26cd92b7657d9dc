"""Keeps the nodes of a pool in order: probes them, sets them aside, and compares their newest blocks.

NEW ──probe──> UP ──failure──> OUT ──probe, when its pause is over──> UP
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from relaydeck.background import TaskSet
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.figures import Figures
from relaydeck.networks.evm.heads import compare_heads
from relaydeck.networks.evm.landmark import NEWEST_BLOCK
from relaydeck.networks.evm.node import Node, State
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.probe import Evidence, newest_block, probe
from relaydeck.networks.evm.view import ChainView

_SHORTEST_INTERVAL = 1.0  # seconds between two comparisons of newest blocks


class Upkeep:
    def __init__(
        self,
        nodes: Sequence[Node],
        chain_id: int,
        client: Client,
        options: PoolOptions,
        view: ChainView,
        monotonic: Callable[[], float],
        jitter: random.Random,
    ) -> None:
        self.nodes = nodes
        self.head = 0  # the newest block number in any answer
        self._chain_id = chain_id
        self._client = client
        self._options = options
        self._view = view
        self._monotonic = monotonic
        self._jitter = jitter
        self._tasks = TaskSet()
        self._introduction: asyncio.Task[None] | None = None
        self.is_introduced = False
        self._round: asyncio.Task[None] | None = None
        self._round_at = 0.0
        self._is_closed = False

    @property
    def fresh(self) -> list[Node]:
        """The nodes that are usable and not behind. Spare ones only when there is no other."""
        usable = [node for node in self.nodes if node.state is State.UP and not node.stale]
        return [node for node in usable if not node.spare] or usable

    def problem_with(self, node: Node, figures: Figures) -> str:
        """Why an answer with these figures is not used; empty when nothing speaks against it."""
        return self._view.problem(figures, node, self.fresh)

    # -- newest blocks ----------------------------------------------------------------------------

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
            await asyncio.wait(probes, timeout=self._options.first_look)
        self._compare([node for node in self.nodes if node.state is State.UP])
        self.is_introduced = True

    def watch_heads(self) -> None:
        """Start a comparison when the last one is too old. Called after every question: no caller waits for it."""
        if self._is_closed:
            return
        interval = _SHORTEST_INTERVAL if self._view.is_outdated else self._options.head_interval
        if self._round is None and self._monotonic() - self._round_at >= interval:
            self._round = self._tasks.start(self._read_heads())

    async def _read_heads(self) -> None:
        try:
            nodes = [node for node in self.nodes if node.state is State.UP]
            answered = await asyncio.gather(*map(self._read_head, nodes))
            read = [node for node, has_answered in zip(nodes, answered, strict=True) if has_answered]
            self._compare([node for node in read if node.state is State.UP])  # one may have been set aside meanwhile
        finally:
            self._round = None

    async def _read_head(self, node: Node) -> bool:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self._options.try_timeout):
                landmark = await newest_block(self._client, node)
        except TimeoutError:
            if node.answered_at < started:
                self.doubt(node, UrlFailed("timed out", silent=True))
            return False
        except UrlFailed as failure:
            self.doubt(node, failure)
            return False
        except NodeError:  # it may be over its limits, or have no blocks yet: other questions will show it
            return False
        node.pace.add(NEWEST_BLOCK.method, loop.time() - started)
        node.note_block(landmark)
        self.seen_block(landmark.number)
        return True

    def _compare(self, nodes: list[Node]) -> None:
        self._round_at = self._monotonic()
        self._view.agree_on(compare_heads(nodes, self._view.rules.max_lag_blocks))

    def seen_block(self, number: int) -> None:
        newest = self._view.newest
        # A number far ahead of what the nodes agree on would age every shared value for good.
        if newest is None or number <= newest.number + 1000:
            self.head = max(self.head, number)

    # -- set aside and probed back ----------------------------------------------------------------

    def doubt(self, node: Node, failure: UrlFailed) -> None:
        """The question may be the cause of a failure, so a probe decides, unless the node itself asks for a pause."""
        node.pace.add_error()
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
        if evidence.landmark is not None:
            node.note_block(evidence.landmark)
            self.seen_block(evidence.landmark.number)
        node.pace.add(NEWEST_BLOCK.method, evidence.seconds)
        node.answers = True
        if node.probed_at < node.resume_at:  # it was blamed during the probe
            return
        if node.state is not State.UP:
            self._round_at = 0.0  # compare it with the others at the next question
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
        self._is_closed = True
        await self._tasks.cancel()
