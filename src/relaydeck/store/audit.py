"""The audit log: who changed what and when, written in the transaction of the change.

Each row holds a keyed hash (BLAKE2b, RFC 7693) of its content and of the hash before it. An attacker who can write to
the database but does not have the master key cannot change, remove or reorder rows without breaking a link of this
chain. Removing the newest rows breaks no link, but then the chain lacks the signed head that each transaction stores
in the row of the clock. An attacker who puts back an old copy of both, and of SQLite's count of entries, leaves no
trace in the database: a head that was saved elsewhere reveals that too, such as the one that receivers get with events.

Old entries may be archived (`audit_archive.py`). The chain then begins at the head of the last archived one, which is
stored sealed, with a hash of the archived entries that stayed. A later entry records both: what another database has
sealed with the same keys, such as a copy, proves nothing here.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple

from relaydeck.errors import BadRequest, Damaged, ServerFailure
from relaydeck.store.database import EMPTY_CHAIN, ReadRows, Row, Transaction
from relaydeck.store.rows import Stage, StagedRows
from relaydeck.store.scoped import EVERYTHING
from relaydeck.store.sealing import Place, RowProofs, derived_key
from relaydeck.store.vault import Vault

_KEY_PLACE = Place("audit_keys", "chain", "key")
ARCHIVE_PLACE = Place("audit_keys", "archive", "key")
ARCHIVED = "audit.archived"
_KEY_SQL = "SELECT sealed_key FROM audit_keys WHERE name = 'chain'"
_CONTENT = ("seq", "moment", "actor", "action", "record", "before_change", "after_change")
_NAMES = (*_CONTENT, "hash", "origin")
COLUMNS = ", ".join(_NAMES)
_ROWS = f"SELECT {COLUMNS} FROM audit"
COUNT_SQL = "SELECT count(*) AS total FROM audit"
_TYPES = (int, int, str, str, str, str | None, str | None, bytes, str | None)
_STAGED = ("action", "record", "before_change", "after_change")
_APPEND_STAGED = (
    f"INSERT INTO audit (seq, moment, actor, {', '.join(_STAGED)}, hash, origin)"
    f" SELECT :first + position, :moment, :actor, {', '.join(_STAGED)},"
    " substr(:links, CAST(position * 32 + 1 AS integer), 32), :origin FROM {}"
)
_LATEST_ENTRIES = 100_000  # a bound on the work, not on a day
# What is large in a record of each kind. Their lengths are its size.
_SIZES = {
    "networks": "length(name) + coalesce(length(sealed_rpc_urls), 0) + length(fee_tokens)",
    "signers": "length(id) + length(open_config) + length(sealed_config)",
    "notifications": "length(id) + length(url) + coalesce(length(sealed_url), 0)"
    " + coalesce(length(sealed_signing_key), 0)",
    "relayers": "length(id) + length(name) + coalesce(length(sealed_rpc_urls), 0) + length(policies)",
    "tokens": "length(name)",
}
_LINK_BYTES = 32  # the hash of an entry
_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


_encode = msgspec.json.Encoder().encode


class Head(NamedTuple):
    """The end of the chain at some moment. Saved elsewhere, it proves that no row up to it was removed."""

    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"


EMPTY = Head(*EMPTY_CHAIN)


def read_head(text: str) -> Head | None:
    """A head from its text; None when it is not one."""
    match = _HEAD.fullmatch(text)
    return Head(int(match[1]), bytes.fromhex(match[2])) if match else None


class Entry(NamedTuple):
    """A row of the log."""

    seq: int
    moment: int
    actor: str
    action: str
    record: str
    before_change: str | None
    after_change: str | None
    hash: bytes
    origin: str | None


class Archive(msgspec.Struct, frozen=True):
    """What proves the part of the log that was archived."""

    seq: int  # of the last archived entry
    hash: bytes
    moment: int
    stayed: bytes  # a keyed hash of the archived entries that stayed in the database

    @property
    def head(self) -> Head:
        return Head(self.seq, self.hash)


NO_ARCHIVE = Archive(*EMPTY, 0, bytes(32))


class ArchiveRecord(msgspec.Struct, frozen=True):
    """What the entry about a step of an archive records. Its `record` is the head of the last entry in the file."""

    after: str = ""  # the head before the first entry in the file
    last: int = 0  # the last entry of the step
    stayed: str = ""  # of the archive after the step, in hexadecimal digits


class Opener(Protocol):
    """Opens the chain's key and checks the stored head: a vault, or a keyring."""

    proofs: RowProofs

    def open(self, sealed: bytes, place: Place) -> bytes: ...


