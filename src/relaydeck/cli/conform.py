"""`relaydeck conform`: check whether a server speaks the interface."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from relaydeck.conformance.probe import Budget, Target
    from relaydeck.conformance.run import Report

_COLOURS = {"holds": "green", "FAILS": "bold red", "as ruled": "green", "differs": "yellow", "not checked": "dim"}


@click.command(
    short_help="Check whether a server speaks the interface.",
    epilog="Example:  relaydeck conform http://127.0.0.1:8080 --token-file token --allow-writes --notification scratch",
)
@click.argument("url")
@click.option("--token", envvar="RELAYDECK_TOKEN", default="", help="Credential to check with, or RELAYDECK_TOKEN.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with that credential: a command line can be read by others.",
)
@click.option(
    "--readonly-token",
    envvar="RELAYDECK_READONLY_TOKEN",
    default="",
    help="A credential that may only list, or RELAYDECK_READONLY_TOKEN.",
)
@click.option("--allow-writes", is_flag=True, help="Also create signers (about 20, named conform-…) and update.")
@click.option("--notification", default="", help="A notification whose url and signing key the checks may change.")
@click.option("--relayer", default="", help="Relayer to run JSON-RPC calls through. Default: the first listed.")
@click.option("--transaction", default="", help="Encoded transaction that this relayer can estimate.")
@click.option("--fee-token", default="", help="Fee token of that estimate. Default: ETH.")
@click.option("--section", "sections", multiple=True, help="Only this section, such as 4.2. May be repeated.")
@click.option("--max-requests", type=click.IntRange(1), default=400, show_default=True, help="Most requests to send.")
@click.option("--max-seconds", type=click.FloatRange(1), default=120, show_default=True, help="Longest run.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write it as JUnit XML to FILE.")
def conform(
    url: str,
    token: str,
    token_file: Path | None,
    readonly_token: str,
    allow_writes: bool,
    notification: str,
    relayer: str,
    transaction: str,
    fee_token: str,
    sections: tuple[str, ...],
    max_requests: int,
    max_seconds: float,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Check, from outside, whether the server at URL speaks the interface, section by section.

    A check marked "contract" holds or FAILS; one failure makes the command exit with 1. A check marked "ruling" is
    about something the contract leaves open: it shows what this server does and whether Relaydeck does the same.

    Without --allow-writes the checks only list and run JSON-RPC calls. With it they create signers, which the interface
    has no operation to delete.
    """
    from relaydeck.conformance.probe import Budget, Target
    from relaydeck.conformance.report import as_json as report_as_json
    from relaydeck.conformance.report import as_junit

    credential = token_file.read_text().strip() if token_file else token
    if not credential:
        raise click.UsageError("give a credential with --token-file, --token or RELAYDECK_TOKEN")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("URL must start with http:// or https://")
    target = Target(
        url.rstrip("/"), credential, readonly_token, allow_writes, relayer, notification, transaction, fee_token
    )
    report = _run(target, Budget(max_requests, max_seconds), sections)
    if junit:
        junit.write_text(as_junit(report), "utf-8")
    if as_json:
        sys.stdout.write(json.dumps(report_as_json(report), indent=2, ensure_ascii=False) + "\n")
    else:
        _print(report)
    if report.failed:
        sys.exit(1)


def _run(target: "Target", budget: "Budget", sections: tuple[str, ...]) -> "Report":
    """With a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from relaydeck.conformance.probe import reachable
    from relaydeck.conformance.run import checks, conform
    from relaydeck.errors import OperatorError

    if not checks(sections):
        known = ", ".join(dict.fromkeys(check.section for check in checks()))
        raise OperatorError("no check is in that section", f"Sections are {known}.")
    problem = reachable(target, budget)
    if problem:
        raise OperatorError(f"{target.url} does not answer: {problem}", "Check the address, and that the server runs.")
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("checking", total=len(checks(sections)))
        return conform(target, budget, sections, lambda: progress.advance(task))


def _print(report: "Report") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("section", "check", "basis", "verdict", "expected", "seen")
    section = ""
    for result in sorted(report.results, key=lambda each: (each.section, each.basis)):
        if section and section != result.section:
            table.add_section()
        verdict = Text(result.verdict, _COLOURS[result.verdict])
        table.add_row(
            result.section,
            f"{result.name}\n{result.claim}",
            result.basis,
            verdict,
            Text(result.expected),
            Text(result.seen),
        )
        section = result.section
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200, markup=False)
    console.print(table)
    counts = {verdict: report.count(verdict) for verdict in _COLOURS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    console.print(f"{'FAILS' if report.failed else 'conforms'}: {told}; {report.requests} requests")
