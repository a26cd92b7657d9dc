"""Checks that signers have a driver and an address that it connects to, and passed their latest check."""

from collections.abc import Iterator

import msgspec

from relaydeck.doctor.finding import Finding
from relaydeck.networks.node_rule import NodeRule
from relaydeck.quantities import counted, first_few
from relaydeck.settings import Settings
from relaydeck.store.database import Reader
from relaydeck.web_addresses import key_system_address_problem

_MOST_NAMED = 5
_ADDRESS_ADVICE = (
    "it is not public, or more than a scheme, a host, a port and a plain path; allow private addresses with"
    " RELAYDECK_DRIVER_ALLOW"
)


def signer_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    yield from _unbound_findings(database, settings)
    yield from _address_findings(database, settings)
    yield from _check_findings(database)


def _unbound_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    rows = database.read("SELECT type, count(*) AS total FROM signers GROUP BY type ORDER BY type")
    for row in rows:
        if row.type not in settings.driver_bindings:
            remark = f"{counted(row.total, 'signer')} of the type {row.type} cannot be checked"
            yield Finding("warn", "signers", f"{remark}; bind a driver: RELAYDECK_DRIVER_{row.type.upper()}")


def _address_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """Where an address alone shows that nothing is sent there. Where a name leads is known when a signer is checked."""
    rule, refused = NodeRule(settings.driver_allow), []
    for row in database.stream("SELECT id, type, open_config, set_locally FROM signers ORDER BY seq"):
        if row.type in settings.driver_bindings and row.type not in settings.driver_endpoints:
            address = msgspec.json.decode(row.open_config).get("address", "")
            if address and (key_system_address_problem(address) or (not row.set_locally and rule.problem(address))):
                refused.append(repr(row.id))
    if refused:
        remark = f"nothing is sent to the config.address of {first_few(refused, _MOST_NAMED)}"
        yield Finding("FAIL", "signers", f"{remark}: {_ADDRESS_ADVICE}")


def _check_findings(database: Reader) -> Iterator[Finding]:
    checked: int = database.read("SELECT count(*) AS total FROM signer_checks")[0].total
    failing = database.read(
        "SELECT signer_id, outcome FROM signer_checks WHERE outcome <> 'ok' ORDER BY signer_id LIMIT :most",
        {"most": _MOST_NAMED + 1},
    )
    if not failing:
        if checked:
            yield Finding("ok", "signers", f"{counted(checked, 'signer')} passed the latest check")
        return
    named = ", ".join(f"{each.signer_id!r} ({each.outcome})" for each in failing[:_MOST_NAMED])
    more = " and more" if len(failing) > _MOST_NAMED else ""
    yield Finding("FAIL", "signers", f"{named}{more} failed the latest check; run 'relaydeck signer check ID'")
