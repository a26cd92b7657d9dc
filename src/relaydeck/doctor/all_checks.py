"""The checks of a home."""

from collections.abc import Iterator

from relaydeck.doctor.database import database_findings
from relaydeck.doctor.finding import Finding, Progress, no_progress
from relaydeck.doctor.limits import limits_findings
from relaydeck.doctor.machine import Machine, home_finding, machine_findings
from relaydeck.doctor.nodes import fault_findings
from relaydeck.setting_needs import missing_needs
from relaydeck.settings import Settings, setting_warnings
from relaydeck.signers.drivers.needs import missing_driver_needs


def findings(settings: Settings, machine: Machine, progress: Progress = no_progress) -> Iterator[Finding]:
    for warning in setting_warnings():
        yield Finding("warn", "settings", warning)
    for need in (*missing_driver_needs(settings), *missing_needs(settings)):
        yield Finding("FAIL" if need.stops else "warn", "settings", need.remark)
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
