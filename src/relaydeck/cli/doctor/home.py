"""The checks of a home."""

from collections.abc import Iterator

from relaydeck.cli.backend import Finding
from relaydeck.cli.doctor.database import database_findings
from relaydeck.cli.doctor.limits import limits_findings
from relaydeck.cli.doctor.machine import Machine, home_finding, machine_findings
from relaydeck.settings import Settings, setting_warnings


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
