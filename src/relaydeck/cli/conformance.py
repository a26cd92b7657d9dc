"""`relaydeck conform`: checks a server from outside, and prints a report."""

import os
import sys
import textwrap
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import click

from relaydeck.cli.options import as_json
from relaydeck.cli.output import Shape, about, print_json, print_line, print_styled, progress_bar
from relaydeck.cli.target import read_token
from relaydeck.conformance.exchange import Budget, Refused, Target, Unreachable
from relaydeck.conformance.run import Report, Result, as_junit, checks
from relaydeck.conformance.run import as_json as report_as_json
from relaydeck.conformance.run import conform as run_checks
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted
from relaydeck.web_addresses import web_address_problem

_TOKEN_FILE = click.Path(path_type=Path, allow_dash=True)
_WIDTH = 100
_INDENT = 56  # before the claim
_COLOURS = {
    "holds": "green",
    "FAILS": "bold red",
    "as ruled": "green",
    "differs": "yellow",
    "not checked": "dim",
    "did not occur": "dim",
    "conforms": "bold green",
    "does not conform": "bold red",
    "incomplete": "bold yellow",
}
_EXIT_CODES = {"conforms": 0, "does not conform": 1, "incomplete": 3}


class ConformanceResult(Shape, frozen=True):
    name: Annotated[str, about("The name of the check.")]
    section: Annotated[str, about("The section of the contract.")]
    claim: Annotated[str, about("What is checked.")]
    basis: Annotated[Literal["contract", "ruling"], about("What the check rests on.")]
    verdict: Annotated[str, about("`holds`, `FAILS`, `as ruled`, `differs`, `not checked` or `did not occur`.")]
    expected: Annotated[str, about("What the contract asks for, or what Relaydeck does.")]
    seen: Annotated[str, about("What this server did, or why the check was not made.")]
    options: Annotated[list[str], about("The options that would allow the check.")]


class Conformance(Shape, frozen=True):
    url: Annotated[str, about("The server.")]
    verdict: Annotated[
        Literal["conforms", "does not conform", "incomplete"], about("The command exits with 0, 1 or 3.")
    ]
    conforms: Annotated[bool, about("Whether the verdict is `conforms`.")]
    requests: Annotated[int, about("How many requests were sent.")]
    unanswered: Annotated[int, about("How many of them got no HTTP response that can be read.")]
    contract: Annotated[
        dict[str, int], about("Contract checks by verdict: `holds`, `fails`, `not_checked`, `did_not_occur`.")
    ]
    rulings: Annotated[
        dict[str, int], about("Rulings by verdict: `as_ruled`, `differs`, `not_checked`, `did_not_occur`.")
    ]
    missing_options: Annotated[list[str], about("The options that would allow more checks.")]
    created_signers: Annotated[list[str], about("Signers that the run created. The interface cannot delete them.")]
    not_put_back: Annotated[list[str], about("What the run changed and could not put back.")]
    results: Annotated[list[ConformanceResult], about("Every check.")]


@click.command(
    epilog="Example:  relaydeck conform http://127.0.0.1:8080 --token-file token --allow-writes --notification scratch"
)
@click.argument("url")
@click.option("--token-file", type=_TOKEN_FILE, help="File with the credential, - for stdin. Default: RELAYDECK_TOKEN.")
@click.option(
    "--readonly-token-file",
    type=_TOKEN_FILE,
    help="File with a credential that may only list. Default: RELAYDECK_READONLY_TOKEN.",
)
@click.option("--allow-writes", is_flag=True, help="Also create signers (about 12, named conform-…) and update.")
@click.option(
    "--notification", default="", help="An existing notification whose url the checks may change. They put it back."
)
@click.option(
    "--replace-signing-key", is_flag=True, help="They may also replace its signing key, which nobody can put back."
)
@click.option("--relayer", default="", help="Relayer to run JSON-RPC calls through. Default: the first listed.")
@click.option("--transaction", default="", help="Encoded transaction that this relayer can estimate.")
@click.option("--fee-token", default="", help="Fee token of that estimate. Default: ETH.")
@click.option("--section", "sections", multiple=True, help="Only this section, such as 4 or 4.2. May be repeated.")
@click.option("--strict", is_flag=True, help="Exit with 1 instead of 3 when the run is incomplete.")
@click.option("--failures-only", is_flag=True, help="Show only the checks that fail.")
@click.option("--max-requests", type=click.IntRange(1), default=400, show_default=True, help="Most requests to send.")
@click.option("--max-seconds", type=click.FloatRange(1), default=120, show_default=True, help="Longest run.")
@as_json(Conformance)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write it as JUnit XML to FILE.")
def conform(
    url: str,
    token_file: Path | None,
    readonly_token_file: Path | None,
    sections: tuple[str, ...],
    max_requests: int,
    max_seconds: float,
    strict: bool,
    failures_only: bool,
    as_json: bool,
    junit: Path | None,
    **options: Any,
) -> None:
    """Check, from outside, whether the server at URL implements the interface, section by section.

    A check marked "contract" holds or FAILS. A check marked "ruling" is about something the contract leaves open: it
    shows what this server does and whether Relaydeck does the same.

    The exit code is 0 if the server conforms: every chosen contract check was made, and holds. It is 1 if the server
    does not conform or cannot be reached, and 3 if the run is incomplete: nothing fails, but contract checks were not
    made. The last lines name the options that they need.

    Without --allow-writes the checks only list and run JSON-RPC calls. With it they create signers, which the interface
    has no operation to delete.
    """
    if token_file and token_file == readonly_token_file == Path("-"):
        raise click.UsageError("only one credential can be read from standard input")
    credential = _credential("token", token_file)
    if not credential:
        raise click.UsageError("give a credential with --token-file or RELAYDECK_TOKEN")
    _require_url(url)
    readonly = _credential("readonly-token", readonly_token_file)
    report = _run(Target(url.rstrip("/"), credential, readonly, **options), Budget(max_requests, max_seconds), sections)
    if junit:
        junit.write_text(as_junit(report, strict=strict), "utf-8")
    if as_json:
        print_json(report_as_json(report))
    else:
        _print_results(report.failed if failures_only else report.results)
        _print_summary(report)
    code = _EXIT_CODES[report.verdict]
    sys.exit(1 if strict and code else code)


