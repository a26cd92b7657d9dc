"""Events about relayers: each shows the relayer as the list operation does."""

from typing import Any

import msgspec

from relaydeck.errors import Damaged
from relaydeck.fields import contract_view
from relaydeck.notifications import events
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Row


def record_event(context: ChangeContext, kind: EventKind, row: Row, details: dict[str, str] | None = None) -> None:
    assert tuple(details or ()) == kind.details
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
    """The data of an event about a relayer."""
    data: dict[str, Any] = {"relayer": _shown(relayer)}
    if details:
        data["details"] = details
    return data


def _shown(relayer: Relayer) -> dict[str, Any]:
    """The fields of the list operation. A node's URL is reduced to scheme and host, because its path may be a key."""
    redacted = tuple(each.redacted for each in relayer.custom_rpc_urls)
    shown: dict[str, Any] = msgspec.to_builtins(
        contract_view(msgspec.structs.replace(relayer, custom_rpc_urls=redacted))
    )
    return shown
