"""Rows as the admin API shows them: without secrets, but with RPC URLs, which the list operation shows too."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from relaydeck.admin.documents import Json
from relaydeck.errors import Damaged
from relaydeck.fields import response_view
from relaydeck.store.database import Row
from relaydeck.store.record_table import RecordTable
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc


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


def etag(row: tuple[Any, ...]) -> str:
    """Covers the whole row with its revision and sealed parts: two changes can share a revision, but no content."""
    return f'"{hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]}"'


def record_view(table: RecordTable[Any]) -> ShowRow:
    """Shows a row of the table's columns, `created_at` and `revision`. Fields that do not open are left out."""

    def show(row: Row, vault: Vault) -> RecordView:
        notes: tuple[str, ...] = ()
        try:
            body = json_values(response_view(table.from_row(row, vault)))
        except Damaged as damage:
            body, notes = json_values(table.without_sealed(row)), (f"{damage}",)
            for name in table.sealed_fields:
                body.pop(name, None)
        return RecordView(body | {"created_at": utc(row.created_at)}, etag(row), notes)

    return show
