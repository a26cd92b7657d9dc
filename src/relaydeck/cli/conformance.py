"""Runs `relaydeck conform` and prints its report."""

import sys
import textwrap
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from relaydeck.cli.output import print_json, print_line, print_styled, progress_bar
from relaydeck.conformance.checks import Result
from relaydeck.conformance.probe import Budget, Refused, Target, Unreachable
from relaydeck.conformance.report import as_json as report_as_json
from relaydeck.conformance.report import as_junit
from relaydeck.conformance.run import Report, checks, conform
from relaydeck.errors import OperatorError

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


def check(
    url: str,
    credential: str,
    readonly_token: str,
    *,
    sections: tuple[str, ...],
    max_requests: int,
    max_seconds: float,
    strict: bool,
    failures_only: bool,
    as_json: bool,
    junit: Path | None,
    **options: Any,
) -> None:
    report = _run(Target(url, credential, readonly_token, **options), Budget(max_requests, max_seconds), sections)
    if junit:
        junit.write_text(as_junit(report, strict=strict), "utf-8")
    if as_json:
        print_json(report_as_json(report))
    else:
        _print_results(report.failed if failures_only else report.results)
        _print_summary(report)
    code = _EXIT_CODES[report.verdict]
    sys.exit(1 if strict and code else code)


def _run(target: Target, budget: Budget, sections: tuple[str, ...]) -> Report:
    for unknown in [each for each in sections if not checks([each])]:
        known = ", ".join(sorted({check.section for check in checks()}))
        raise click.UsageError(f"there is no section {unknown}; the sections are {known}")
    try:
        with progress_bar("checking", len(checks(sections))) as advance:
            return conform(target, budget, sections, lambda: advance(1))
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
    """Ends with the verdict and what a complete run needs."""
    for basis, label in (("contract", "contract"), ("ruling", "rulings")):
        counts: Counter[str] = Counter(each.verdict for each in report.results if each.basis == basis)
        counted = ", ".join(f"{counts[each]} {each}" for each in _COLOURS if counts[each])
        print_line(f"{label + ':':<10}{counted or 'none'}")
    _print_unchecked(report)
    if report.created_signers:
        print_line(f"left behind: {_number(len(report.created_signers), 'signer')} (--json lists them)")
    for each in report.left:
        print_line(f"left behind: {each}")  # in one line: it may hold a URL to copy
    requests = _number(report.requests, "request")
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
            counts = [f"{count - rulings} contract"] * (count > rulings) + [_number(rulings, "ruling")] * (rulings > 0)
            _print_wrapped(f"{verdict}: {', '.join(counts)}: ", reason)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _reason(report: Report) -> str:
    of_contract = sum(each.basis == "contract" for each in report.results)
    match report.verdict:
        case "conforms":
            held = report.count("holds")
            return f"{held} contract checks hold" if held != 1 else "1 contract check holds"
        case "does not conform":
            dropped = f", {_number(report.unanswered, 'request')} without a response" if report.unanswered else ""
            return f"{len(report.failed)} of {of_contract} contract checks fail{dropped}"
    if not report.unchecked:
        return "no contract check was made"
    return f"{len(report.unchecked)} of {of_contract} contract checks were not made"
