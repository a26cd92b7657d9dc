"""`relaydeck doctor`: one line for each check, with what to do where something is wrong. It changes nothing."""

import sys
from collections.abc import Iterator

from relaydeck.cli.doctor.database import database_findings
from relaydeck.cli.doctor.finding import Finding
from relaydeck.cli.doctor.limits import limits_findings
from relaydeck.cli.doctor.machine import Machine, home_finding, machine_findings
from relaydeck.cli.output import print_json, print_styled
from relaydeck.settings import Settings, read_settings, setting_warnings

_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}


def examine(as_json: bool) -> None:
    found = []
    for finding in findings(read_settings(), Machine()):
        found.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([finding._asdict() for finding in found])
    if any(finding.result == "FAIL" for finding in found):
        sys.exit(1)


def _print(finding: Finding) -> None:
    print_styled((f"{finding.result:<4}  ", _COLOURS[finding.result]), (f"{finding.subject}: {finding.remark}", ""))


def findings(settings: Settings, machine: Machine) -> Iterator[Finding]:
    for warning in setting_warnings():
        yield Finding("warn", "settings", warning)
    home = home_finding(settings.home)
    yield home
    if home.result == "FAIL":
        return
    yield from machine_findings(settings, machine)
    yield from limits_findings(settings)
    yield from database_findings(settings, machine.now())
