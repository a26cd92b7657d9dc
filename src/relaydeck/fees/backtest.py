"""Estimates transactions of recent blocks as of the block before, and compares the estimates with what was paid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.gas import Run
from relaydeck.fees.gas_price import Price
from relaydeck.fees.job import price_fields
from relaydeck.fees.models import MODELS
from relaydeck.fees.node_failures import NODE_FAILURES, as_estimate_failure
from relaydeck.fees.past import Past, read_past
from relaydeck.fees.signed_price import own_price
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.questions import BLOCK_NUMBER, Question
from relaydeck.networks.model import Network

_PER_BLOCK = 3  # the later ones in a block depend on those before
# What reading a description raises that lacks something, or has something else in its place.
_UNREADABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


class _Sent(msgspec.Struct):
    """What is needed to choose a transaction."""

    sender: str = msgspec.field(name="from")
    hash: str


class _Block(msgspec.Struct):
    transactions: list[_Sent]


@dataclass(frozen=True, slots=True)
class Tested:
    """One transaction. `percent` is how far the estimate is from what was paid; None: there was no estimate."""

    block: int
    kind: str
    percent: Decimal | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """How far estimates are off, in percent: the median and the 95th percentile regardless of sign, and the worst."""

    count: int
    median: Decimal
    p95: Decimal
    worst: Decimal


def spread_of(percents: Sequence[Decimal]) -> Spread:
    sizes = sorted(abs(percent) for percent in percents)
    return Spread(len(sizes), sizes[len(sizes) // 2], sizes[(len(sizes) * 95 - 1) // 100], max(percents, key=abs))


class Backtest:
    def __init__(self, network: Network, cache: Any, deadline: Callable[[], float]) -> None:
        """`cache` is the network's `ChainCache`; `deadline` returns that of a question asked now."""
        self._model = MODELS[network.fee_model]
        self._cache = cache
        self._deadline = deadline

    async def newest(self) -> int:
        """Raises one of `NODE_FAILURES`."""
        return int((await self._cache.pool.ask(BLOCK_NUMBER, self._deadline())).value)

    async def block(self, number: int) -> list[Tested]:
        """Transactions that succeeded, one for each of the first senders in the block.

        Raises one of `NODE_FAILURES` when the block cannot be read. A transaction that cannot be estimated is reported.
        """
        question = Question("eth_getBlockByNumber", (hex(number), True), _read_block)
        block = (await self._cache.pool.ask(question, self._deadline())).value
        chosen = _first_of_each_sender(block["transactions"])
        if not chosen:
            return []
        asked = [Question("eth_getTransactionReceipt", (each["hash"],), _read_receipt) for each in chosen]
        receipts = (await self._cache.pool.ask_all(asked, self._deadline())).value
        found = []
        for sent, receipt in zip(chosen, receipts, strict=True):
            if isinstance(receipt, NodeError):
                found.append(Tested(number, "unknown", None, as_estimate_failure(receipt).description))
                continue
            try:
                past = read_past(sent, receipt, block)
            except _UNREADABLE:
                found.append(Tested(number, "unreadable", None, "the node describes the transaction incorrectly"))
            else:
                found += [await self._tested(number, past)] if past is not None else []
        return found

    async def _tested(self, number: int, past: Past) -> Tested:
        try:
            estimated = await self._estimated(number - 1, past)
        except RpcFailure as failure:  # the configuration does not fit the chain, or the block before differs
            return Tested(number, past.kind, None, failure.description)
        except NODE_FAILURES as failure:
            return Tested(number, past.kind, None, as_estimate_failure(failure).description)
        return Tested(number, past.kind, Decimal(100) * (estimated - past.paid) / past.paid)

    async def _estimated(self, parent: int, past: Past) -> int:
        transaction = past.transaction
        base = Price((past.base_fee or 0), parent, "", {}, past.blob_price, past.base_fee)
        price = own_price(transaction, base, self._model.pays_tip)
        call = transaction.as_call(past.sender)
        run = Run(
            call=call,
            prices=price_fields(transaction, price),
            base_fee=past.base_fee,
            block=parent,
            own_limit=transaction.gas_limit,
            is_signed=True,
            simulated=self._model.simulated,
            beside=[_as_of(question, parent) for question in self._model.questions(transaction, call)],
            at=hex(parent),
        )
        gas = await self._cache.gas.measure(run, self._deadline())
        charge = self._model.charge(transaction, gas, gas.beside)
        return int(charge.gas * price.per_gas + charge.extra + transaction.blob_gas * (past.blob_price or 0))


def _as_of(question: Question[Any], block: int) -> Question[Any]:
    """The question about the state after a block, if it is about a state."""
    if question.method != "eth_call":
        return question
    return Question(question.method, (question.params[0], hex(block)), question.read)


def _first_of_each_sender(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in sent:
        found.setdefault(each["from"], each)
    return list(found.values())[:_PER_BLOCK]


def _read_block(answer: Any) -> dict[str, Any]:
    try:
        msgspec.convert(answer, _Block)
    except msgspec.ValidationError:
        raise UrlFailed("answered something other than a block with its transactions") from None
    return dict(answer)


def _read_receipt(answer: Any) -> dict[str, Any] | None:
    """None: the node does not have it."""
    if answer is not None and not isinstance(answer, dict):
        raise UrlFailed("answered something other than a receipt")
    return answer
