"""Reports on a network for people who want to check it: its rates, and how far its estimates are from what was paid."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Annotated, NamedTuple

from relaydeck.fees.backtest import Backtest as NetworkBacktest
from relaydeck.fees.backtest import Tested, conclusions, horizon_of
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.fees.errors import NODE_FAILURES, RpcFailure, as_estimate_failure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.exact import plain
from relaydeck.fees.model import FeeOptions
from relaydeck.fields import Shape, about
from relaydeck.networks.model import FeeToken, Network


class TokenRate(NamedTuple):
    symbol: str
    value: str = ""  # fee tokens for one native coin, the margin included; empty: there is no usable rate
    updated_at: int | None = None  # the oldest feed behind it; None: the operator has fixed the rate
    problem: str = ""  # why estimates in this token fail
    note: str = ""  # what changed at its feeds, and which sources are not usable


async def report_rates(estimator: Estimator, network: Network) -> list[TokenRate]:
    return await asyncio.gather(*(_report(estimator, network, token) for token in network.fee_tokens))


async def _report(estimator: Estimator, network: Network, token: FeeToken) -> TokenRate:
    try:
        rate = await estimator.rate(network, token)
    except RpcFailure as failure:
        return TokenRate(token.symbol, problem=f"{failure.message}: {failure.description}")
    updated_at = min((each.updated_at for each in rate.rounds), default=None)
    changes = [f"feed {each.feed.address}: {each.change}" for each in rate.rounds if each.change]
    note = "; ".join([*changes, *rate.facts.get("not_usable", ())])
    return TokenRate(token.symbol, plain(rate.value), updated_at, note=note)


# -- a backtest

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
    report: Backtest
    problem: str  # why it ended early; empty: it did not


def run_backtest(network: Network, options: FeeOptions, blocks: int, progress: Progress) -> BacktestRun:
    """In a thread without an event loop."""
    found, problem = asyncio.run(test_blocks(network, options, blocks, progress))
    return BacktestRun(report_backtest(network, found), problem)


async def test_blocks(
    network: Network, options: FeeOptions, blocks: int, progress: Progress
) -> tuple[list[Tested], str]:
    """The transactions tested in the newest blocks, and why the backtest ended early, if it did."""
    loop = asyncio.get_running_loop()
    caches = ChainCaches(options, time.monotonic)
    cache = caches.find(network.rpc_urls, network.chain_id)
    cache.pool.rules = network.pool_rules
    test = NetworkBacktest(network, cache, options, lambda: loop.time() + options.deadline)
    try:
        return await _test_blocks(test, blocks, progress)
    finally:
        await caches.close()


async def _test_blocks(test: NetworkBacktest, blocks: int, progress: Progress) -> tuple[list[Tested], str]:
    found: list[Tested] = []
    try:
        newest = await test.newest()
    except NODE_FAILURES as failure:
        return found, f"nothing was tested: {as_estimate_failure(failure).description}"
    numbers = range(max(1, newest - blocks + 1), newest + 1)
    with progress("testing blocks", len(numbers)) as advance:
        for number in numbers:
            try:
                found += await test.block(number)
            except NODE_FAILURES as failure:
                ended = f"the backtest ended at block {number}: {as_estimate_failure(failure).description}"
                return found, ended if found else f"nothing was tested: {ended}"
            advance(1)
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
