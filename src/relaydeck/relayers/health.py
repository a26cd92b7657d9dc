"""Decides what a check means for a relayer, and saves that with its events in one transaction.

A forecast of the runway reads the history of a week, so it is made for one check in ten, and only when something may
have changed: a relayer that spends nothing costs no forecast. A runway that becomes short causes one warning.
"""

from typing import NamedTuple

from relaydeck.notifications.model import EventKind
from relaydeck.relayers import relayer_changes, snapshots
from relaydeck.relayers.balance_history import next_period
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.relayers.runway import Forecast, Unknown, forecast, is_low, read_recent
from relaydeck.relayers.snapshots import NONCE_SYNC_FAILED, Incident, NodeProblem, RelayerSnapshot, StoredRunway
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc

_MAX_NODES_SHOWN = 8  # in a reason
_EVERY_ROUNDS = 10
_REFRESH_SECONDS = 6 * 3600  # while there is a forecast, also without a change
_SHIFT = 20  # a forecast that moved by less than this part of what is left is not saved again


class CheckResult(NamedTuple):
    """The result of one check. A round fails only when no node answered at all.

    `answered` without a nonce means that a node of the right chain answered but did not return the nonce.
    """

    answered: bool
    nonce: int | None = None
    balance: int | None = None
    evidence: tuple[NodeProblem, ...] = ()  # when there is no nonce


class RunwayDecision(NamedTuple):
    """A forecast to save, with the event it causes, if any."""

    runway: StoredRunway
    kind: EventKind | None
    details: dict[str, str]


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


def save(
    context: ChangeContext, before: RelayerSnapshot, result: CheckResult, decision: RunwayDecision | None, rounds: int
) -> dict[EventKind, dict[str, str]]:
    """Save the result, and the forecast if there is one. Return the events it caused, with what to log about each.

    Does nothing when the relayer or its network changed since the check began: the next check decides.
    """
    if not _is_unchanged(context, before):
        return {}
    incident = next_incident(before, result, context.now)
    kinds = [*_change_state(context, before, result, incident, rounds), *_report_balance(context, before, incident)]
    snapshots.save_incident(context.transaction, before.relayer.id, incident)
    if _shown(incident, rounds) != _shown(before.incident, rounds):
        context.transaction.mark(snapshots.INCIDENTS)
    nodes = "; ".join(f"{each.node} {each.problem}" for each in result.evidence)
    reported = {kind: {"cause": nodes, "nodes": nodes} for kind in kinds}
    if decision is not None:
        snapshots.save_runway(context.transaction, before.sequence, decision.runway)
        if decision.kind is not None:
            relayer_changes.report(context, decision.kind, before.relayer.id, decision.details)
            reported[decision.kind] = decision.details
    return reported


def _shown(incident: Incident, rounds: int) -> Incident:
    """What pages show of it."""
    return incident._replace(failed_rounds=min(incident.failed_rounds, rounds), checked_at=0)


def _is_unchanged(context: ChangeContext, before: RelayerSnapshot) -> bool:
    row = context.transaction.one(
        "SELECT r.revision, n.revision AS network_revision"
        " FROM relayers r JOIN networks n ON n.name = r.network WHERE r.id = :id",
        {"id": before.relayer.id},
    )
    return row is not None and tuple(row) == before.revisions


def _change_state(
    context: ChangeContext, before: RelayerSnapshot, result: CheckResult, incident: Incident, rounds: int
) -> list[EventKind]:
    relayer = before.relayer
    if before.disabled_by_monitor and result.nonce is not None:
        return [relayer_changes.set_disabled(context, relayer.id, None)]
    if incident.failed_rounds >= rounds and not relayer.system_disabled:
        reason = DisabledReason(details=_details(relayer, incident), type=NONCE_SYNC_FAILED)
        return [relayer_changes.set_disabled(context, relayer.id, reason)]
    return []


def _details(relayer: Relayer, incident: Incident) -> str:
    rounds = f"{incident.failed_rounds} round{'s' if incident.failed_rounds > 1 else ''}"
    nodes = "; ".join(f"{each.node} {each.problem}" for each in incident.evidence[:_MAX_NODES_SHOWN])
    return (
        f"no RPC URL returned the nonce of {relayer.address} in {rounds} since {utc(incident.failing_since)}: {nodes}."
        " Check that the nodes run and can be reached from here. The relayer is enabled again when one returns it."
    )


def _report_balance(context: ChangeContext, before: RelayerSnapshot, incident: Incident) -> list[EventKind]:
    if incident.low_since is None or before.incident.low_since is not None:
        return []
    amounts = {"balance": str(incident.balance), "min_balance": str(before.relayer.policies.min_balance)}
    relayer_changes.report(context, EventKind.RELAYER_LOW_BALANCE, before.relayer.id, amounts)
    return [EventKind.RELAYER_LOW_BALANCE]


# -- The runway --


def forecast_is_due(checked: RelayerSnapshot, balance: int | None, interval: float, now: int) -> bool:
    """Whether to forecast with this check."""
    if balance is None or (int(now // interval) + checked.sequence) % _EVERY_ROUNDS:
        return False
    stored, last = checked.runway, checked.last_balance
    if last is None or last.balance != balance or last.since > stored.computed_at or stored.low_since is not None:
        return True
    return stored.minimum_at is not None and now - stored.computed_at >= _REFRESH_SECONDS


def decide_runway(
    read: ReadRows, checked: RelayerSnapshot, balance: int, warn_hours: int, now: int
) -> RunwayDecision | None:
    """The new forecast of a relayer, if it is to be saved."""
    periods = read_recent(read, checked.sequence, now)
    last = periods[-1] if periods else None
    if last is None or last.balance != balance:
        periods.append(next_period(last, balance, now))
    now, before, min_balance = max(now, periods[-1].since), checked.runway, checked.relayer.policies.min_balance
    found = forecast(periods, min_balance=min_balance, now=now)
    was_low = before.low_since is not None
    low = is_low(found, warn_hours=warn_hours, was_low=was_low, min_balance=min_balance, balance=balance)
    minimum_at = None if isinstance(found, str) else now + found.until_minimum.seconds
    after = StoredRunway(now, minimum_at, (before.low_since or now) if low else None)
    if low == was_low and not _moved(before, after, now):
        return None
    crossed = EventKind.RELAYER_RUNWAY_LOW if low else EventKind.RELAYER_RUNWAY_RECOVERED
    kind = None if low == was_low else crossed
    return RunwayDecision(after, kind, _runway_details(found, balance, min_balance, warn_hours))


def _moved(before: StoredRunway, after: StoredRunway, now: int) -> bool:
    if before.minimum_at is None or after.minimum_at is None:
        return before.minimum_at != after.minimum_at
    return abs(after.minimum_at - before.minimum_at) * _SHIFT >= max(after.minimum_at - now, 1)


def _runway_details(found: Forecast | Unknown, balance: int, min_balance: int, warn_hours: int) -> dict[str, str]:
    known = None if isinstance(found, str) else found
    return {
        "balance": str(balance),
        "min_balance": str(min_balance),
        "spent_per_hour": str(known.spent_per_hour) if known else "unknown",
        "seconds_until_minimum": str(known.until_minimum.seconds) if known else "unknown",
        "seconds_until_zero": str(known.until_zero.seconds) if known else "unknown",
        "warn_hours": str(warn_hours),
    }
