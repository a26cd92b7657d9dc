"""Checks of the fleet: relayers that are disabled or lack a node, failed deliveries, signers, growth."""

from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.doctor.signers import signer_findings
from relaydeck.notifications.attempt_errors import describe_error
from relaydeck.notifications.deliveries import count_replayable
from relaydeck.notifications.failing_receivers import COUNT_LIMIT, FailingReceiver, failing_receivers
from relaydeck.quantities import counted, first_few
from relaydeck.settings import Settings
from relaydeck.store.database import Reader
from relaydeck.timestamps import utc

_MOST_NAMED = 5
_MANY_BYTES, _MUCH_BYTES = 100_000, 20_000_000  # of signers: from the first on it is shown, above the second it warns
_LATEST_ENTRIES = 100_000  # of the audit log: a bound on the work, not on a day
_GROWTH = (
    "SELECT a.actor, count(*) AS records,"
    " sum(coalesce(length(s.sealed_config), 0) + coalesce(length(s.open_config), 0)) AS stored"
    " FROM (SELECT * FROM audit ORDER BY seq DESC LIMIT :entries) AS a"
    " LEFT JOIN signers s ON a.action = 'signer.created' AND s.id = a.record"
    " WHERE a.moment > :since AND a.action IN ('signer.created', 'notification.created', 'relayer.created',"
    " 'network.created', 'token.created') GROUP BY a.actor ORDER BY stored DESC, records DESC LIMIT :most"
)
_NODELESS = (
    "SELECT name FROM networks WHERE sealed_rpc_urls IS NULL AND EXISTS"
    " (SELECT 1 FROM relayers WHERE network = networks.name AND relayers.sealed_rpc_urls IS NULL) ORDER BY seq"
)
_SEE = "see 'relaydeck event deliveries --state pending'"


def fleet_findings(database: Reader, settings: Settings, now: float) -> Iterator[Finding]:
    yield _relayer_finding(database)
    yield from _nodeless_findings(database)
    yield _delivery_finding(database)
    yield from _receiver_findings(database)
    yield from signer_findings(database, settings)
    yield _growth_finding(database, now)


def _growth_finding(database: Reader, now: float) -> Finding:
    rows = database.read(_GROWTH, {"entries": _LATEST_ENTRIES, "since": int(now) - 86_400, "most": _MOST_NAMED})
    if not rows:
        return Finding("ok", "growth", "nothing was created in the last day")
    made = [f"{row.actor!r} created {counted(row.records, 'record')}{_megabytes(row.stored)}" for row in rows]
    remark = f"in the last day {', '.join(made)}"
    if rows[0].stored <= _MUCH_BYTES:
        return Finding("ok", "growth", remark)
    return Finding("warn", "growth", f"{remark}; if that is too much, run 'relaydeck token revoke NAME'")


def _megabytes(stored: int) -> str:
    return f" ({stored / 1e6:.1f} MB)" if stored >= _MANY_BYTES else ""


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


def _nodeless_findings(database: Reader) -> Iterator[Finding]:
    if names := [repr(row.name) for row in database.read(_NODELESS, {})]:
        lacking = f"relayers of {first_few(names, _MOST_NAMED)} have no node"
        yield Finding(
            "warn", "relayers", f"{lacking}: they are not checked, and estimates fail; add rpc_urls to the network"
        )


def _delivery_finding(database: Reader) -> Finding:
    """Nothing can be done about a delivery to a notification that was deleted."""
    dead = count_replayable(database.read)
    if not dead:
        return Finding("ok", "deliveries", "no delivery was given up")
    given_up = f"{counted(dead, 'delivery was', 'deliveries were')} given up"
    them = "it" if dead == 1 else "them"
    return Finding("warn", "deliveries", f"{given_up}; 'relaydeck event replay --all-dead' sends {them} again")


def _receiver_findings(database: Reader) -> Iterator[Finding]:
    failing = failing_receivers(database.read, _MOST_NAMED + 1)
    if not failing:
        yield Finding("ok", "notifications", "no delivery waits after a failed attempt")
    for each in failing[:_MOST_NAMED]:
        yield Finding("warn", "notifications", _failing_remark(each))
    if len(failing) > _MOST_NAMED:
        yield Finding("warn", "notifications", f"deliveries to other receivers wait after failed attempts, too; {_SEE}")


def _failing_remark(each: FailingReceiver) -> str:
    """Does not claim that the receiver fails now: it may have recovered since the failed attempt."""
    waiting = f"{'at least ' if each.waiting == COUNT_LIMIT else ''}{counted(each.waiting, 'delivery', 'deliveries')}"
    verb = "is" if each.waiting == 1 else "are"
    failure = f"an attempt failed at {utc(each.failed_at / 1000)}: {describe_error(each.status, each.problem)}"
    return f"{waiting} to {each.notification_id!r} {verb} waiting; {failure}; {_SEE}"
