"""Networks, signers and notifications as the admin API shows them."""

from typing import Any

import msgspec

from relaydeck.admin.bodies import Signer
from relaydeck.admin.views import RecordView, ShowRow, etag, json_values, record_view
from relaydeck.errors import Damaged
from relaydeck.networks.model import FeeToken
from relaydeck.notifications import notification_rows
from relaydeck.provisioning.export import keyed_documents
from relaydeck.signers.check_report import stored_report
from relaydeck.signers.signer_types import response_type
from relaydeck.store.database import Row
from relaydeck.store.record_table import RecordTable
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

SIGNER_COLUMNS = (
    "id, type, open_config, created_at, revision,"
    " (SELECT result FROM signer_checks WHERE signer_id = signers.id) AS latest_check"
)


def network_view(table: RecordTable[Any]) -> ShowRow:
    """A network with its fee tokens by symbol, in the form that an apply file has."""
    show_record = record_view(table)

    def show(row: Row, vault: Vault) -> RecordView:
        view = show_record(row, vault)
        tokens = msgspec.convert(view.body["fee_tokens"], tuple[FeeToken, ...])
        return view._replace(body=view.body | {"fee_tokens": keyed_documents(tokens, "symbol")})

    return show


def signer_view(row: Row, _vault: Vault) -> RecordView:
    signer = Signer(
        id=row.id,
        type=response_type(row.type),
        config=msgspec.json.decode(row.open_config),
        check=None if row.latest_check is None else stored_report(row.latest_check),
        created_at=utc(row.created_at),
    )
    return RecordView(json_values(signer), etag(row[:-1]))  # a check does not change the signer


def notification_view(row: Row, vault: Vault) -> RecordView:
    notes: tuple[str, ...] = ()
    try:
        notification = notification_rows.from_row(row, vault)
    except Damaged as damage:
        notification, notes = notification_rows.without_url(row), (f"{damage}",)
    return RecordView(json_values(notification) | {"created_at": utc(row.created_at)}, etag(row), notes)
