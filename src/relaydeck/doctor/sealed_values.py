"""Checks that every sealed value opens and is the newest one, and that no value is in clear that should be sealed."""

from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.store.database import Reader
from relaydeck.store.sealed_columns import check_all, urls_in_clear
from relaydeck.store.sealing import Keyring


def sealed_value_findings(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    checked = damaged = 0
    for damage in check_all(database, keyring):
        checked += 1
        if damage is not None:
            damaged += 1
            yield Finding("FAIL", "sealed values", f"{damage}; restore the record, or set it again")
    if not damaged:
        yield Finding("ok", "sealed values", f"all {checked} open")
    for record in urls_in_clear(database):
        problem = f"the URL of notification {record} is not sealed; run: relaydeck key rotate"
        yield Finding("warn", "sealed values", problem)
