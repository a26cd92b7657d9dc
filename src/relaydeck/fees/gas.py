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
# About the method: similar words about a transaction must not decide how the next one is asked.
_NOT_OFFERED = re.compile(
    r"\b(?:method|eth_\w{1,40}|zks_\w{1,40}).{0,80}"
    r"not (?:found|supported|available|exist|allowed|implemented|whitelisted)"
    r"|(?:unsupported|unknown) (?:rpc )?method",
    re.IGNORECASE,
)
_LONGEST_READ = 2_000  # characters: a node may send a megabyte
# A transaction with other fields may be refused for them: only one of these shows what a node accepts.
_PLAIN_FIELDS = frozenset({"from", "to", "value", "data", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas"})


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
    needs_beside: bool = True  # whether another node is asked if this one cannot answer those now
    at: str = "latest"  # the block after which it runs

    @property
    def pending(self) -> str:
        return "pending" if self.at == "latest" else self.at

    @property
    def is_plain(self) -> bool:
        return self.call.keys() | self.prices.keys() <= _PLAIN_FIELDS

    def priced(self, **more: str) -> dict[str, Any]:
        return {**self.call, **self.prices, **more}

    @property
    def override(self) -> dict[str, Any]:
        return {self.call["from"]: {"balance": _FUNDS}}


class Gas(msgspec.Struct, frozen=True):
    used: int
    method: str  # empty: it is the transaction's own limit, and nothing was measured
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
        answer = await self._pool.converse(lambda node: self._measured(node, run), deadline, about=run.call)
        found = answer.value
        return Gas(found.used, found.method, found.limit, found.asked, found.beside, answer.node)

    async def own_limit(self, run: Run, deadline: float) -> Gas:
        """Without measuring: the limit of the transaction, and the answers to the questions beside."""
        beside: list[Any] = []
        if run.beside:
            asked = await self._pool.converse(lambda node: _ask_beside(node, run), deadline, about=run.call)
            beside = asked.value
        return Gas(run.own_limit, "", None, {}, beside)

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
        number = run.block + 1 if node.key in self._in_last_block else None
        try:
            first, rest = await self._simulate(node, run, number)
            if isinstance(first, Simulated) and number is None and first.block <= run.block:
                # It ran in a block that the price is not for: in the node's last one, or the node is behind.
                if first.block <= node.key.head:
                    self._in_last_block.add(node.key)
                number = run.block + 1
                first, rest = await self._simulate(node, run, number)
            elif isinstance(first, NodeError) and number is not None:
                number = None  # the node may be ahead of the price
                first, rest = await self._simulate(node, run, number)
        except AnswerTooLarge:  # it lists every log
            return None
        if isinstance(first, NodeError):
            self._note_refusal(node, first)
            return None
        limits = int(run.wants_limit)
        need, beside = next((each for each in rest[:limits] if isinstance(each, int)), None), rest[limits:]
        if first.failure is None:
            return Gas(first.used, "eth_simulateV1", need, run.priced(), beside)
        return await self._after_failure(node, run, number, first.failure, beside)

    async def _simulate(self, node: OneNode, run: Run, number: int | None) -> tuple[Any, list[Any]]:
        """The simulation; the limit, if it is wanted, and the answers to the questions beside."""
        limit: list[Question[Any]] = [_estimate(_with_funds(run))] if run.wants_limit else []
        first, *rest = await _ask(node, [simulation(run, number), *limit, *run.beside])
        if run.needs_beside:
            _require_answers(rest[len(limit) :])
        return first, rest

    def _note_refusal(self, node: OneNode, error: NodeError) -> None:
        if _is_not_offered(error):
            self._without_simulation.add(node.key)

    async def _after_failure(
        self, node: OneNode, run: Run, number: int | None, failure: NodeError, beside: list[Any]
    ) -> Gas:
        """Was it only the limit? A signed transaction keeps its limit, and the caller compares."""
        if not run.own_limit:
            raise failure
        if not run.is_signed:
            (again,) = await _ask(node, [simulation(replace(run, own_limit=0), number)])
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
        number, accepted = self._form(node), self._form(node)
        while True:
            params = _FORMS[number](run)
            found, *answers = await _ask(node, [_estimate(params), *beside])
            if not isinstance(found, NodeError):
                if run.is_plain and accepted > self._form(node):
                    self._forms[node.key] = accepted
                if run.needs_beside:
                    _require_answers(answers)
                return found, params[0], answers
            number += 1
            if number == len(_FORMS) or error_kind(found) is ErrorKind.REVERTED:
                raise found
            if found.code == _INVALID_PARAMS:  # it is the form that the node does not accept, not the transaction
                accepted = number

    def _form(self, node: OneNode) -> int:
        return self._forms.get(node.key, 0)

    async def _fits(self, node: OneNode, run: Run) -> bool:
        """Whether the transaction succeeds with its own limit."""
        call = run.priced(gas=hex(run.own_limit))
        params = (call, run.pending, run.override) if self._form(node) == 0 else (call, run.at)
        (found,) = await _ask(node, [Question("eth_call", params, read_bytes)])
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


async def _ask_beside(node: OneNode, run: Run) -> list[Any]:
    answers = await _ask(node, run.beside)
    if run.needs_beside:
        _require_answers(answers)
    return answers


def _require_answers(beside: Sequence[Any]) -> None:
    """Raise the error after which another node may answer. A refusal is an answer: what is asked may not exist."""
    for answer in beside:
        if not isinstance(answer, NodeError) or _is_not_offered(answer):
            continue
        if error_kind(answer) in (ErrorKind.PASSING, ErrorKind.DENIED):
            raise answer


def _is_not_offered(error: NodeError) -> bool:
    """Whether the node lacks the method."""
    return error.code == _UNKNOWN_METHOD or bool(_NOT_OFFERED.search(error.message[:_LONGEST_READ]))


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
        *_, block = answer  # before it there may be empty ones, up to the number that was asked for
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