class BrokenLink(NamedTuple):
    seq: int
    why: str


class AuditEntry(msgspec.Struct, frozen=True, gc=False):
    """The content of an entry, in the order of `_CONTENT`: `before` and `after` are JSON objects, without secrets."""

    moment: int
    actor: str
    action: str
    record: str
    before: str | None = None
    after: str | None = None


EntryContent = tuple[str, str, str | None, str | None]  # of an entry, without time and actor


class StagedEntries(NamedTuple):
    """The transaction adds time and actor."""

    rows: StagedRows
    contents: list[bytes]  # of each entry, what follows its actor in the hashed content


def stage_entries(stage: Stage, entries: Sequence[EntryContent]) -> StagedEntries:
    return StagedEntries(stage("audit", _STAGED, entries), [_encode(each)[1:-1] for each in entries])


class AuditLog:
    """Appends to the chain. Only the thread that has the write transaction uses it."""

    def __init__(self, vault: Vault, origin: str | None = None) -> None:
        """`origin` names the interface that makes the changes, where the actor does not show it."""
        self.vault = vault
        self._origin = origin
        self._key: bytes | None = None
        self._created_in: Transaction | None = None  # the transaction in which this process created the key

    def on(self, vault: Vault) -> "AuditLog":
        """The same log, for changes over other connections than those of this one."""
        return AuditLog(vault, self._origin)

    def append(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        if not entries:
            return
        end, link = transaction.chain_end
        key, rows = self._chain_key(transaction), []
        for seq, entry in enumerate(entries, end + 1):
            content = (seq, *astuple(entry))
            link = _link(key, link, _hashed(content, self._origin))
            rows.append((*content, link, self._origin))
        transaction.insert("audit", _NAMES, rows)
        transaction.chain_end = (end + len(entries), link)
        self._sign_head(transaction)

    def append_staged(self, transaction: Transaction, staged: StagedEntries, *, moment: int, actor: str) -> None:
        """Like `append`: the content of each entry is encoded except for its number, time, actor and origin."""
        key, (end, link), links = self._chain_key(transaction), transaction.chain_end, []
        before = _encode((moment, actor))[1:-1] + b","
        after = b"]" if self._origin is None else b"," + _encode((self._origin,))[1:]
        for seq, content in enumerate(staged.contents, end + 1):
            hashed = b"%b[%d,%b%b%b" % (link, seq, before, content, after)
            link = hashlib.blake2b(hashed, digest_size=32, key=key).digest()
            links.append(link)
        if links:
            values = {"first": end + 1, "moment": moment, "actor": actor, "origin": self._origin}
            transaction.execute(_APPEND_STAGED.format(staged.rows.table), values | {"links": b"".join(links)})
            transaction.chain_end = (end + len(links), link)
            self._sign_head(transaction)

    def _sign_head(self, transaction: Transaction) -> None:
        transaction.audit_head = self.vault.proofs.fresh(transaction).signed_head(*transaction.chain_end)

    def _chain_key(self, transaction: Transaction) -> bytes:
        if self._key is None:
            row = transaction.one(_KEY_SQL)
            if row is None:
                self._created_in = transaction
                return _derived(self._new_key(transaction))
            key = self._opened(row.sealed_key, transaction)
            if transaction is self._created_in:
                return key  # not kept: if this transaction is rolled back, the key is not stored
            self._key = key
        return self._key

    def _opened(self, sealed: bytes, transaction: Transaction) -> bytes:
        try:
            return _derived(self.vault.refreshed(transaction).open(sealed, _KEY_PLACE))
        except Damaged as damage:
            # A change that cannot be recorded is not made.
            raise ServerFailure(f"the change cannot be recorded in the audit log: {damage}") from None

    def _new_key(self, transaction: Transaction) -> bytes:
        key = secrets.token_bytes(32)
        sealed = self.vault.seal(key, _KEY_PLACE, transaction)
        transaction.insert("audit_keys", ("name", "sealed_key"), [("chain", sealed)])
        return key


def _derived(key: bytes) -> bytes:
    return derived_key(key, b"relaydeck audit chain 1")


def _hashed(content: tuple[Any, ...], origin: str | None) -> tuple[Any, ...]:
    """An entry without an origin has the hash that it had before there were origins."""
    return content if origin is None else (*content, origin)


def _link(key: bytes, previous: bytes, content: tuple[Any, ...]) -> bytes:
    # A third of the cost of HMAC-SHA256, for every change.
    return hashlib.blake2b(previous + _encode(content), digest_size=32, key=key).digest()


def head(read: Callable[[str], list[Row]]) -> Head:
    rows = read(f"{EVERYTHING}SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    return Head(rows[0].seq, rows[0].hash) if rows else EMPTY


def verify(rows: Callable[[str], Iterable[Row]], vault: Opener, saved: Head | None = None) -> Head | BrokenLink:
    """Check the whole chain. Returns its head, or the first broken link.

    `rows` runs a query inside one snapshot. `saved` is an earlier head that the chain must contain.
    """
    stored = _stored_head(rows, vault)
    known = [(head, origin) for head, origin in ((stored, "stored"), (saved, "given")) if head is not None]
    key = chain_key(rows, vault)
    try:
        archive = read_archive(rows, vault)
    except Damaged:
        return BrokenLink(1, "cannot be checked: what proves the archived entries was changed")
    if saved is not None and saved.seq < archive.seq:
        raise BadRequest(f"head is of entry {saved.seq}, which is archived: verify the file that contains it")
    if key is not None and stayed(key, rows(f"{_ROWS} WHERE seq <= {archive.seq} ORDER BY seq")) != archive.stayed:
        return BrokenLink(
            archive.seq, "is archived, and of the entries up to it one that stayed was changed or removed"
        )
    reached = archive.head
    if saved is not None and saved.seq == reached.seq and saved != reached:
        return BrokenLink(saved.seq, "differs from the entry that the given head was taken from")
    recorded = archive == NO_ARCHIVE
    for row in rows(f"{_ROWS} WHERE seq > {archive.seq} ORDER BY seq"):
        if broken := broken_link(row, reached, key):
            return broken
        reached = Head(row.seq, row.hash)
        recorded = recorded or _records(row, archive)
        for head, origin in known:
            if reached.seq == head.seq and reached.hash != head.hash:
                return BrokenLink(head.seq, f"differs from the entry that the {origin} head was taken from")
    for head, origin in known:
        if reached.seq < head.seq:
            return BrokenLink(reached.seq + 1, f"is missing: the {origin} head was taken at entry {head.seq}")
    if stored is None:
        return BrokenLink(reached.seq + 1, "may be missing: the stored head was removed or changed")
    if not recorded:
        return BrokenLink(archive.seq, "may be missing, and entries before it: no later entry records that archive")
    return reached


def _records(row: Row, archive: Archive) -> bool:
    if row.action != ARCHIVED:
        return False
    record = read_record(row)
    return (record.last, record.stayed) == (archive.seq, archive.stayed.hex())


def read_record(row: Row) -> ArchiveRecord:
    return msgspec.json.decode(row.after_change, type=ArchiveRecord)


def _stored_head(rows: Callable[[str], Iterable[Row]], vault: Opener) -> Head | None:
    found = [vault.proofs.stored_head(row.audit_head) for row in rows("SELECT audit_head FROM clock")]
    return Head(*found[0]) if found and found[0] else None


def read_archive(rows: Callable[[str], Iterable[Row]], vault: Opener) -> Archive:
    """Raises Damaged."""
    found = list(rows("SELECT sealed_key FROM audit_keys WHERE name = 'archive'"))
    plain = vault.open(found[0].sealed_key, ARCHIVE_PLACE) if found else b""
    return msgspec.json.decode(plain, type=Archive) if plain else NO_ARCHIVE


def stayed(key: bytes, rows: Iterable[Row | Entry], before: bytes = NO_ARCHIVE.stayed) -> bytes:
    """The hash of archived entries that stayed, after those that `before` is the hash of."""
    for row in rows:
        if not _has_types(row):
            return b""
        before = _link(key, before, tuple(row))
    return before


def chain_key(rows: Callable[[str], Iterable[Row]], vault: Opener) -> bytes | None:
    found = list(rows(_KEY_SQL))
    try:
        return _derived(vault.open(found[0].sealed_key, _KEY_PLACE)) if found else None
    except Damaged:
        return None


def _has_types(row: Row | Entry) -> bool:
    return all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True))


