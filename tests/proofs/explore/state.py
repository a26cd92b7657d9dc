"""The content of a database as it can be compared between runs, and what must be true of it whatever happened."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relaydeck.errors import Damaged
from relaydeck.store import audit
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store
from relaydeck.store.sealed_columns import SEALED_COLUMNS, check_all
from relaydeck.store.sealing import Place
from tests.support.statements import column

State = dict[str, list[str]]

_SEALED = {(each.table, each.column): each for each in SEALED_COLUMNS}
# Who holds a lease and what was measured when is checked by the operations that change it.
_NOT_COMPARED = {"clock", "leases", "schema_versions", "removals", "balances", "runways", "console_codes"}
_NUMBERED = {"audit", "events", "deliveries"}  # without gaps: the numbers themselves are compared
# Drawn by chance or by the clock.
_VOLATILE = {"moment", "since", "until", "duration", "revision", "hash", "wrapped", "proof", "digest", "scope"}
_VOLATILE |= {"claimed_by", "claimed_until", "previous_key_until", "low_since", "failing_since", "secret_version"}
_VOLATILE |= {"url_version", "made_by_proof"}
_DRAWN = {("events", "id"), ("signer_checks", "result")}


def read_state(store: Store, apart: tuple[str, ...] = ()) -> State:
    """Rows with secrets opened, without what chance and clock decide, and without the tables `apart`."""
    with store.database.snapshot():
        return {
            table.name: sorted(_shown(store, table.name, row) for row in store.database.read(_all_of(table.name)))
            for table in store.database.tables()
            if table.name not in _NOT_COMPARED and table.name not in apart
        }


def _all_of(table: str) -> str:
    return f"SELECT * FROM {table}"


def _shown(store: Store, table: str, row: Row) -> str:
    return repr({name: _value(store, table, row, name) for name in row._fields if not _is_number(table, name)})


def _is_number(table: str, column: str) -> bool:
    return column == "seq" and table not in _NUMBERED


def _value(store: Store, table: str, row: Row, column: str) -> Any:
    value = getattr(row, column)
    if value is None:
        return None
    if column in _VOLATILE or column.endswith("_at") or (table, column) in _DRAWN:
        return "*"
    if (table, column) == ("data_keys", "id"):  # on PostgreSQL, a rotation that was rolled back leaves a gap
        return "the first" if value == 1 else "a later one"
    if sealed := _SEALED.get((table, column)):
        opened = _opened(
            store, bytes(value), sealed.place(getattr(row, sealed.identity), getattr(row, sealed.version_column, 0))
        )
        return "*" if opened is not None and table in ("idempotency_keys", "audit_keys") else opened
    return int(value) if isinstance(value, bool) else value  # SQLite has no type of its own for it


def _opened(store: Store, sealed: bytes, place: Place) -> bytes | None:
    try:
        return store.vault.open(sealed, place)
    except Damaged:
        return None  # `violations` reports it


def violations(store: Store) -> Iterator[str]:
    """What is never allowed, in whatever way the processes that wrote the database ended."""
    yield from store.database.damage()
    with store.database.snapshot():
        yield from _broken_links(store)
        yield from _unopened(store)
        yield from _repeated_nonces(store)
        yield from _late_revisions(store)
        yield from _gaps_of_events(store)
        yield from _first_tries_out_of_order(store)


def _broken_links(store: Store) -> Iterator[str]:
    found = audit.verify(store.database.stream, store.vault)
    if isinstance(found, audit.BrokenLink):
        yield f"the audit chain is broken: row {found.seq} {found.why}"


def _sealed_values(store: Store) -> Iterator[bytes]:
    for each in SEALED_COLUMNS:
        rows = store.database.read(f"SELECT {each.column} AS sealed FROM {each.table}")
        yield from (bytes(row.sealed) for row in rows if row.sealed is not None)


def _unopened(store: Store) -> Iterator[str]:
    for damage in check_all(store.database, store.vault):
        if damage is not None:
            yield f"a sealed value is damaged: {damage}"


def _repeated_nonces(store: Store) -> Iterator[str]:
    used = Counter(sealed[1:17] for sealed in _sealed_values(store))  # key id and nonce
    if any(times > 1 for times in used.values()):
        yield "two values were sealed with the same key and nonce"


def _late_revisions(store: Store) -> Iterator[str]:
    revision = revision_of(store)
    for table in store.database.tables():
        if "revision" in table.column_names and table.name != "clock":
            newest = store.database.read(f"SELECT max(revision) AS newest FROM {table.name}")[0].newest or 0
            if newest > revision:
                yield f"{table.name} has revision {newest}, but the clock has {revision}"


def _gaps_of_events(store: Store) -> Iterator[str]:
    numbers = column(store.database, "SELECT seq FROM events ORDER BY seq")
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        yield f"event numbers have gaps: {numbers}"
    for row in store.database.read(
        "SELECT e.seq FROM events e LEFT JOIN deliveries d ON d.seq = e.seq"
        " WHERE e.notification_id IS NOT NULL AND d.seq IS NULL"
    ):
        yield f"event {row.seq} has a receiver, but no delivery"


def _first_tries_out_of_order(store: Store) -> Iterator[str]:
    """Of one relayer's events to one receiver."""
    first = store.database.read(
        "SELECT d.seq, d.relayer_id, d.notification_id, min(a.seq) AS attempt FROM deliveries d"
        " JOIN attempts a ON a.delivery = d.seq WHERE d.relayer_id IS NOT NULL"
        " GROUP BY d.seq, d.relayer_id, d.notification_id ORDER BY d.seq"
    )
    for queue in {(row.relayer_id, row.notification_id) for row in first}:
        attempts = [row.attempt for row in first if (row.relayer_id, row.notification_id) == queue]
        if attempts != sorted(attempts):
            yield f"the first tries of the events of {queue} were not made in order"


def revision_of(store: Store) -> int:
    found: int = store.database.read("SELECT revision FROM clock")[0].revision
    return found


def leaks(secrets: list[bytes], *paths: Path) -> Iterator[str]:
    """Files that contain a secret in clear."""
    for path in paths:
        content = path.read_bytes() if path.is_file() else b""
        yield from (f"{path.name} contains a secret in clear" for secret in secrets if secret in content)
