"""Changes of relayers, each with its row in the audit log and, where there is one, its event."""

from typing import Literal

import msgspec

from relaydeck.errors import RelayerNotFound
from relaydeck.networks.changes import url_fact
from relaydeck.notifications import events
from relaydeck.notifications.events import Kind
from relaydeck.relayers import records, troubles
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.store.acting import Acting, remove_row
from relaydeck.store.database import Row, Transaction
from relaydeck.store.facts import Facts, Hidden
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault

_PLAIN = ("name", "network", "network_type", "address", "signer_id", "notification_id", "paused", "system_disabled")


def create(acting: Acting, relayer: Relayer) -> None:
    records.create(acting.transaction, acting.vault, relayer, origin=acting.origin, now=acting.now)
    acting.created("relayer", relayer.id, _facts(relayer))


def update(acting: Acting, relayer: Relayer) -> None:
    """Everything but the identity and the state indicators, which stay as they are."""
    row = _row(acting.transaction, relayer.id)
    records.update(acting.transaction, acting.vault, relayer)
    states = {name: getattr(records.without_urls(row), name) for name in ("paused", "system_disabled")}
    acting.changed("relayer.updated", relayer.id, _stored_facts(row, acting.vault), _facts(relayer) | states)


def set_paused(acting: Acting, relayer_id: str, *, paused: bool) -> bool:
    """Whether that changed anything: only a change is recorded and told."""
    before = records.without_urls(_row(acting.transaction, relayer_id))
    if before.paused == paused:
        return False
    acting.transaction.execute(
        "UPDATE relayers SET paused = :paused, revision = :revision WHERE id = :id",
        {"paused": paused, "revision": acting.transaction.revision, "id": relayer_id},
    )
    troubles.forget_rounds(acting.transaction, relayer_id)
    action: Literal["relayer.paused", "relayer.resumed"] = "relayer.paused" if paused else "relayer.resumed"
    acting.changed(action, relayer_id, {"paused": before.paused}, {"paused": paused})
    _tell(acting, action, relayer_id)
    return True


def disable(acting: Acting, relayer_id: str, reason: DisabledReason) -> None:
    """By the service itself; `enable` undoes it."""
    _set_disabled(acting, relayer_id, reason)


def enable(acting: Acting, relayer_id: str) -> None:
    _set_disabled(acting, relayer_id, None)


def _set_disabled(acting: Acting, relayer_id: str, reason: DisabledReason | None) -> None:
    before = records.without_urls(_row(acting.transaction, relayer_id))
    values = {
        "disabled": reason is not None,
        "reason": None if reason is None else msgspec.json.encode(reason).decode(),
        "revision": acting.transaction.revision,
        "id": relayer_id,
    }
    acting.transaction.execute(
        "UPDATE relayers SET system_disabled = :disabled, disabled_reason = :reason, revision = :revision"
        " WHERE id = :id",
        values,
    )
    action: Literal["relayer.disabled", "relayer.enabled"] = "relayer.disabled" if reason else "relayer.enabled"
    acting.changed(action, relayer_id, _disabled_facts(before.disabled_reason), _disabled_facts(reason))
    _tell(acting, action, relayer_id)


def _disabled_facts(reason: DisabledReason | None) -> Facts:
    return {"system_disabled": reason is not None, "disabled_reason": msgspec.to_builtins(reason)}


def tell_low_balance(acting: Acting, relayer_id: str, *, balance: int, min_balance: int) -> None:
    amounts = {"balance": str(balance), "min_balance": str(min_balance)}
    acting.did("relayer.low_balance", relayer_id, amounts)
    _tell(acting, "relayer.low_balance", relayer_id, amounts)


def delete(acting: Acting, relayer_id: str) -> None:
    before = _stored_facts(_row(acting.transaction, relayer_id), acting.vault)
    remove_row(acting.transaction, "relayers", "id", relayer_id)
    acting.removed("relayer", relayer_id, before)


def _tell(acting: Acting, kind: Kind, relayer_id: str, details: dict[str, str] | None = None) -> None:
    row = _row(acting.transaction, relayer_id)
    try:
        relayer = records.from_row(row, acting.vault)
    except Damaged:
        relayer = records.without_urls(row)
    events.record(
        acting.transaction,
        kind,
        relayer=relayer,
        notification_id=relayer.notification_id,
        now=acting.now,
        details=details,
    )


def _row(transaction: Transaction, relayer_id: str) -> Row:
    row = transaction.one(f"SELECT {records.COLUMNS} FROM relayers WHERE id = :id", {"id": relayer_id})
    if row is None:
        raise RelayerNotFound(relayer_id)
    return row


def _stored_facts(row: Row, vault: Vault) -> Facts:
    try:
        return _facts(records.from_row(row, vault))
    except Damaged:
        return _facts(records.without_urls(row)) | {"custom_rpc_urls": Hidden(row[10], "damaged")}


def _facts(relayer: Relayer) -> Facts:
    policies = msgspec.to_builtins(relayer.policies)
    return {
        **{name: getattr(relayer, name) for name in _PLAIN},
        "custom_rpc_urls": url_fact(relayer.custom_rpc_urls),
        **{f"policies.{name}": value for name, value in policies.items()},
    }