def broken_link(row: Row | Entry, reached: Head, key: bytes | None) -> BrokenLink | None:
    """What is wrong with the entry that should follow the one that was reached."""
    if row.seq != reached.seq + 1:
        return BrokenLink(reached.seq + 1, "is missing")
    if key is None:
        return BrokenLink(row.seq, "cannot be checked: the audit key is missing or does not open")
    if not _has_types(row):
        return BrokenLink(row.seq, "was changed")
    content = _hashed(row[: len(_CONTENT)], row.origin)
    if not hmac.compare_digest(_link(key, reached.hash, content), row.hash):
        return BrokenLink(row.seq, "was changed, or does not follow the row before it")
    return None


def count_records(read: ReadRows, most: int) -> dict[str, Row]:
    """Of each kind: `records` and their `stored` bytes, of at most so many."""
    sized = "SELECT count(*) AS records, coalesce(sum(size), 0) AS stored FROM"
    return {
        kind: read(f"{sized} (SELECT {size} AS size FROM {kind} LIMIT {most}) AS counted", {})[0]
        for kind, size in _SIZES.items()
    }


def created_in_a_day(read: ReadRows, now: float, most: int) -> list[Row]:
    """Who created most in the last day: `actor` and `kind`, the number of `records` and their `stored` bytes.

    Of a session of the console, the bytes of its audit entry, which stays.
    """
    identities = {kind: "name" if kind in ("networks", "tokens") else "id" for kind in _SIZES}
    sizes = " ".join(
        f"WHEN '{kind[:-1]}.created' THEN (SELECT max({size}) FROM {kind} WHERE {identities[kind]} = record)"
        for kind, size in _SIZES.items()
    )
    sizes += f" ELSE length(actor) + length(action) + length(record) + {_LINK_BYTES}"
    actions = ", ".join(["'session.opened'", *(f"'{kind[:-1]}.created'" for kind in _SIZES)])
    return read(
        f"SELECT actor, replace(replace(action, '.created', 's'), '.opened', 's') AS kind, count(*) AS records,"
        f" coalesce(sum(CASE action {sizes} END), 0) AS stored"
        " FROM (SELECT actor, action, record, moment FROM audit ORDER BY seq DESC LIMIT :entries) AS latest"
        f" WHERE moment > :since AND action IN ({actions})"
        " GROUP BY actor, action ORDER BY stored DESC, records DESC, actor LIMIT :most",
        {"entries": _LATEST_ENTRIES, "since": int(now) - 86_400, "most": most},
    )
