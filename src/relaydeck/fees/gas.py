"""The gas of one transaction, measured on nodes in the best way that they offer.

`eth_simulateV1` runs the transaction in the next block at its price and returns the gas it uses. A node without it is
asked with `eth_estimateGas`, which returns the least limit with which the transaction succeeds. Either way the sender
has funds: an estimate is about the fee, not about the balance. As many nodes as must agree measure it, all in the same
way: what two methods return cannot be compared.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from relaydeck.networks.evm import errors
from relaydeck.networks.evm.agreement import Subject, shown_answer, similar
from relaydeck.networks.evm.calls import Answer
from relaydeck.networks.evm.client import OneNode
from relaydeck.networks.evm.header import Header
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_bytes, read_gas, read_quantity

_FUNDS = hex(1 << 128)  # more than any transaction moves, and far from an overflow
_UNKNOWN_METHOD, _INVALID_PARAMS, _FAILED = -32601, -32602, 3
# About the method: similar words about a transaction must not decide how the next one is asked.
_NOT_OFFERED = re.compile(
    r"\b(?:method|eth_\w{1,40}|zks_\w{1,40}).{0,80}"
    r"not (?:found|supported|available|exist|allowed|implemented|whitelisted)"
    r"|(?:unsupported|unknown) (?:rpc )?method",
    re.IGNORECASE,
)
_BASE_GAS, _ZERO_BYTE_GAS, _OTHER_BYTE_GAS = 21_000, 4, 16
_SIMULATED, _ESTIMATED = "eth_simulateV1", "eth_estimateGas"
_LONGEST_READ = 2_000  # characters: a node may send a megabyte
# A transaction with other fields may be refused for them: only one of these shows what a node accepts.
_PLAIN_FIELDS = frozenset({"from", "to", "value", "data", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas"})


def intrinsic_gas(call: dict[str, Any]) -> int:
    """What every chain charges before the first instruction. What forks and creations add to it is left out."""
    data = bytes.fromhex(call["data"][2:])
    zeros = data.count(0)
    return _BASE_GAS + zeros * _ZERO_BYTE_GAS + (len(data) - zeros) * _OTHER_BYTE_GAS


class Run(msgspec.Struct, frozen=True):
    """One transaction to measure."""

    call: dict[str, Any]  # what it does
    prices: dict[str, str]  # the price fields it runs with
    block: int  # after which it runs
    time: int | None = None  # of the block in which it runs; None: not known
    base_fee: int | None = None  # of that block; None: the chain has none, or it is not known
    greatest: int | None = None  # gas that a transaction can use on the chain; None: not known
    own_limit: int = 0  # 0: it has none
    is_signed: bool = False
    simulated: bool = True  # whether the chain charges the gas that a simulation reports
    wants_limit: bool = False  # ask for the limit it needs even if a simulation does not need to know
    extra_calls: Sequence[Question[Any]] = ()  # asked of the same node in the same request
    needs_extra: bool = True  # whether another node is asked if this one cannot answer those now
    is_past: bool = False  # the block is not the newest
    refuses: Callable[["Gas"], bool] = lambda _: False  # whether the answer means that the transaction cannot be sent

    @property
    def at(self) -> str:
        return hex(self.block)

    @property
    def pending(self) -> str:
        return self.at if self.is_past else "pending"

    def checked(self, used: int, limit: int = 0) -> int:
        """The gas, unless that is impossible. `limit`: that it ran with, if any. Raises `UrlFailed`."""
        if used < intrinsic_gas(self.call):
            raise errors.UrlFailed("answered less gas than the transaction costs before it runs")
        if limit and used > limit:
            raise errors.UrlFailed("answered more gas than the limit that the transaction ran with")
        if self.greatest is not None and used > self.greatest:
            raise errors.UrlFailed("answered more gas than a transaction can use")
        return used

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
    extra_answers: list[Any] = []  # to the extra calls; some of which may be a `NodeError`

    def agrees(self, other: "Gas", questions: Sequence[Question[Any]]) -> bool:
        """Whether another node found the same, in the same way."""
        used = self.used == other.used or (self.method == _ESTIMATED and similar(self.used, other.used))
        answers = zip(questions, self.extra_answers, other.extra_answers, strict=True)
        return used and self.method == other.method and all(_same_answer(*each) for each in answers)

    @property
    def shown(self) -> str:
        """The gas, and the numbers among the answers."""
        return " ".join([str(self.used), *(shown_answer(each) for each in self.extra_answers if _is_value(each))])


_used, _shown = attrgetter("used"), attrgetter("shown")


def _is_value(answer: Any) -> bool:
    return not isinstance(answer, errors.NodeError)


def _same_answer(question: Question[Any], one: Any, other: Any) -> bool:
    if not (_is_value(one) and _is_value(other)):
        return _is_value(one) == _is_value(other)
    return bool(one == other) or (not question.exact and similar(one, other))


@dataclass(frozen=True, slots=True)
class Simulated:
    used: int
    failure: errors.NodeError | None


# How `eth_estimateGas` is asked, the best first: nodes differ in what they accept.
_FORMS: tuple[Callable[[Run], tuple[Any, ...]], ...] = (
    lambda run: (run.priced(), run.pending, run.override),
    lambda run: (run.priced(), run.pending),
    lambda run: (run.priced(), run.at),
    lambda run: (run.call, run.at),
)
_with_funds, *_, _without_price = _FORMS


class _NoSimulation(errors.NodeError):
    """The node does not offer it, and others may."""


class GasMeter:
    """Measures gas on one chain, and remembers which way each node offers."""

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._without_simulation: set[Node] = set()
        self._forms: dict[Node, int] = {}  # the first form that the node accepts

    async def measure(self, run: Run, deadline: float) -> Answer[Gas]:
        """Raises `NodeError` when the transaction fails or the nodes refuse it."""
        if run.simulated and self._can_simulate:
            try:
                return await self._agreed(run, self._measured, deadline)
            except _NoSimulation:
                pass
            except errors.NodesDisagree:
                if self._can_simulate:
                    raise
        return await self._agreed(run, self._estimated, deadline)

    async def own_limit(self, run: Run, deadline: float) -> Answer[Gas]:
        """Without measuring: the limit of the transaction, and the answers to the extra calls."""
        if not run.extra_calls:
            return Answer(Gas(run.own_limit, "", None, {}), "")
        return await self._agreed(run, self._extra_only, deadline)

    def _agreed(
        self, run: Run, work: Callable[[OneNode, Run], Awaitable[Gas]], deadline: float
    ) -> Awaitable[Answer[Gas]]:
        about: Subject[Gas] = Subject(
            "the gas of the transaction",
            lambda one, other: one.agrees(other, run.extra_calls),
            _used,
            _shown,
            run.refuses,
        )
        return self._pool.agree(lambda node: work(node, run), about, deadline, key=run.call)

    @property
    def _can_simulate(self) -> bool:
        """Whether as many nodes as decide may offer it."""
        usable = self._pool.usable
        offering = [node for node in usable if node not in self._without_simulation]
        return len(offering) >= min(self._pool.quorum, len(usable))

    async def _measured(self, node: OneNode, run: Run) -> Gas:
        found = await self._simulated(node, run) if node.key not in self._without_simulation else None
        if found is not None:
            return found
        if node.key in self._without_simulation and self._can_simulate:
            raise _NoSimulation(_UNKNOWN_METHOD, "")  # other nodes may offer it
        return await self._estimated(node, run)

    async def _estimated(self, node: OneNode, run: Run) -> Gas:
        need, asked, answers = await self._need(node, run, run.extra_calls)
        if run.is_signed and 0 < run.own_limit < need and await self._fits(node, run):
            need = run.own_limit  # nodes search for the limit and stop when they are near
        return Gas(need, _ESTIMATED, need, asked, answers)

    async def _extra_only(self, node: OneNode, run: Run) -> Gas:
        answers = await node.ask(*run.extra_calls)
        if run.needs_extra:
            _require_answers(answers)
        return Gas(run.own_limit, "", None, {}, answers)

    # -- simulation -------------------------------------------------------------------------------

    async def _simulated(self, node: OneNode, run: Run) -> Gas | None:
        """None: the node does not answer this question."""
        limit: list[Question[Any]] = [_estimate(_with_funds(run))] if run.wants_limit else []
        try:
            first, *rest = await node.ask(simulation(run), *limit, *run.extra_calls)
        except errors.AnswerTooLarge:  # it lists every log
            return None
        if isinstance(first, errors.NodeError):
            if _is_not_offered(first):
                self._without_simulation.add(node.key)
            elif errors.lacks_block(first) and len(self._pool.usable) > 1:
                raise first
            return None
        need, answers = next((each for each in rest[: len(limit)] if isinstance(each, int)), None), rest[len(limit) :]
        if run.needs_extra:
            _require_answers(answers)
        if first.failure is None:
            return Gas(run.checked(first.used, run.own_limit), _SIMULATED, need, run.priced(), answers)
        return await self._after_failure(node, run, first.failure, answers)

    async def _after_failure(self, node: OneNode, run: Run, failure: errors.NodeError, answers: list[Any]) -> Gas:
        """Was it only the limit? A signed transaction keeps its limit, and the caller compares."""
        if not run.own_limit:
            raise failure
        if not run.is_signed:
            (again,) = await node.ask(simulation(replace(run, own_limit=0)))
            if isinstance(again, Simulated) and again.failure is None:
                return Gas(run.checked(again.used), _SIMULATED, None, run.priced(), answers)
            raise failure
        need, asked, _ = await self._need(node, run, ())
        if need <= run.own_limit:
            raise failure
        return Gas(need, _ESTIMATED, need, asked, answers)

    # -- eth_estimateGas --------------------------------------------------------------------------

    async def _need(
        self, node: OneNode, run: Run, extra_calls: Sequence[Question[Any]]
    ) -> tuple[int, dict[str, Any], list[Any]]:
        """The limit it needs, what was asked, and the answers to the extra calls."""
        number = accepted = self._form(node)
        while True:
            params = _FORMS[number](run)
            found, *answers = await node.ask(_estimate(params), *extra_calls)
            if not isinstance(found, errors.NodeError):
                if accepted > self._form(node) and run.is_plain:
                    self._forms[node.key] = accepted
                if run.needs_extra:
                    _require_answers(answers)
                return run.checked(found), params[0], answers
            number += 1
            if number == len(_FORMS) or errors.error_kind(found) is errors.ErrorKind.REVERTED:
                raise found
            if found.code == _INVALID_PARAMS:  # it is the form that the node does not accept, not the transaction
                accepted = number

    def _form(self, node: OneNode) -> int:
        return self._forms.get(node.key, 0)

    async def _fits(self, node: OneNode, run: Run) -> bool:
        """Whether the transaction succeeds with its own limit."""
        call = run.priced(gas=hex(run.own_limit))
        params = (call, run.pending, run.override) if self._form(node) == 0 else (call, run.at)
        (found,) = await node.ask(Question("eth_call", params, read_bytes))
        return not isinstance(found, errors.NodeError)


async def find_ways(ask: Callable[[Question[Any]], Awaitable[Any]], head: Header) -> tuple[str, ...]:
    """How a node measures gas: `simulation`; `funds`: of senders without funds, too; `estimate`. Found by trying each.

    Raises `UrlFailed` when the node does not answer.
    """
    nobody = f"0x{1:040x}"
    call, price = {"from": nobody, "to": nobody, "value": "0x0", "data": "0x"}, hex(2 * (head.base_fee or 1))
    run = Run(call, {"gasPrice": price}, head.number, base_fee=head.base_fee)
    tried: dict[str, Question[Any]] = {
        "simulation": simulation(run),
        "funds": _estimate(_with_funds(run)),
        "estimate": _estimate(_without_price(run)),
    }
    found = []
    for name, question in tried.items():
        with suppress(errors.NodeError):
            await ask(question)
            found.append(name)
    return tuple(found)


def _require_answers(answers: Sequence[Any]) -> None:
    """Raise the error after which another node may answer. A refusal is an answer: what is asked may not exist."""
    for answer in answers:
        if not isinstance(answer, errors.NodeError) or _is_not_offered(answer):
            continue
        if errors.error_kind(answer) in (errors.ErrorKind.PASSING, errors.ErrorKind.DENIED):
            raise answer


def _is_not_offered(error: errors.NodeError) -> bool:
    """Whether the node lacks the method."""
    return error.code == _UNKNOWN_METHOD or bool(_NOT_OFFERED.search(error.message[:_LONGEST_READ]))


def _estimate(params: tuple[Any, ...]) -> Question[int]:
    return Question(_ESTIMATED, params, read_gas, exact=False)


def simulation(run: Run) -> Question[Simulated]:
    """Run it in the block after. Without a limit: with as much gas as the node allows."""
    overrides = {"baseFeePerGas": run.base_fee, "number": run.block + 1, "time": run.time}
    block = {
        "stateOverrides": run.override,
        "calls": [run.priced(gas=hex(run.own_limit)) if run.own_limit else run.priced()],
        "blockOverrides": {name: hex(value) for name, value in overrides.items() if value is not None},
    }
    # Without validation nodes run it with a base fee of 0.
    return Question(_SIMULATED, ({"blockStateCalls": [block], "validation": True}, run.at), read_simulation)


def read_simulation(answer: Any) -> Simulated:
    try:
        *_, block = answer  # before it there may be empty ones, up to the number that was asked for
        (call,) = block["calls"]
        used, status = read_gas(call["gasUsed"]), read_quantity(call["status"])
    except (TypeError, ValueError, KeyError):
        raise errors.UrlFailed("answered something other than a simulation") from None
    return Simulated(used, None if status else _failure(call))


def _failure(call: dict[str, Any]) -> errors.NodeError:
    error = call.get("error")
    error = error if isinstance(error, dict) else {}
    message, data = error.get("message"), error.get("data") or call.get("returnData")
    message = message if isinstance(message, str) else ""
    if data == "0x" and "revert" not in message:  # out of gas and the like: the message is the reason
        data = None
    return errors.NodeError(_FAILED, message, data)
