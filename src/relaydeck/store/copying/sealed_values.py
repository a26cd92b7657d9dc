"""Checks of a restored database that need the master key: every sealed value opens, and the audit log is complete."""

from collections.abc import Iterator
from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.database import Reader
from relaydeck.store.sealed_columns import check_all
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
    with reader.snapshot():
        results = list(check_all(reader, keyring))
        damaged = [each for each in results if each is not None]
        return Secrets(len(results) - len(damaged), damaged, verify(reader.stream, keyring))
