"""Checks of a restored database that need the master key: every sealed value opens, and the audit log is complete."""

from collections.abc import Iterator
from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.database import Reader
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.sealing import Keyring


class Secrets(NamedTuple):
    """The result of a check that needs the master key."""

    opened: int
    damaged: list[Damaged]
    audit: Head | BrokenLink

    def problems(self) -> Iterator[str]:
        yield from (str(damage) for damage in self.damaged)
        if isinstance(self.audit, BrokenLink):
            yield f"the audit log is broken: entry {self.audit.seq} {self.audit.why}"


def check_secrets(reader: Reader, keyring: Keyring) -> Secrets:
    """Open every sealed value, and verify the audit log."""
    opened, damaged = 0, []
    with reader.snapshot():
        for column in SEALED_COLUMNS:
            sql = (
                f"SELECT {column.identity} AS record, {column.column} AS sealed"
                f" FROM {column.table} WHERE {column.column} IS NOT NULL"
            )
            for row in reader.stream(sql):
                try:
                    keyring.open(row.sealed, column.place(row.record))
                    opened += 1
                except Damaged as damage:
                    damaged.append(damage)
        return Secrets(opened, damaged, verify(reader.stream, keyring))
