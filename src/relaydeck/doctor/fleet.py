"""Checks of the fleet: disabled relayers, deliveries that were given up, and signers."""

from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.doctor.signers import signer_findings
from relaydeck.notifications.deliveries import count_deliveries
from relaydeck.quantities import counted
from relaydeck.settings import Settings
from relaydeck.store.database import Reader

_MOST_NAMED = 5


def fleet_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    yield _relayer_finding(database)
    yield _delivery_finding(database)
    yield from signer_findings(database, settings)


def _relayer_finding(database: Reader) -> Finding:
    total: int = database.read("SELECT count(*) AS total FROM relayers WHERE system_disabled", {})[0].total
    if not total:
        return Finding("ok", "relayers", "no relayer is disabled")
    rows = database.read(
        "SELECT id FROM relayers WHERE system_disabled ORDER BY seq LIMIT :most", {"most": _MOST_NAMED}
    )
    named = ", ".join(repr(row.id) for row in rows)
    more = f" and {total - len(rows)} more" if total > len(rows) else ""
    verb = "is" if total == 1 else "are"
    return Finding("FAIL", "relayers", f"{named}{more} {verb} disabled; run 'relaydeck relayer why ID'")


def _delivery_finding(database: Reader) -> Finding:
    dead = count_deliveries(database.read).dead
    if not dead:
        return Finding("ok", "deliveries", "no delivery was given up")
    given_up = f"{counted(dead, 'delivery was', 'deliveries were')} given up"
    return Finding("warn", "deliveries", f"{given_up}; 'relaydeck event replay --all-dead' sends them again")
