"""What the result of a check means for a relayer: decided, and saved with its events in one transaction."""

from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import incidents, relayer_changes
from relaydeck.relayers.incidents import CheckResult, Incident
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.relayers.snapshots import NONCE_SYNC_FAILED, RelayerSnapshot
from relaydeck.store.change_context import ChangeContext
from relaydeck.timestamps import utc

_MAX_NODES_SHOWN = 8  # in a reason


def next_incident(before: RelayerSnapshot, result: CheckResult, now: int) -> Incident:
    """The relayer's incident after this check."""
    incident = _after_balance(before, result.balance, now)
    if result.nonce is not None or (result.answered and not before.disabled_by_monitor):
        return incident._replace(failed_rounds=0, failing_since=None, evidence=())
    incident = incident._replace(evidence=result.evidence, checked_at=now)
    if result.answered:
        return incident  # the relayer stays disabled until a node returns the nonce
    continues = before.disabled_by_monitor or incident.failed_rounds > 0
    since = incident.failing_since if continues else None
    return incident._replace(failed_rounds=incident.failed_rounds + 1, failing_since=since or now)


def _after_balance(before: RelayerSnapshot, balance: int | None, now: int) -> Incident:
    incident = before.incident
    if balance is None:
        return incident
    if balance >= before.relayer.policies.min_balance:
        return incident._replace(low_since=None, balance=None)
    if incident.low_since is None:
        return incident._replace(low_since=now, balance=balance, checked_at=now)
    return incident  # reported once, until the balance has recovered


def needs_saving(before: RelayerSnapshot, result: CheckResult, now: int) -> bool:
    """False for a healthy relayer and for one whose state did not change: most checks write nothing."""
    if result.nonce is not None and before.disabled_by_monitor:
        return True
    return next_incident(before, result, now) != before.incident


def save_result(context: ChangeContext, before: RelayerSnapshot, result: CheckResult, rounds: int) -> list[EventKind]:
    """Save the result and return the kinds of the events it caused.

    Does nothing when the relayer or its network changed since the check began: the next check decides.
    """
    if not is_unchanged(context, before):
        return []
    incident = next_incident(before, result, context.now)
    kinds = [*_change_state(context, before, result, incident, rounds), *_report_balance(context, before, incident)]
    incidents.save(context.transaction, before.relayer.id, incident)
    return kinds


def _change_state(
    context: ChangeContext, before: RelayerSnapshot, result: CheckResult, incident: Incident, rounds: int
) -> list[EventKind]:
    relayer = before.relayer
    if before.disabled_by_monitor and result.nonce is not None:
        relayer_changes.enable(context, relayer.id)
        return [EventKind.RELAYER_ENABLED]
    if incident.failed_rounds >= rounds and not relayer.system_disabled:
        reason = DisabledReason(details=_details(relayer, incident), type=NONCE_SYNC_FAILED)
        relayer_changes.disable(context, relayer.id, reason)
        return [EventKind.RELAYER_DISABLED]
    return []


def _report_balance(context: ChangeContext, before: RelayerSnapshot, incident: Incident) -> list[EventKind]:
    if incident.low_since is None or before.incident.low_since is not None:
        return []
    assert incident.balance is not None
    least = before.relayer.policies.min_balance
    relayer_changes.report_low_balance(context, before.relayer.id, balance=incident.balance, min_balance=least)
    return [EventKind.RELAYER_LOW_BALANCE]


def is_unchanged(context: ChangeContext, before: RelayerSnapshot) -> bool:
    row = context.transaction.one(
        "SELECT r.revision, n.revision AS network_revision"
        " FROM relayers r JOIN networks n ON n.name = r.network WHERE r.id = :id",
        {"id": before.relayer.id},
    )
    return row is not None and tuple(row) == before.revisions


def _details(relayer: Relayer, incident: Incident) -> str:
    rounds = f"{incident.failed_rounds} round{'s' if incident.failed_rounds > 1 else ''}"
    nodes = "; ".join(f"{each.node} {each.problem}" for each in incident.evidence[:_MAX_NODES_SHOWN])
    return (
        f"no RPC URL returned the nonce of {relayer.address} in {rounds} since {utc(incident.failing_since)}: {nodes}."
        " Check that the nodes run and can be reached from here. The relayer is enabled again when one returns it."
    )