def _credential(name: str, file: Path | None) -> str:
    given = os.environ.get(f"RELAYDECK_{name.replace('-', '_').upper()}", "")
    if file == Path("-"):
        given = sys.stdin.readline().strip()
    elif file:
        given = read_token(file).reveal()
    if given and not (given.isascii() and given.isprintable() and " " not in given):
        raise click.UsageError(f"the {name} contains a character that no header can carry")
    return given


def _require_url(url: str) -> None:
    if web_address_problem(url) or not url.isascii() or urlsplit(url).port == 0:
        raise click.UsageError("URL must start with http:// or https:// and name a host")
    if urlsplit(url).path.rstrip("/").endswith("/api/v1"):
        raise click.UsageError("give the base address of the server as URL, without /api/v1")


def _run(target: Target, budget: Budget, sections: tuple[str, ...]) -> Report:
    for unknown in [each for each in sections if not checks([each])]:
        known = ", ".join(sorted({check.section for check in checks()}))
        raise click.UsageError(f"there is no section {unknown}; the sections are {known}")
    try:
        with progress_bar("checking", len(checks(sections))) as advance:
            return run_checks(target, budget, sections, lambda: advance(1))
    except Unreachable as problem:
        remedy = "Check the address, and that the server runs."
        raise OperatorError(f"{target.url} does not answer: {problem}", remedy) from None
    except Refused:
        remedy = "Give one that may list signers, with --token-file or RELAYDECK_TOKEN."
        raise OperatorError("the server refuses this credential: nothing was checked", remedy) from None


def _print_results(results: list[Result]) -> None:
    ordered = sorted(results, key=lambda each: (each.section, each.basis))
    for section, group in groupby(ordered, key=lambda each: each.section):
        print_styled((f"section {section}", "bold"))
        for each in group:
            _print_result(each)


def _print_result(result: Result) -> None:
    """One row within 100 columns. What was expected and seen stands below it, where that tells something."""
    first, *rest = textwrap.wrap(result.claim, _WIDTH - _INDENT)
    verdict = (f"{result.verdict:<13} ", _COLOURS[result.verdict])
    print_styled((f"  {result.basis:<8} ", ""), verdict, (f"{result.name:<30} ", ""), (first, ""))
    for line in rest:
        print_line(f"{'':{_INDENT}}{line}")
    if result.verdict in ("FAILS", "differs"):
        _print_wrapped(f"{'':11}expected: ", result.expected)
        _print_wrapped(f"{'':11}seen:     ", result.seen)


def _print_wrapped(label: str, text: str) -> None:
    rest = " " * len(label)
    for line in textwrap.wrap(text, _WIDTH, initial_indent=label, subsequent_indent=rest, break_on_hyphens=False):
        print_line(line)


def _print_summary(report: Report) -> None:
    for basis, label in (("contract", "contract"), ("ruling", "rulings")):
        counts: Counter[str] = Counter(each.verdict for each in report.results if each.basis == basis)
        found = ", ".join(f"{counts[each]} {each}" for each in _COLOURS if counts[each])
        print_line(f"{label + ':':<10}{found or 'none'}")
    _print_unchecked(report)
    if report.created_signers:
        print_line(f"left behind: {counted(len(report.created_signers), 'signer')} (--json lists them)")
    for each in report.left:
        print_line(f"left behind: {each}")  # in one line: it may hold a URL to copy
    requests = counted(report.requests, "request")
    print_styled((report.verdict, _COLOURS[report.verdict]), (f": {_reason(report)}; {requests}", ""))
    for basis, label in (("contract", "for a complete run, give: "), ("ruling", "for more rulings, give: ")):
        if options := [
            each for each in report.missing(basis) if basis == "contract" or each not in report.missing("contract")
        ]:
            _print_wrapped(label, " ".join(options))


def _print_unchecked(report: Report) -> None:
    for verdict in ("not checked", "did not occur"):
        reasons: Counter[str] = Counter(each.seen for each in report.results if each.verdict == verdict)
        for reason, count in reasons.most_common():
            found = [each for each in report.results if (each.verdict, each.seen) == (verdict, reason)]
            rulings = sum(each.basis == "ruling" for each in found)
            counts = [f"{count - rulings} contract"] * (count > rulings) + [counted(rulings, "ruling")] * (rulings > 0)
            _print_wrapped(f"{verdict}: {', '.join(counts)}: ", reason)


def _reason(report: Report) -> str:
    of_contract = sum(each.basis == "contract" for each in report.results)
    match report.verdict:
        case "conforms":
            held = report.count("holds")
            return f"{held} contract checks hold" if held != 1 else "1 contract check holds"
        case "does not conform":
            dropped = f", {counted(report.unanswered, 'request')} without a response" if report.unanswered else ""
            return f"{len(report.failed)} of {of_contract} contract checks fail{dropped}"
    if not report.unchecked:
        return "no contract check was made"
    return f"{len(report.unchecked)} of {of_contract} contract checks were not made"
