"""Estimates transactions of recent blocks as of the blocks before, and compares the estimates with what was paid.

The error of the gas is that of an estimate at the price that was paid. The error of the price is that of what an
estimate would have assumed one block before, and some blocks before; the error of the fee is that of both together.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from relaydeck.fees.chain_cache import ChainCache, ChainCaches
from relaydeck.fees.errors import NODE_FAILURES, RpcFailure, as_estimate_failure
from relaydeck.fees.estimator import market_price, price_fields
from relaydeck.fees.gas import Run
from relaydeck.fees.gas_price import History, Price, check_price, fee_history_question, own_price, upper_median
from relaydeck.fees.model import FeeOptions
from relaydeck.fees.models import MODELS, Charge
from relaydeck.fields import Shape, about
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.header import Header, block_question, next_base_fee
from relaydeck.networks.evm.questions import Question, at_block
from relaydeck.networks.evm.transaction import Authorization, Transaction, encode_unsigned
from relaydeck.networks.model import Network

# -- Transactions that are in a block, as nodes describe them, and what they paid --

_KNOWN_TYPES = range(5)
_PER_BLOCK = 3  # the later ones in a block depend on those before
_LATER = 5  # blocks between an estimate and its transaction, if the network declares no horizon
_OFF = 2  # percent, from which on a fee model may be wrong
_FAR_OFF = 25  # percent, from which on the bounds of a tip may be wrong
# A field that only the receipts of some chains have, and their fee model.
_RECEIPTS = (("gasUsedForL1", "arbitrum"), ("l1BatchNumber", "zksync"), ("l1GasPrice", "op_stack"), ("l1Fee", "scroll"))
# What reading a description raises that lacks something, or has something else in its place.
_UNREADABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


class PaidTransaction(msgspec.Struct, frozen=True):
    transaction: Transaction
    sender: str
    kind: str
    paid: int  # in Wei
    base_fee: int | None
    blob_price: int | None
    time: int | None  # of its block
    per_gas: int = 0
    data_percent: int = 0  # of what was paid, for data and the operator of a rollup
    fee_model: str = ""  # that its receipt looks like; empty: nothing speaks for another one than the network's


def read_paid(sent: dict[str, Any], receipt: Any, block: dict[str, Any]) -> PaidTransaction | None:
    """None for a transaction that failed, that paid nothing, or of a type that only its chain has."""
    kind = _number(sent.get("type", "0x0"))
    if kind not in _KNOWN_TYPES or not isinstance(receipt, dict) or receipt.get("status") != "0x1":
        return None
    paid = _paid(receipt)
    if paid == 0:
        return None
    base, blob_price = block.get("baseFeePerGas"), receipt.get("blobGasPrice")
    return PaidTransaction(
        transaction=_transaction(kind, sent),
        sender=sent["from"],
        kind=f"type {kind}, {_purpose(sent)}",
        paid=paid,
        base_fee=None if base is None else _number(base),
        blob_price=None if blob_price is None else _number(blob_price),
        time=_number(block.get("timestamp")) or None,
        per_gas=_number(receipt["effectiveGasPrice"]),
        data_percent=100 * _data_fees(receipt) // paid,
        fee_model=_model_of(sent, receipt),
    )


def _model_of(sent: dict[str, Any], receipt: dict[str, Any]) -> str:
    for name, model in _RECEIPTS:
        if receipt.get(name) is not None:
            return model
    used_all = _number(receipt["gasUsed"]) == _number(sent["gas"])
    return "gas_limit_charged" if used_all and _purpose(sent) != "transfer" else ""


def _purpose(sent: dict[str, Any]) -> str:
    if sent.get("to") is None:
        return "creation"
    return "transfer" if sent["input"] == "0x" else "call"


def _paid(receipt: dict[str, Any]) -> int:
    gas = _number(receipt["gasUsed"])
    blobs = _number(receipt.get("blobGasUsed")) * _number(receipt.get("blobGasPrice"))
    return gas * _number(receipt["effectiveGasPrice"]) + blobs + _data_fees(receipt)


def _data_fees(receipt: dict[str, Any]) -> int:
    """The operator fee of an OP-stack chain is one. Since its upgrade Jovian, receipts have `daFootprintGasScalar`."""
    scaled = _number(receipt["gasUsed"]) * _number(receipt.get("operatorFeeScalar"))
    variable = scaled // 10**6 if receipt.get("daFootprintGasScalar") is None else scaled * 100
    return _number(receipt.get("l1Fee")) + variable + _number(receipt.get("operatorFeeConstant"))


def _number(text: Any) -> int:
    return int(text, 16) if isinstance(text, str) else 0


def _transaction(kind: int, sent: dict[str, Any]) -> Transaction:
    market = kind >= 2
    found = Transaction(
        type=kind,
        chain_id=_number(sent.get("chainId")) or None,
        nonce=_number(sent["nonce"]),
        gas_limit=_number(sent["gas"]),
        to=sent.get("to") and sent["to"].lower(),
        value=_number(sent["value"]),
        data=bytes.fromhex(sent["input"][2:]),
        gas_price=None if market else _number(sent["gasPrice"]),
        max_priority_fee_per_gas=_number(sent.get("maxPriorityFeePerGas")) if market else None,
        max_fee_per_gas=_number(sent.get("maxFeePerGas")) if market else None,
        max_fee_per_blob_gas=_number(sent.get("maxFeePerBlobGas")) or None,
        access_list=tuple((each["address"], tuple(each["storageKeys"])) for each in sent.get("accessList") or ()),
        blob_hashes=tuple(sent.get("blobVersionedHashes") or ()),
        authorizations=tuple(_authorization(each) for each in sent.get("authorizationList") or ()),
        sender=sent["from"],
    )
    return replace(found, unsigned=encode_unsigned(found))  # for chains that charge for its size


def _authorization(entry: dict[str, Any]) -> Authorization:
    numbers = (_number(entry[name]) for name in ("nonce", "yParity", "r", "s"))
    return Authorization(_number(entry["chainId"]), entry["address"], *numbers)


class _Sent(msgspec.Struct):
    """What is needed to choose a transaction."""

    sender: str = msgspec.field(name="from")
    hash: str


class _Block(msgspec.Struct):
    transactions: list[_Sent]


class Aged(msgspec.Struct, frozen=True):
    """Errors of an estimate that was made some blocks before, in percent: of its price, and of the whole fee."""

    price: Decimal
    fee: Decimal
    tip: int  # that recent blocks took then


class Tested(msgspec.Struct, frozen=True):
    """One transaction. `percent` is how far the estimate is from what was paid; None: there was no estimate."""

    block: int
    kind: str
    percent: Decimal | None
    problem: str = ""
    next: Aged | None = None  # estimated one block before; None: the nodes have no fee history of that block
    later: Aged | None = None  # estimated as many blocks before as the horizon, and one
    data_percent: int = 0
    fee_model: str = ""


def horizon_of(network: Network) -> int:
    """How many blocks pass between an estimate and the block before its transaction."""
    return network.fee_horizon or _LATER


def conclusions(network: Network, found: Sequence[Tested]) -> list[str]:
    """What is probably wrong with the configuration of the network."""
    return [each for each in (_wrong_model(network, found), _wrong_tip(network, found)) if each]


def _wrong_model(network: Network, found: Sequence[Tested]) -> str:
    named = Counter(each.fee_model for each in found if each.fee_model not in ("", network.fee_model))
    model, count = named.most_common(1)[0] if named else ("", 0)
    similar = [each for each in found if each.fee_model == model]
    percents = [each.percent for each in similar if each.percent is not None]
    if not named and found and network.fee_model != "ethereum" and all(each.percent is None for each in found):
        return f"this chain does not answer as fee_model = {network.fee_model} requires; try fee_model = ethereum"
    if 2 * count <= len(found) or (percents and abs(upper_median(percents)) < _OFF):
        return ""
    missing = upper_median([Decimal(each.data_percent) for each in similar])
    if missing:
        return f"this chain charges a data fee: {missing} % of the fee is missing; try fee_model = {model}"
    charged = "charges the gas limit" if model == "gas_limit_charged" else "returns the receipts of another fee model"
    return f"this chain {charged}; try fee_model = {model}"


def _wrong_tip(network: Network, found: Sequence[Tested]) -> str:
    known = [each.next for each in found if each.next is not None]
    if not known:
        return ""
    percent, tip = upper_median([each.price for each in known]), upper_median([each.tip for each in known])
    for name, bound, is_off in (
        ("tip_floor", network.tip_floor, percent > _FAR_OFF),
        ("tip_ceiling", network.tip_ceiling, percent < -_FAR_OFF),
    ):
        if is_off and bound is not UNSET:
            return f"the price is off by {percent:+.0f} %: {name} is {bound} Wei, and recent tips were {tip} Wei"
    return ""


class BlockTests:
    def __init__(self, network: Network, cache: ChainCache, options: FeeOptions, deadline: Callable[[], float]) -> None:
        """`deadline` returns that of a question asked now."""
        self._network = network
        self._options = options
        self._model = MODELS[network.fee_model]
        self._cache = cache
        self._deadline = deadline

    async def newest(self) -> int:
        """Raises one of `NODE_FAILURES`."""
        return (await self._cache.pool.read(lambda _: (), self._deadline())).head.number

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
        receipts = (await self._cache.pool.ask_any(asked, self._deadline())).value
        earlier = max(0, number - 1 - horizon_of(self._network))
        prices = [await self._price(number - 1, 0), await self._price(earlier, self._network.fee_horizon)]
        found = []
        for sent, receipt in zip(chosen, receipts, strict=True):
            if isinstance(receipt, NodeError):
                found.append(Tested(number, "unknown", None, as_estimate_failure(receipt).description))
                continue
            try:
                sample = read_paid(sent, receipt, block)
            except _UNREADABLE:
                found.append(Tested(number, "unreadable", None, "the node describes the transaction incorrectly"))
            else:
                found += [await self._tested(number, sample, prices)] if sample is not None else []
        return found

    async def _price(self, block: int, full: int) -> tuple[Price, int] | None:
        """What an estimate after the block would have assumed, so many full blocks covered, and the recent tips."""
        asked: list[Question[Any]] = [fee_history_question(self._options, hex(block)), block_question(hex(block))]
        try:
            history, header = (await self._cache.pool.ask_any(asked, self._deadline())).value
        except NODE_FAILURES:
            return None
        if not isinstance(history, History) or not isinstance(header, Header):
            return None
        facts, tip = self._network.facts, history.tip
        base = next_base_fee(header, facts)
        base = history.next_base_fee if base is None else base
        found = Price(base + tip, block, "", {}, base_fee=base, head=header, facts=facts)
        covered = found.after(full) if full else found
        return None if covered is None else (market_price(self._network, covered), tip)

    async def _tested(self, number: int, sample: PaidTransaction, prices: list[tuple[Price, int] | None]) -> Tested:
        found = Tested(number, sample.kind, None, data_percent=sample.data_percent, fee_model=sample.fee_model)
        try:
            charge, per_gas = await self._charge(number - 1, sample)
        except RpcFailure as failure:  # the configuration does not fit the chain, or the block before differs
            return replace(found, problem=failure.description)
        except NODE_FAILURES as failure:
            return replace(found, problem=as_estimate_failure(failure).description)
        others = charge.extra + sample.transaction.blob_gas * (sample.blob_price or 0)

        def off(per_gas: int) -> Decimal:
            return _percent(charge.gas * per_gas + others, sample.paid)

        after, later = (
            None if each is None else Aged(_percent(each[0].per_gas, sample.per_gas), off(each[0].per_gas), each[1])
            for each in prices
        )
        return replace(found, percent=off(per_gas), next=after, later=later)

    async def _charge(self, parent: int, sample: PaidTransaction) -> tuple[Charge, int]:
        """What the transaction is charged, and its own price per gas."""
        transaction = sample.transaction
        base = Price((sample.base_fee or 0), parent, "", {}, sample.blob_price, sample.base_fee)
        check_price(transaction, sample.base_fee or 0)
        price = own_price(transaction, base, self._model.pays_tip)
        call = transaction.as_call(sample.sender)
        run = Run(
            call=call,
            prices=price_fields(transaction, price),
            block=parent,
            time=sample.time,
            base_fee=sample.base_fee,
            own_limit=transaction.gas_limit,
            is_signed=True,
            simulated=self._model.simulated,
            extra_calls=[at_block(question, hex(parent)) for question in self._model.questions(transaction, call)],
            is_past=True,
        )
        gas = (await self._cache.gas.measure(run, self._deadline())).value
        margin = self._network.facts.gas_margin_percent
        return self._model.charge(transaction, gas, gas.extra_answers, margin), price.per_gas


def _percent(estimated: int, paid: int) -> Decimal:
    return Decimal(100) * (estimated - paid) / paid if paid else Decimal(0)


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


# -- The report --

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


class BacktestRow(Shape, frozen=True):
    transactions: Annotated[str, about("Their type and purpose, such as `type 2, call`; or `all`; or what is off.")]
    count: Annotated[int, about("How many were estimated.")]
    median_percent: Annotated[str, about("The median error regardless of sign, as a decimal.")]
    p95_percent: Annotated[str, about("The error that 95 % of them stay within, regardless of sign.")]
    worst_percent: Annotated[str, about("The greatest error: positive where the estimate was too high.")]


class BacktestProblem(Shape, frozen=True):
    block: Annotated[int, about("The block of the transaction.")]
    transactions: Annotated[str, about("Its type and purpose.")]
    problem: Annotated[str, about("Why there is no estimate.")]


class BacktestBlock(Shape, frozen=True):
    """The median of its transactions, in percent as decimals; empty: not known."""

    block: Annotated[int, about("The block.")]
    gas_percent: Annotated[str, about("The error of the gas, at the price that was paid.")]
    price_percent: Annotated[str, about("The error of a price that was estimated one block before.")]
    fee_percent: Annotated[str, about("The error of the fee with that price.")]
    later_price_percent: Annotated[str, about("The error of a price that was estimated at the horizon before.")]
    later_fee_percent: Annotated[str, about("The error of the fee with that price.")]


class Backtest(Shape, frozen=True):
    network: Annotated[str, about("The network.")]
    rows: Annotated[list[BacktestRow], about("Each type of transaction, and then all together. Empty: none.")]
    horizon_blocks: Annotated[int, about("The network's `fee_horizon_blocks`, or 5.")]
    errors: Annotated[list[BacktestRow], about("Gas, price and fee of all: one block before, and at the horizon.")]
    blocks: Annotated[list[BacktestBlock], about("The same for each block.")]
    conclusions: Annotated[list[str], about("What is probably wrong with the configuration of the network.")]
    without_estimate: Annotated[list[BacktestProblem], about("Transactions that could not be estimated.")]


class BacktestRun(NamedTuple):
    found: list[Tested]
    report: Backtest
    problem: str  # why it ended early; empty: it did not


def run_backtest(network: Network, options: FeeOptions, blocks: int, progress: Progress) -> BacktestRun:
    """Of the newest blocks. In a thread without an event loop."""
    found, problem = asyncio.run(_test_blocks(network, options, blocks, progress))
    return BacktestRun(found, report_backtest(network, found), problem)


async def _test_blocks(
    network: Network, options: FeeOptions, blocks: int, progress: Progress
) -> tuple[list[Tested], str]:
    loop, caches = asyncio.get_running_loop(), ChainCaches(options, time.monotonic)
    cache = caches.find(network.rpc_urls, network.chain_id)
    cache.follow(network)
    test = BlockTests(network, cache, options, lambda: loop.time() + options.deadline)
    found, number = list[Tested](), 0
    try:
        newest = await test.newest()
        numbers = range(max(1, newest - blocks + 1), newest + 1)
        with progress("testing blocks", len(numbers)) as advance:
            for number in numbers:
                found += await test.block(number)
                advance(1)
    except NODE_FAILURES as failure:
        problem = as_estimate_failure(failure).description
        problem = f"the backtest ended at block {number}: {problem}" if number else problem
        return found, problem if found else f"nothing was tested: {problem}"
    finally:
        await caches.close()
    return found, ""


def counted_problems(report: Backtest) -> list[tuple[str, int]]:
    """Why transactions have no estimate, and how many."""
    return list(Counter(each.problem for each in report.without_estimate).items())


def report_backtest(network: Network, found: Sequence[Tested]) -> Backtest:
    kinds: dict[str, list[Decimal]] = {}
    for each in found:
        if each.percent is not None:
            kinds.setdefault(each.kind, []).append(each.percent)
    rows = [spread_of(kind, kinds[kind]) for kind in sorted(kinds)]
    if kinds:
        rows.append(spread_of("all", [percent for percents in kinds.values() for percent in percents]))
    problems = [BacktestProblem(each.block, each.kind, each.problem) for each in found if each.percent is None]
    horizon = horizon_of(network)
    before = ("one block before", f"{horizon + 1} blocks before")
    names = ["gas", *(f"{part}, {when}" for when in before for part in ("price", "fee"))]
    columns = list(zip(*map(_errors, found), strict=True))
    errors = [spread_of(name, known) for name, column in zip(names, columns, strict=False) if (known := _known(column))]
    return Backtest(network.name, rows, horizon, errors, _blocks(found), conclusions(network, found), problems)


def _errors(each: Tested) -> tuple[Decimal | None, ...]:
    aged = [(None, None) if one is None else (one.price, one.fee) for one in (each.next, each.later)]
    return each.percent, *aged[0], *aged[1]


def _known(column: Iterable[Decimal | None]) -> list[Decimal]:
    return [each for each in column if each is not None]


def _blocks(found: Sequence[Tested]) -> list[BacktestBlock]:
    numbers: dict[int, list[Tested]] = {}
    for each in found:
        numbers.setdefault(each.block, []).append(each)
    return [BacktestBlock(number, *_medians(tested)) for number, tested in numbers.items()]


def _medians(tested: list[Tested]) -> list[str]:
    columns = [sorted(_known(column)) for column in zip(*map(_errors, tested), strict=True)]
    return [f"{column[len(column) // 2]:+.2f}" if column else "" for column in columns]


def spread_of(name: str, percents: Sequence[Decimal]) -> BacktestRow:
    sizes = sorted(abs(percent) for percent in percents)
    median, p95, worst = sizes[len(sizes) // 2], sizes[(len(sizes) * 95 - 1) // 100], max(percents, key=abs)
    return BacktestRow(name, len(sizes), f"{median:.2f}", f"{p95:.2f}", f"{worst:+.2f}")
