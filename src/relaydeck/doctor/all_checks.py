"""All checks of a home."""

import asyncio
from collections.abc import Iterator

from relaydeck.doctor import Finding
from relaydeck.doctor.database import database_findings
from relaydeck.doctor.machine import Machine, home_finding, limits_findings, machine_findings, permission_findings
from relaydeck.doctor.nodes import fault_findings
from relaydeck.errors import operator_words
from relaydeck.quantities import counted
from relaydeck.settings.issuers import Issuer
from relaydeck.settings.model import Settings, setting_warnings
from relaydeck.settings.needs import missing_needs
from relaydeck.signers.drivers.registry import missing_driver_needs
from relaydeck.store.database import ShowProgress, without_progress


def findings(settings: Settings, machine: Machine, progress: ShowProgress = without_progress) -> Iterator[Finding]:
    for warning in setting_warnings():
        yield Finding("warn", "settings", warning)
    for need in (*missing_driver_needs(settings), *missing_needs(settings)):
        yield Finding("FAIL" if need.stops else "warn", "settings", need.remark)
    home = home_finding(settings.home)
    yield home
    if home.result == "FAIL":
        return
    yield from _guarded("permissions", permission_findings(settings, machine))
    yield from _guarded("machine", machine_findings(settings, machine))
    yield from _guarded("shared limits", limits_findings(settings))
    yield from _guarded("database", database_findings(settings, machine.now, progress))
    yield from _guarded("nodes", fault_findings(settings.run_folder))
    for issuer in settings.issuers:
        yield asyncio.run(_issuer_finding(issuer))


async def _issuer_finding(issuer: Issuer) -> Finding:
    from relaydeck.credentials.json_web_tokens import IssuerFailed, TrustedIssuer

    subject, trusted = f"issuer {issuer.name}", TrustedIssuer(issuer, lambda name, problem: None)
    try:
        return Finding("ok", subject, counted(await trusted.read_keys(), "key"))
    except IssuerFailed as error:
        still = "its tokens are accepted until the keys that a service has read are a day old"
        return Finding("FAIL", subject, f"{error}; nobody can sign in with it, and {still}")
    finally:
        await trusted.close()


def _guarded(subject: str, checks: Iterator[Finding]) -> Iterator[Finding]:
    """What the system refuses to a check is a finding, and the other checks are still made."""
    try:
        yield from checks
    except OSError as error:
        yield Finding("FAIL", subject, f"{operator_words(error)[0]}; the remaining checks of it were not made")


def examine(settings: Settings, progress: ShowProgress) -> list[Finding]:
    return list(findings(settings, Machine(), progress))
