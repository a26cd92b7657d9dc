"""Rows as the admin API shows them: without secrets, but with RPC URLs, which the list operation shows too."""

import hashlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.admin.bodies import AuditEntry, Signer, Token
from relaydeck.errors import Damaged
from relaydeck.networks.model import FeeToken
from relaydeck.notifications import notification_rows
from relaydeck.provisioning.export import keyed_documents
from relaydeck.signers.check import SignerCheck
from relaydeck.signers.check_report import check_report
from relaydeck.signers.signer_types import response_type
from relaydeck.store.database import Row
from relaydeck.store.record_table import RecordTable
from relaydeck.store.row_proofs import TOKEN_COLUMNS
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

Json = dict[str, Any]
_proven = attrgetter(*TOKEN_COLUMNS)


class RecordView(NamedTuple):
    """A record as JSON values, the entity tag of its row, and notes for the caller."""

    body: Json
    etag: str = ""
    notes: tuple[str, ...] = ()


ShowRow = Callable[[Row, Vault], RecordView]


def json_values(record: msgspec.Struct) -> Json:
    """The record as JSON values: lists where it has tuples, and nothing for an unset field."""
    body: Json = msgspec.json.decode(msgspec.json.encode(record))
    return body


def _etag(row: tuple[Any, ...]) -> str:
    """Covers the whole row with its revision and sealed parts: two changes can share a revision, but no content."""
    return f'"{hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]}"'


def record_view(table: RecordTable[Any]) -> ShowRow:
    """Shows a row of the table's columns, `created_at` and `revision`. Fields that do not open are left out."""

    def show(row: Row, vault: Vault) -> RecordView:
        notes: tuple[str, ...] = ()
        try:
            body = json_values(table.from_row(row, vault))
        except Damaged as damage:
            body, notes = json_values(table.without_sealed(row)), (f"{damage}",)
            for name in table.sealed_fields:
                body.pop(name, None)
        return RecordView(body | {"created_at": utc(row.created_at)}, _etag(row), notes)

    return show


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
        check=None
        if row.latest_check is None
        else check_report(msgspec.json.decode(row.latest_check, type=SignerCheck)),
        created_at=utc(row.created_at),
    )
    return RecordView(json_values(signer), _etag(row[:-1]))  # a check does not change the signer


def notification_view(row: Row, _vault: Vault) -> RecordView:
    body = json_values(notification_rows.from_row(row)) | {"created_at": utc(row.created_at)}
    return RecordView(body, _etag(row))


def token_view(row: Row, vault: Vault) -> RecordView:
    token = Token(
        name=row.name,
        kind=row.kind,
        state=row.state if vault.proofs.holds(row.proof, "tokens", _proven(row)) else "refused",
        created_at=utc(row.created_at),
        expires_at=utc(row.expires_at),
        revoked_at=utc(row.revoked_at),
    )
    return RecordView(json_values(token))


def audit_view(row: Row, _vault: Vault) -> RecordView:
    entry = AuditEntry(
        sequence=row.seq,
        at=utc(row.moment),
        actor=row.actor,
        action=row.action,
        record=row.record,
        before=row.before_change and msgspec.json.decode(row.before_change),
        after=row.after_change and msgspec.json.decode(row.after_change),
        hash=row.hash.hex(),
        origin=UNSET if row.origin is None else row.origin,
    )
    return RecordView(json_values(entry))
