"""Checks of the fleet: disabled relayers, deliveries that were given up, and signers."""

from collections.abc import Iterator

import msgspec

from relaydeck.doctor.finding import Finding
from relaydeck.doctor.signers import signer_findings
from relaydeck.notifications.deliveries import count_deliveries
from relaydeck.quantities import counted
from relaydeck.relayers.model import DisabledReason
from relaydeck.settings import Settings
from relaydeck.store.database import Reader

_MOST_NAMED = 20


def fleet_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    yield from _relayer_findings(database)
    yield _delivery_finding(database)
    yield from signer_findings(database, settings)


def _relayer_findings(database: Reader) -> Iterator[Finding]:
    rows = database.read(
        "SELECT id, disabled_reason FROM relayers WHERE system_disabled ORDER BY seq LIMIT :most", {"most": _MOST_NAMED}
    )
    for row in rows:
        remark = f"is disabled: {_reason(row.disabled_reason).rstrip('.')}; see 'relaydeck relayer why {row.id}'"
        yield Finding("FAIL", f"relayer {row.id!r}", remark)
    total = database.read("SELECT count(*) FROM relayers WHERE system_disabled", {})[0][0]
    if not total:
        yield Finding("ok", "relayers", "no relayer is disabled")
    elif total > len(rows):
        yield Finding("FAIL", "relayers", f"{total - len(rows)} more are disabled")


def _reason(stored: str | None) -> str:
    return msgspec.json.decode(stored, type=DisabledReason).details if stored else "no reason is stored"


def _delivery_finding(database: Reader) -> Finding:
    dead = count_deliveries(database.read).dead
    if not dead:
        return Finding("ok", "deliveries", "no delivery was given up")
    given_up = f"{counted(dead, 'delivery was', 'deliveries were')} given up"
    return Finding("warn", "deliveries", f"{given_up}; 'relaydeck event replay --all-dead' sends them again")
