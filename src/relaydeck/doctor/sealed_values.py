"""Checks that every sealed value opens."""

from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.errors import Damaged
from relaydeck.store.database import Reader
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.sealing import Keyring


def sealed_value_findings(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    opened = damaged = 0
    for column in SEALED_COLUMNS:
        columns = f"{column.identity} AS record, {column.column} AS sealed"
        for row in database.stream(f"SELECT {columns} FROM {column.table} WHERE {column.column} IS NOT NULL"):
            try:
                keyring.open(row.sealed, column.place(row.record))
                opened += 1
            except Damaged as damage:
                damaged += 1
                yield Finding("FAIL", "sealed values", f"{damage}; restore the record, or set it again")
    if not damaged:
        yield Finding("ok", "sealed values", f"all {opened} open")
