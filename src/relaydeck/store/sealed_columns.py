"""The columns that hold sealed values, and the versions of these values.

The version of a value is the number of audit entries that existed when it was sealed. It is stored beside the value and
bound to it, so an old value that is put back does not open. Someone who puts back the version as well is found in the
audit log, which nobody can change without the master key: each change of a sealed value has an entry, so no more than
one entry about the value, its own, is newer than its version.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.store.audit import Opener
from relaydeck.store.database import Advance, Execute, Reader, Row
from relaydeck.store.sealing import Keyring, Place
from relaydeck.web_addresses import may_contain_key, shown_address

VERSIONS_SINCE = 17  # the migration step that adds the columns
URLS_SINCE = 19  # the migration step since which URLs of webhooks are sealed as now
VERSION = "secret_version"
_BATCH_ROWS = 500


class SealedColumn(NamedTuple):
    table: str
    identity: str  # the column that names the record
    column: str
    field: str
    audited: str = ""  # the field as the audit log names it; empty: the value never changes and has version 0
    first_field: str = ""  # the field that values of the first format are bound to, where it differs
    version_column: str = VERSION

    @property
    def resource(self) -> str:
        return self.table.removesuffix("s")

    @property
    def selected(self) -> str:
        """Columns to select, for `place_of`."""
        version = self.version_column if self.audited else 0
        return f"{self.identity} AS record, {self.column} AS sealed, {version} AS version"

    def place_of(self, row: Row) -> Place:
        return self.place(row.record, row.version)

    def place(self, record: str, version: int) -> Place:
        return Place(self.table, record, self.field, version)


SEALED_COLUMNS = (
    SealedColumn("networks", "name", "sealed_rpc_urls", "rpc_urls", "rpc_urls"),
    SealedColumn("signers", "id", "sealed_config", "config", "config"),
    SealedColumn("notifications", "id", "sealed_signing_key", "signing_key", "signing_key"),
    SealedColumn("notifications", "id", "sealed_previous_key", "previous_key", "signing_key", "signing_key"),
    SealedColumn("notifications", "id", "sealed_url", "url", "url", version_column="url_version"),
    SealedColumn("relayers", "id", "sealed_rpc_urls", "custom_rpc_urls", "custom_rpc_urls"),
    SealedColumn("audit_keys", "name", "sealed_key", "key"),
    SealedColumn("idempotency_keys", "scope", "sealed_answer", "answer"),
    SealedColumn("proposals", "id", "sealed_request", "request"),
)
FIRST_COLUMNS = tuple(each for each in SEALED_COLUMNS if each.table != "proposals")  # when versions were added


class PutBack(Damaged):
    """A sealed value that opens, but that the audit log knows as replaced or removed."""

    problem = "is an old one: the audit log shows that it was replaced or removed"


def check_all(reader: Reader, opener: Opener) -> Iterator[Damaged | None]:
    """For every sealed value its problem, or None. Inside a snapshot."""
    for column in SEALED_COLUMNS:
        replaced = _replaced(reader, column) if column.audited else set()
        for row in reader.stream(f"SELECT {column.selected} FROM {column.table} WHERE {column.column} IS NOT NULL"):
            yield _problem(opener, column, row, replaced)


def _problem(opener: Opener, column: SealedColumn, row: Row, replaced: set[str]) -> Damaged | None:
    try:
        opener.open(row.sealed, column.place_of(row))
    except Damaged as damage:
        return damage
    return PutBack(column.table, row.record, column.field) if row.record in replaced else None


def changes_of(column: SealedColumn) -> str:
    """A query for the entries about each value, with their place from the newest on."""
    return (
        "SELECT record, seq, row_number() OVER (PARTITION BY record ORDER BY seq DESC) AS place FROM audit"
        f" WHERE action IN ('{column.resource}.created', '{column.resource}.deleted')"
        f" OR (action = '{column.resource}.updated' AND after_change LIKE '%\"{column.audited}\":%')"
    )


def _replaced(reader: Reader, column: SealedColumn) -> set[str]:
    """The records with at least two entries about the value that are newer than its version."""
    rows = reader.stream(
        f"SELECT {column.identity} AS record FROM {column.table} t"
        f" JOIN ({changes_of(column)}) c ON c.record = t.{column.identity}"
        f" WHERE t.{column.column} IS NOT NULL AND c.place = 2 AND t.{column.version_column} < c.seq"
    )
    return {row.record for row in rows}


def add_versions(execute: Execute, keyring: Keyring, advance: Advance) -> None:
    """Seal the values of earlier versions again. Inside the migration that adds the columns."""
    ((version,),) = execute("SELECT coalesce(max(seq), 0) FROM audit").fetchall()
    for column in FIRST_COLUMNS:
        after = 0
        while rows := execute(
            f"SELECT seq, {column.identity}, {column.column} FROM {column.table}"
            f" WHERE seq > :after AND {column.column} IS NOT NULL ORDER BY seq LIMIT {_BATCH_ROWS}",
            {"after": after},
        ).fetchall():
            after = rows[-1][0]
            for seq, record, sealed in rows:
                _add_version(execute, keyring, column, seq, record, sealed, version if column.audited else 0)
            advance(len(rows))


def _add_version(
    execute: Execute, keyring: Keyring, column: SealedColumn, seq: int, record: str, sealed: bytes, version: int
) -> None:
    first = Place(column.table, record, column.first_field or column.field)
    try:
        plain = keyring.open_first_format(sealed, first)
    except Damaged:
        return  # it stays as it is, and does not open as before
    also = f", {column.version_column} = :version" if column.audited else ""
    execute(
        f"UPDATE {column.table} SET {column.column} = :sealed{also} WHERE seq = :seq",
        {"sealed": keyring.seal(plain, column.place(record, version)), "seq": seq}
        | ({"version": version} if column.audited else {}),
    )


def urls_in_clear(reader: Reader) -> list[str]:
    """The notifications with a URL that should be sealed: an earlier version wrote it after the migration."""
    rows = reader.read("SELECT id, url FROM notifications ORDER BY seq")
    return [row.id for row in rows if may_contain_key(row.url)]


def seal_webhook_urls(execute: Execute, seal: Callable[[bytes, Place], bytes]) -> int:
    """Seal the URLs that earlier versions stored in clear. Returns how many there were."""
    ((version,),) = execute("SELECT coalesce(max(seq), 0) FROM audit").fetchall()
    found = execute("SELECT seq, id, url FROM notifications").fetchall()
    clear = [each for each in found if may_contain_key(each[2])]
    for seq, record, url in clear:
        sealed = seal(url.encode(), Place("notifications", record, "url", version))
        execute(
            "UPDATE notifications SET url = :shown, sealed_url = :sealed, url_version = :version WHERE seq = :seq",
            {"shown": shown_address(url), "sealed": sealed, "version": version, "seq": seq},
        )
    return len(clear)
