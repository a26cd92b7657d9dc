"""Changes of relayers, each with its entry in the audit log and the event that reports it, if any."""

import msgspec

from relaydeck.errors import Damaged, RelayerNotFound
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import incidents, relayer_rows
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.relayers.relayer_events import record_event
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Row
from relaydeck.store.facts import Facts, Hidden, record_facts
from relaydeck.store.vault import Vault


def create(context: ChangeContext, relayer: Relayer) -> None:
    relayer_rows.create(context.transaction, context.vault, relayer, origin=context.origin, now=context.now)
    context.created("relayer", relayer.id, relayer_facts(relayer))


def update(context: ChangeContext, relayer: Relayer) -> None:
    """Write every field except the identity and the state, which stay as they are."""
    before = _stored_facts(context, relayer.id, settable_only=True)
    relayer_rows.update(context.transaction, context.vault, relayer)
    context.changed("relayer.updated", relayer.id, before, relayer_facts(relayer, settable_only=True))


def set_paused(context: ChangeContext, relayer_id: str, *, paused: bool) -> bool:
    """Return whether the relayer changed. Only a change has an audit entry and an event."""
    before = relayer_rows.without_urls(_row(context, relayer_id))
    if before.paused == paused:
        return False
    context.transaction.execute(
        "UPDATE relayers SET paused = :paused, revision = :revision WHERE id = :id",
        {"paused": paused, "revision": context.transaction.revision, "id": relayer_id},
    )
    incidents.reset_rounds(context.transaction, relayer_id)
    kind = EventKind.RELAYER_PAUSED if paused else EventKind.RELAYER_RESUMED
    context.changed(kind.value, relayer_id, {"paused": before.paused}, {"paused": paused})
    _record_event(context, kind, relayer_id)
    return True


def disable(context: ChangeContext, relayer_id: str, reason: DisabledReason) -> None:
    """Only the monitor disables a relayer, and only it enables one again."""
    _set_disabled(context, relayer_id, reason)


def enable(context: ChangeContext, relayer_id: str) -> None:
    _set_disabled(context, relayer_id, None)


def _set_disabled(context: ChangeContext, relayer_id: str, reason: DisabledReason | None) -> None:
    before = relayer_rows.without_urls(_row(context, relayer_id))
    values = {
        "disabled": reason is not None,
        "reason": None if reason is None else msgspec.json.encode(reason).decode(),
        "revision": context.transaction.revision,
        "id": relayer_id,
    }
    context.transaction.execute(
        "UPDATE relayers SET system_disabled = :disabled, disabled_reason = :reason, revision = :revision"
        " WHERE id = :id",
        values,
    )
    kind = EventKind.RELAYER_DISABLED if reason else EventKind.RELAYER_ENABLED
    context.changed(kind.value, relayer_id, _disabled_facts(before.disabled_reason or None), _disabled_facts(reason))
    _record_event(context, kind, relayer_id)


def _disabled_facts(reason: DisabledReason | None) -> Facts:
    return {"system_disabled": reason is not None, "disabled_reason": msgspec.to_builtins(reason)}


def report_low_balance(context: ChangeContext, relayer_id: str, *, balance: int, min_balance: int) -> None:
    amounts = {"balance": str(balance), "min_balance": str(min_balance)}
    context.performed(EventKind.RELAYER_LOW_BALANCE.value, relayer_id, amounts)
    _record_event(context, EventKind.RELAYER_LOW_BALANCE, relayer_id, amounts)


def report_runway(context: ChangeContext, kind: EventKind, relayer_id: str, details: dict[str, str]) -> None:
    context.performed(kind.value, relayer_id, details)
    _record_event(context, kind, relayer_id, details)


def report_signer(context: ChangeContext, kind: EventKind, relayer_id: str, details: dict[str, str]) -> None:
    """Record what a check of its signer found. The relayer stays as it is."""
    _record_event(context, kind, relayer_id, details)


def delete(context: ChangeContext, relayer_id: str) -> None:
    context.remove("relayer", relayer_id, _stored_facts(context, relayer_id))


def _record_event(
    context: ChangeContext, kind: EventKind, relayer_id: str, details: dict[str, str] | None = None
) -> None:
    record_event(context, kind, _row(context, relayer_id), details)


def _row(context: ChangeContext, relayer_id: str) -> Row:
    row = context.transaction.one(f"SELECT {relayer_rows.COLUMNS} FROM relayers WHERE id = :id", {"id": relayer_id})
    if row is None:
        raise RelayerNotFound(relayer_id)
    return row


def _stored_facts(context: ChangeContext, relayer_id: str, *, settable_only: bool = False) -> Facts:
    return stored_facts(_row(context, relayer_id), context.vault, settable_only=settable_only)


def stored_facts(row: Row, vault: Vault, *, settable_only: bool = False) -> Facts:
    try:
        return relayer_facts(relayer_rows.from_row(row, vault), settable_only=settable_only)
    except Damaged:
        sealed = relayer_rows.TABLE.sealed_value(row, "custom_rpc_urls")
        facts = relayer_facts(relayer_rows.without_urls(row), settable_only=settable_only)
        return facts | {"custom_rpc_urls": Hidden(sealed, "damaged")}


def relayer_facts(relayer: Relayer, *, settable_only: bool = False) -> Facts:
    return record_facts(relayer, "id", settable_only=settable_only)
