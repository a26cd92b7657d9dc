"""`relaydeck doctor`: one line for each check, with what to do where something is wrong. It changes nothing."""

import sys

from relaydeck.cli.output import print_json, print_styled
from relaydeck.cli.target import backend
from relaydeck.doctor.finding import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}


def examine(as_json: bool) -> None:
    found = []
    for finding in backend().findings():
        found.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([finding._asdict() for finding in found])
    if any(finding.result == "FAIL" for finding in found):
        sys.exit(1)


def _print(finding: Finding) -> None:
    print_styled((f"{finding.result:<4}  ", _COLOURS[finding.result]), (f"{finding.subject}: {finding.remark}", ""))
