"""`relaydeck estimate`: one fee step by step, or how far the estimates of a network are from what was really paid."""

import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import click

from relaydeck.api.operations import EXPLAIN_ESTIMATE
from relaydeck.api.records import EstimateReport
from relaydeck.cli.home import existing_store
from relaydeck.cli.operation_commands import completed_records
from relaydeck.cli.options import PATH, anywhere, as_json
from relaydeck.cli.output import print_line, print_note, print_rows, progress_bar, show
from relaydeck.cli.reply import Json
from relaydeck.cli.target import require_home, target
from relaydeck.errors import OperatorError, RecordNotFound
from relaydeck.fees.backtest import Backtest, BacktestRow, counted_problems, run_backtest
from relaydeck.fees.model import fee_options
from relaydeck.networks import network_rows
from relaydeck.settings.model import read_settings

_WIDEST = 10  # percent; what is further off is counted at the edge
_WIDTH, _HEIGHT, _BAR = 660, 260, 28


@click.command(epilog="Example:  relaydeck estimate sepolia-1 0x02f8... --token USDC")
@click.argument("relayer", required=False, shell_complete=completed_records("relayers"))
@click.argument("transaction", required=False)
@click.option("--token", default="", help="Fee token: symbol or address. Default: the native coin.")
@click.option("--backtest", metavar="NETWORK", help="Test the estimates of a network against what was paid on it.")
@click.option("--blocks", type=click.IntRange(1, 100_000), default=200, help="How many recent blocks to test.")
@click.option("--svg", type=PATH, help="Write a plot of the backtest to this file.")
@as_json(EstimateReport, other=Backtest, remark=" with `--backtest`")
@anywhere
def estimate(
    relayer: str | None,
    transaction: str | None,
    token: str,
    backtest: str | None,
    blocks: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Estimate the fee of TRANSACTION through RELAYER and print every step.

    TRANSACTION is an encoded transaction in 0x-hex; - reads it from standard input.

    With --backtest NETWORK and neither of the two: estimate up to three transactions of each recent block as of the
    block before, and print how far gas, price and fee are from what was used and paid. The network's nodes must keep
    the state of these blocks. A backtest runs on the machine that holds the home, not on a server: it asks the nodes
    from there.
    """
    if backtest is not None:
        if relayer is not None:
            raise click.UsageError("--backtest takes no RELAYER and no TRANSACTION")
        require_home()
        _test(backtest, blocks, svg, as_json)
        return
    if relayer is None or transaction is None:
        raise click.UsageError("give RELAYER and TRANSACTION, or --backtest NETWORK")
    encoded = sys.stdin.read().strip() if transaction == "-" else transaction
    document = {"transaction": encoded} | ({"token": token} if token else {})
    report: Json = target().call(EXPLAIN_ESTIMATE, relayer, document=document).data
    show(report, as_json, print_report)
    if "error" in report:
        sys.exit(1)


def print_report(report: Json) -> None:
    if report["steps"]:
        print_rows(("step", "fact", "value"), [_rows(facts) for facts in report["steps"]])
        if report["steps"][-1]["step"] == "result":
            print_line(f"estimated fee: {report['steps'][-1]['estimated_fee']} {report['steps'][0]['fee_token']}")
    if failure := report.get("error"):
        print_line(f"no estimate: {failure['code']} {failure['message']}: {failure['description']}")


def _rows(facts: dict[str, Any]) -> list[tuple[str, str, Any]]:
    step, *rest = facts
    return [(facts[step] if number == 0 else "", name, facts[name]) for number, name in enumerate(rest)]


# -- a backtest


def plot(network: str, percents: Sequence[Decimal]) -> str:
    """An SVG document with a bar for each whole percent."""
    counts = Counter(max(-_WIDEST, min(_WIDEST, round(percent))) for percent in percents)
    highest = max(counts.values(), default=1)
    bars = "".join(_bar(percent, counts[percent], highest) for percent in range(-_WIDEST, _WIDEST + 1))
    title = f"Estimated against paid on {escape(network)}: {len(percents)} transactions, error in percent"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><title>{title}</title><text x="20" y="20">{title}</text>{bars}</svg>\n'
    )


def _bar(percent: int, count: int, highest: int) -> str:
    x, height = 30 + (percent + _WIDEST) * _BAR, 180 * count // highest
    label = f'<text x="{x + 4}" y="{_HEIGHT - 12}">{percent:+d}</text>'
    if not count:
        return label
    top = _HEIGHT - 30 - height
    box = f'<rect x="{x}" y="{top}" width="{_BAR - 4}" height="{height}" fill="#3564c4"/>'
    return f'{label}{box}<text x="{x + 4}" y="{top - 4}">{count}</text>'


def _test(name: str, blocks: int, svg: Path | None, as_json: bool) -> None:
    """Print what was tested. If the nodes stop answering, raise OperatorError after the report."""
    with existing_store() as store:
        if (network := network_rows.TABLE.find(store.database.read, store.vault, name)) is None:
            raise RecordNotFound("network")
    run = run_backtest(network, fee_options(read_settings()), blocks, progress_bar)
    if run.found or not run.problem:
        show(run.report, as_json, _print_backtest)
        if svg is not None:
            svg.write_text(plot(name, [each.percent for each in run.found if each.percent is not None]))
            print_note(f"wrote {svg}")
    if run.problem:
        raise OperatorError(run.problem, "Run 'relaydeck doctor' to check the network's nodes.")


def _print_backtest(report: Backtest) -> None:
    if report.rows:
        names = ("transactions", "count", "median", "95 % within", "worst")
        *kinds, every = [_cells(row) for row in report.rows]
        print_rows(names, [kinds, [every]])
        print_rows(("error of", *names[1:]), [[_cells(row) for row in report.errors]])
    else:
        print_line("no transaction could be estimated")
    for problem, count in counted_problems(report):
        print_line(f"{count} without estimate: {problem}")
    for conclusion in report.conclusions:
        print_line(conclusion)


def _cells(row: BacktestRow) -> tuple[str, int, str, str, str]:
    percents = (row.median_percent, row.p95_percent, row.worst_percent)
    median, p95, worst = (f"{percent} %" for percent in percents)
    return row.transactions, row.count, median, p95, worst
