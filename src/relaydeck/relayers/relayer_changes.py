"""Changes of the state of relayers, each with its entry in the audit log and the event that reports it."""

from typing import Any

import msgspec

from relaydeck.errors import Damaged, RelayerNotFound
from relaydeck.fields import contract_view
from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.relayers import relayer_rows, snapshots
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Row
from relaydeck.store.record_table import Facts


def set_paused(context: ChangeContext, relayer_id: str, *, paused: bool) -> bool:
    """Return whether the relayer changed. Only a change has an audit entry and an event."""
    before = relayer_rows.without_urls(_row(context, relayer_id))
    if before.paused == paused:
        return False
    _write(context, relayer_id, paused=paused)
    snapshots.reset_rounds(context.transaction, relayer_id)
    kind = EventKind.RELAYER_PAUSED if paused else EventKind.RELAYER_RESUMED
    context.changed(kind.value, relayer_id, {"paused": before.paused}, {"paused": paused})
    record_event(context, kind, relayer_id)
    return True


def set_disabled(context: ChangeContext, relayer_id: str, reason: DisabledReason | None) -> EventKind:
    """Disable a relayer, or enable it again without a reason. Only the monitor does. Return the kind of the event."""
    before = relayer_rows.without_urls(_row(context, relayer_id)).disabled_reason or None
    stored = None if reason is None else msgspec.json.encode(reason).decode()
    _write(context, relayer_id, system_disabled=reason is not None, disabled_reason=stored)
    kind = EventKind.RELAYER_DISABLED if reason else EventKind.RELAYER_ENABLED
    context.changed(kind.value, relayer_id, _disabled_facts(before), _disabled_facts(reason))
    record_event(context, kind, relayer_id)
    return kind


def _disabled_facts(reason: DisabledReason | None) -> Facts:
    return {"system_disabled": reason is not None, "disabled_reason": msgspec.to_builtins(reason)}


def _write(context: ChangeContext, relayer_id: str, **values: object) -> None:
    changed = ", ".join(f"{column} = :{column}" for column in values)
    context.transaction.execute(
        f"UPDATE relayers SET {changed}, revision = :revision WHERE id = :id",
        {**values, "revision": context.transaction.revision, "id": relayer_id},
    )


def report(context: ChangeContext, kind: EventKind, relayer_id: str, details: dict[str, str]) -> None:
    """Record what was found about a relayer, which stays as it is, in the audit log and as an event."""
    context.performed(kind.value, relayer_id, details)
    record_event(context, kind, relayer_id, details)


def record_event(
    context: ChangeContext, kind: EventKind, relayer_id: str, details: dict[str, str] | None = None
) -> None:
    assert tuple(details or ()) == kind.details
    row = _row(context, relayer_id)
    try:
        relayer = relayer_rows.from_row(row, context.vault)
    except Damaged:
        relayer = relayer_rows.without_urls(row)
    events.record(
        context.transaction,
        kind,
        event_data(relayer, details),
        notification_id=relayer.notification_id or None,
        relayer_id=relayer.id,
        now=context.now,
    )


def event_data(relayer: Relayer, details: dict[str, str] | None = None) -> dict[str, Any]:
    """The relayer as the list operation shows it, with its labels. A node's URL is only scheme and host."""
    redacted = tuple(each.redacted for each in relayer.custom_rpc_urls)
    shown = contract_view(msgspec.structs.replace(relayer, custom_rpc_urls=redacted))
    labels = {"labels": relayer.labels} if relayer.labels else {}
    return {"relayer": msgspec.to_builtins(shown) | labels} | ({"details": details} if details else {})


def _row(context: ChangeContext, relayer_id: str) -> Row:
    row = context.transaction.one(f"SELECT {relayer_rows.COLUMNS} FROM relayers WHERE id = :id", {"id": relayer_id})
    if row is None:
        raise RelayerNotFound(relayer_id)
    return row
