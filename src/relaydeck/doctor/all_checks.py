"""The checks of a home."""

from collections.abc import Iterator

from relaydeck.doctor.database import database_findings
from relaydeck.doctor.finding import Finding, Progress, no_progress
from relaydeck.doctor.limits import limits_findings
from relaydeck.doctor.machine import Machine, home_finding, machine_findings
from relaydeck.doctor.nodes import fault_findings
from relaydeck.doctor.setting_needs import need_findings
from relaydeck.settings import Settings, setting_warnings


def findings(settings: Settings, machine: Machine, progress: Progress = no_progress) -> Iterator[Finding]:
    for warning in setting_warnings():
        yield Finding("warn", "settings", warning)
    yield from need_findings(settings)
    home = home_finding(settings.home)
    yield home
    if home.result == "FAIL":
        return
    yield from machine_findings(settings, machine)
    yield from limits_findings(settings)
    yield from database_findings(settings, machine.now(), progress)
    yield from fault_findings(settings.run_folder)


def examine(settings: Settings, progress: Progress) -> list[Finding]:
    """Every finding, from the machine itself."""
    return list(findings(settings, Machine(), progress))
