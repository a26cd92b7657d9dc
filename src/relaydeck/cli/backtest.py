"""`relaydeck estimate --backtest`: how far the estimates of a network are from what was really paid."""

import asyncio
import time
from decimal import Decimal
from pathlib import Path

from relaydeck.cli.backtest_plot import plot
from relaydeck.cli.json_shapes import Backtest as Report
from relaydeck.cli.json_shapes import BacktestProblem, BacktestRow
from relaydeck.cli.local.store import existing_store
from relaydeck.cli.output import print_json, print_line, print_note, print_rows, progress_bar
from relaydeck.errors import OperatorError, RecordNotFound
from relaydeck.fees.backtest import Backtest, Tested, spread_of
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.fees.node_failures import NODE_FAILURES, as_estimate_failure
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.settings import read_settings
from relaydeck.worker.fee_settings import fee_options


def run(name: str, blocks: int, svg: Path | None, as_json: bool) -> None:
    """Print what was tested. If the nodes stop answering, raise OperatorError after the report."""
    found, problem = asyncio.run(_tested(_network(name), blocks))
    if found or not problem:
        _present(name, found, svg, as_json)
    if problem:
        raise OperatorError(problem, "Run 'relaydeck doctor' to check the network's nodes.")


def _present(name: str, found: list[Tested], svg: Path | None, as_json: bool) -> None:
    report = _report(name, found)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if svg is not None:
        svg.write_text(plot(name, [each.percent for each in found if each.percent is not None]))
        print_note(f"wrote {svg}")


def _network(name: str) -> Network:
    with existing_store() as store:
        rows = store.database.read(f"SELECT {network_rows.COLUMNS} FROM networks WHERE name = :name", {"name": name})
        if not rows:
            raise RecordNotFound("network")
        return network_rows.from_row(rows[0], store.vault)


async def _tested(network: Network, blocks: int) -> tuple[list[Tested], str]:
    """The transactions tested, and why the backtest ended early, if it did."""
    options, loop = fee_options(read_settings()), asyncio.get_running_loop()
    caches = ChainCaches(options, time.monotonic)
    cache = caches.find(network.rpc_urls, network.chain_id)
    test = Backtest(network, cache, lambda: loop.time() + options.deadline)
    try:
        return await _test_blocks(test, blocks)
    finally:
        await caches.close()


async def _test_blocks(test: Backtest, blocks: int) -> tuple[list[Tested], str]:
    found: list[Tested] = []
    try:
        newest = await test.newest()
    except NODE_FAILURES as failure:
        return found, f"nothing was tested: {as_estimate_failure(failure).description}"
    numbers = range(max(1, newest - blocks + 1), newest + 1)
    with progress_bar("testing blocks", len(numbers)) as advance:
        for number in numbers:
            try:
                found += await test.block(number)
            except NODE_FAILURES as failure:
                ended = f"the backtest ended at block {number}: {as_estimate_failure(failure).description}"
                return found, ended if found else f"nothing was tested: {ended}"
            advance(1)
    return found, ""


def _report(network: str, found: list[Tested]) -> Report:
    kinds: dict[str, list[Decimal]] = {}
    for each in found:
        if each.percent is not None:
            kinds.setdefault(each.kind, []).append(each.percent)
    rows = [_row(kind, kinds[kind]) for kind in sorted(kinds)]
    if kinds:
        rows.append(_row("all", [percent for percents in kinds.values() for percent in percents]))
    problems = [BacktestProblem(each.block, each.kind, each.problem) for each in found if each.percent is None]
    return Report(network, rows, problems)


def _row(name: str, percents: list[Decimal]) -> BacktestRow:
    spread = spread_of(percents)
    return BacktestRow(name, spread.count, f"{spread.median:.2f}", f"{spread.p95:.2f}", f"{spread.worst:+.2f}")


def _print(report: Report) -> None:
    if report.rows:
        names = ("transactions", "count", "median", "95 % within", "worst")
        *kinds, every = [_cells(row) for row in report.rows]
        print_rows(names, [kinds, [every]])
    else:
        print_line("no transaction could be estimated")
    for each in report.without_estimate:
        print_line(f"block {each.block}, {each.transactions}: no estimate: {each.problem}")


def _cells(row: BacktestRow) -> tuple[str, int, str, str, str]:
    percents = (row.median_percent, row.p95_percent, row.worst_percent)
    median, p95, worst = (f"{percent} %" for percent in percents)
    return row.transactions, row.count, median, p95, worst
