"""`relaydeck doctor`: one line for each check, with what to do where something is wrong. It changes nothing."""

import sys
from collections.abc import Iterator
from itertools import chain

import click
import msgspec

from relaydeck.cli.options import anywhere, as_json
from relaydeck.cli.output import print_json, print_styled
from relaydeck.cli.target import require_home, target
from relaydeck.doctor import Finding
from relaydeck.errors import OperatorError
from relaydeck.settings.model import read_settings

_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}


@click.command()
@click.option("--production", is_flag=True, help="Also check what a service for others needs; see docs/production.md.")
@as_json(Finding, many=True)
@anywhere
def doctor(production: bool, as_json: bool) -> None:
    """Check settings, home, disk, clock, database, keys, audit log, relayers, signers, deliveries and RPC URLs.

    On a server: checks whether it answers and accepts the token, then shows what the same checks find on its machine.

    With --production, on the machine of the home and with the settings of the service: also whether it is ready for
    production (TLS, master key, backups, alerts, rate limit, retention, plain signers, owner tokens, protections,
    webhooks).

    Reports each problem with what to do about it. Changes nothing. Exits 1 if a check fails.
    """
    if production:
        require_home()
    found = []
    for finding in chain(target().findings(), _production() if production else ()):
        found.append(finding)
        if not as_json:
            label = f"{finding.result:<4}  "
            print_styled((label, _COLOURS[finding.result]), (f"{finding.subject}: {finding.remark}", ""))
    if as_json:
        print_json(msgspec.to_builtins(found))
    if any(finding.result == "FAIL" for finding in found):
        sys.exit(1)


def _production() -> Iterator[Finding]:
    from relaydeck.doctor.machine import home_finding
    from relaydeck.doctor.production import production_findings

    try:
        settings = read_settings()
    except OperatorError:
        return  # which the first checks have found
    if home_finding(settings.home).result == "ok":
        yield from production_findings(settings)
