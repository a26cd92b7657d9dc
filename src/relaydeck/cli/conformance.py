"""Runs `relaydeck conform` and prints its report."""

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from relaydeck.cli.output import Styled, print_json, print_line, print_rows, progress_bar
from relaydeck.conformance.probe import Budget, Target, reachable
from relaydeck.conformance.report import as_json as report_as_json
from relaydeck.conformance.report import as_junit
from relaydeck.conformance.run import Report, checks, conform
from relaydeck.errors import OperatorError

_COLOURS = {"holds": "green", "FAILS": "bold red", "as ruled": "green", "differs": "yellow", "not checked": "dim"}


def check(
    url: str,
    credential: str,
    *,
    sections: tuple[str, ...],
    max_requests: int,
    max_seconds: float,
    as_json: bool,
    junit: Path | None,
    **options: Any,
) -> None:
    report = _run(Target(url, credential, **options), Budget(max_requests, max_seconds), sections)
    if junit:
        junit.write_text(as_junit(report), "utf-8")
    if as_json:
        print_json(report_as_json(report))
    else:
        _print(report)
    if report.failed:
        sys.exit(1)


def _run(target: Target, budget: Budget, sections: tuple[str, ...]) -> Report:
    if not checks(sections):
        known = ", ".join(dict.fromkeys(check.section for check in checks()))
        raise OperatorError("no check is in that section", f"Sections are {known}.")
    if problem := reachable(target, budget):
        raise OperatorError(f"{target.url} does not answer: {problem}", "Check the address, and that the server runs.")
    with progress_bar("checking", len(checks(sections))) as advance:
        return conform(target, budget, sections, lambda: advance(1))


def _print(report: Report) -> None:
    results = sorted(report.results, key=lambda each: (each.section, each.basis))
    rows = [
        [
            (
                each.section,
                each.name,
                each.claim,
                each.basis,
                Styled(each.verdict, _COLOURS[each.verdict]),
                each.expected,
                each.seen,
            )
            for each in section
        ]
        for _, section in groupby(results, key=lambda each: each.section)
    ]
    print_rows(("section", "check", "claim", "basis", "verdict", "expected", "seen"), rows)
    counts = {verdict: report.count(verdict) for verdict in _COLOURS}
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print_line(f"{'FAILS' if report.failed else 'conforms'}: {counted}; {report.requests} requests")
