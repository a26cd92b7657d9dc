"""The gas of one transaction, measured on a node in the best way that the node offers.

`eth_simulateV1` runs the transaction in the next block at its price and returns the gas it uses. A node without it is
asked with `eth_estimateGas`, which returns the least limit with which the transaction succeeds. Either way the sender
has funds: an estimate is about the fee, not about the balance.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from msgspec.structs import replace

from relaydeck.networks.evm.errors import AnswerTooLarge, ErrorKind, NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_bytes, read_gas, read_quantity
from relaydeck.networks.evm.sender import OneNode

_FUNDS = hex(1 << 128)  # more than any transaction moves, and far from an overflow
_UNKNOWN_METHOD, _INVALID_PARAMS, _FAILED = -32601, -32602, 3
_NOT_OFFERED = re.compile(
    r"not (?:found|supported|available|exist|allowed|implemented|whitelisted)|unsupported|unknown method",
    re.IGNORECASE,
)


class Run(msgspec.Struct, frozen=True):
    """One transaction to measure."""

    call: dict[str, Any]  # what it does
    prices: dict[str, str]  # the price fields it runs with
    base_fee: int | None = None  # of the next block; None: the chain has none, or it is not known
    block: int = 0  # the newest, as of the price
    own_limit: int = 0  # 0: it has none
    is_signed: bool = False
    simulated: bool = True  # whether the chain charges the gas that a simulation reports
    wants_limit: bool = False  # ask for the limit it needs even if a simulation does not need to know
    beside: Sequence[Question[Any]] = ()  # asked of the same node in the same request
    at: str = "latest"  # the block after which it runs

    @property
    def pending(self) -> str:
        return "pending" if self.at == "latest" else self.at

    def priced(self, **more: str) -> dict[str, Any]:
        return {**self.call, **self.prices, **more}

    @property
    def override(self) -> dict[str, Any]:
        return {self.call["from"]: {"balance": _FUNDS}}


class Gas(msgspec.Struct, frozen=True):
    used: int
    method: str
    limit: int | None  # the limit that it needs, where known
    asked: dict[str, Any]
    beside: list[Any] = []  # the answers, some of which may be a `NodeError`
    node: str = ""


@dataclass(frozen=True, slots=True)
class Simulated:
    used: int
    failure: NodeError | None
    block: int  # in which it ran


# How `eth_estimateGas` is asked, the best first: nodes differ in what they accept.
def _with_funds(run: Run) -> tuple[Any, ...]:
    return (run.priced(), run.pending, run.override)


def _pending(run: Run) -> tuple[Any, ...]:
    return (run.priced(), run.pending)


def _latest(run: Run) -> tuple[Any, ...]:
    return (run.priced(), run.at)


def _without_price(run: Run) -> tuple[Any, ...]:
    return (run.call, run.at)


_FORMS = (_with_funds, _pending, _latest, _without_price)


class GasMeter:
    """Measures gas on one chain, and remembers which way each node offers."""

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._without_simulation: WeakSet[Node] = WeakSet()
        self._in_last_block: WeakSet[Node] = WeakSet()  # they simulate there, unless they are given the next number
        self._forms: WeakKeyDictionary[Node, int] = WeakKeyDictionary()  # the first form that the node accepts

    async def measure(self, run: Run, deadline: float) -> Gas:
        """Raises `NodeError` when the transaction fails or the node refuses it."""
        answer = await self._pool.converse(lambda node: self._measured(node, run), deadline)
        found = answer.value
        return Gas(found.used, found.method, found.limit, found.asked, found.beside, answer.node)

    async def _measured(self, node: OneNode, run: Run) -> Gas:
        if run.simulated and node.key not in self._without_simulation:
            found = await self._simulated(node, run)
            if found is not None:
                return found
        need, asked, beside = await self._need(node, run, run.beside)
        if run.is_signed and 0 < run.own_limit < need and await self._fits(node, run):
            need = run.own_limit  # nodes search for the limit and stop when they are near
        return Gas(need, "eth_estimateGas", need, asked, beside)

    # -- simulation -------------------------------------------------------------------------------

    async def _simulated(self, node: OneNode, run: Run) -> Gas | None:
        """None: the node does not answer this question."""
        limit: list[Question[Any]] = [_estimate(_with_funds(run))] if run.wants_limit else []
        number = self._block_number(node, run)
        try:
            first, *rest = await _ask(node, [simulation(run, number), *limit, *run.beside])
        except AnswerTooLarge:  # it lists every log
            return None
        if isinstance(first, Simulated) and number is None and first.block <= run.block:
            self._in_last_block.add(node.key)
            return await self._simulated(node, run)
        if isinstance(first, NodeError):
            self._note_refusal(node, first)
            return None
        beside = rest[len(limit) :]
        need = rest[0] if limit and isinstance(rest[0], int) else None
        if first.failure is None:
            return Gas(first.used, "eth_simulateV1", need, run.priced(), beside)
        return await self._after_failure(node, run, first.failure, beside)

    def _block_number(self, node: OneNode, run: Run) -> int | None:
        return run.block + 1 if node.key in self._in_last_block else None

    def _note_refusal(self, node: OneNode, error: NodeError) -> None:
        if error.code == _UNKNOWN_METHOD or _NOT_OFFERED.search(error.message):
            self._without_simulation.add(node.key)

    async def _after_failure(self, node: OneNode, run: Run, failure: NodeError, beside: list[Any]) -> Gas:
        """Was it only the limit? A signed transaction keeps its limit, and the caller compares."""
        if not run.own_limit:
            raise failure
        if not run.is_signed:
            (again,) = await _ask(node, [simulation(replace(run, own_limit=0), self._block_number(node, run))])
            if isinstance(again, Simulated) and again.failure is None:
                return Gas(again.used, "eth_simulateV1", None, run.priced(), beside)
            raise failure
        need, asked, _ = await self._need(node, run, ())
        if need <= run.own_limit:
            raise failure
        return Gas(need, "eth_estimateGas", need, asked, beside)

    # -- eth_estimateGas --------------------------------------------------------------------------

    async def _need(
        self, node: OneNode, run: Run, beside: Sequence[Question[Any]]
    ) -> tuple[int, dict[str, Any], list[Any]]:
        """The limit it needs, what was asked, and the answers to the questions beside."""
        number = self._forms.get(node.key, 0)
        while True:
            params = _FORMS[number](run)
            found, *answers = await _ask(node, [_estimate(params), *beside])
            if not isinstance(found, NodeError):
                return found, params[0], answers
            number += 1
            if number == len(_FORMS) or error_kind(found) is ErrorKind.REVERTED:
                raise found
            if found.code == _INVALID_PARAMS:  # it is the form that the node does not accept, not the transaction
                self._forms[node.key] = number

    async def _fits(self, node: OneNode, run: Run) -> bool:
        """Whether the transaction succeeds with its own limit."""
        question = Question("eth_call", (run.priced(gas=hex(run.own_limit)), run.at), read_bytes)
        (found,) = await _ask(node, [question])
        return not isinstance(found, NodeError)


async def _ask(node: OneNode, questions: Sequence[Question[Any]]) -> list[Any]:
    """The answers in order, with a `NodeError` for each that the node refuses. Raises it for a node over its limits."""
    if len(questions) == 1:
        try:
            return [await node.ask(questions[0])]
        except NodeError as error:
            answers: list[Any] = [error]
    else:
        answers = await node.ask_all(questions)
    for answer in answers:
        if isinstance(answer, NodeError) and error_kind(answer) is ErrorKind.BUSY:
            raise answer
    return answers


def _estimate(params: tuple[Any, ...]) -> Question[int]:
    return Question("eth_estimateGas", params, read_gas)


def simulation(run: Run, number: int | None) -> Question[Simulated]:
    """Run it in the next block, or in that with the number. Without a limit: with as much gas as the node allows."""
    block: dict[str, Any] = {
        "stateOverrides": run.override,
        "calls": [run.priced(gas=hex(run.own_limit)) if run.own_limit else run.priced()],
    }
    overrides = {"baseFeePerGas": run.base_fee, "number": number}
    block["blockOverrides"] = {name: hex(value) for name, value in overrides.items() if value is not None}
    # Without validation nodes run it with a base fee of 0.
    return Question("eth_simulateV1", ({"blockStateCalls": [block], "validation": True}, run.at), read_simulation)


def read_simulation(answer: Any) -> Simulated:
    try:
        (block,) = answer
        (call,) = block["calls"]
        used, status, number = read_gas(call["gasUsed"]), read_quantity(call["status"]), read_quantity(block["number"])
    except (TypeError, ValueError, KeyError):
        raise UrlFailed("answered something other than a simulation") from None
    return Simulated(used, None if status else _failure(call), number)


def _failure(call: dict[str, Any]) -> NodeError:
    error = call.get("error")
    error = error if isinstance(error, dict) else {}
    message, data = error.get("message"), error.get("data") or call.get("returnData")
    message = message if isinstance(message, str) else ""
    if data == "0x" and "revert" not in message:  # out of gas and the like: the message is the reason
        data = None
    return NodeError(_FAILED, message, data)
