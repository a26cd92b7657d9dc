"""The audit log: who changed what and when, written in the transaction of the change.

Each row holds a keyed hash (BLAKE2b, RFC 7693) of its content and of the hash before it. An attacker who can write to
the database but does not have the master key cannot change, remove or reorder rows without breaking a link of this
chain. Removing the newest rows breaks no link, but then the chain lacks the signed head that each transaction stores
in the row of the clock. An attacker who puts back an old copy of both, and of SQLite's count of entries, leaves no
trace in the database: a head that was saved elsewhere reveals that too, such as the one that receivers get with events.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from relaydeck.errors import Damaged, ServerFailure
from relaydeck.store.database import EMPTY_CHAIN, Row, Transaction
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.row_sets import RowSet, Stage, StagedRows, slices
from relaydeck.store.sealing import Place, derived_key
from relaydeck.store.vault import Vault

_KEY_PLACE = Place("audit_keys", "chain", "key")
_KEY_SQL = "SELECT sealed_key FROM audit_keys WHERE name = 'chain'"
_CONTENT = ("seq", "moment", "actor", "action", "record", "before_change", "after_change")
_NAMES = (*_CONTENT, "hash", "origin")
COLUMNS = ", ".join(_NAMES)
COUNT_SQL = "SELECT count(*) AS total FROM audit"
_TYPES = (int, int, str, str, str, str | None, str | None, bytes, str | None)
_STAGED = ("action", "record", "before_change", "after_change")
_STAGED_SLICE = 20_000
_APPEND_STAGED = (
    f"INSERT INTO audit (seq, moment, actor, {', '.join(_STAGED)}, hash, origin)"
    f" SELECT :first + position, :moment, :actor, {', '.join(_STAGED)},"
    " substr(:links, CAST(position * 32 + 1 AS integer), 32), :origin FROM {}"
)
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


class Opener(Protocol):
    """Opens the chain's key and checks the stored head: a vault, or a keyring."""

    proofs: RowProofs

    def open(self, sealed: bytes, place: Place) -> bytes: ...


class BrokenLink(NamedTuple):
    seq: int
    why: str


class AuditEntry(msgspec.Struct, frozen=True, gc=False):
    """The content of an entry. `before` and `after` are JSON objects as text, without secrets."""

    moment: int
    actor: str
    action: str
    record: str
    before: str | None = None
    after: str | None = None


class StagedEntries(NamedTuple):
    """Entries without time and actor, which the transaction adds."""

    rows: StagedRows
    contents: list[bytes]  # of each entry, what follows its actor in the hashed content


def stage_entries(stage: Stage, entries: Sequence[AuditEntry]) -> list[StagedEntries]:
    """In slices: while the rows of one are written, the links of the next are computed."""
    rows = [(each.action, each.record, each.before, each.after) for each in entries]
    return [
        StagedEntries(stage("audit", RowSet(_STAGED, some)), [_encode(row)[1:-1] for row in some])
        for _, some in slices(rows, _STAGED_SLICE)
    ]


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
            content = (seq, entry.moment, entry.actor, entry.action, entry.record, entry.before, entry.after)
            link = _link(key, link, _hashed(content, self._origin))
            rows.append((*content, link, self._origin))
        transaction.insert("audit", _NAMES, rows)
        transaction.chain_end = (end + len(entries), link)
        transaction.audit_head = self.vault.proofs.signed_head(*transaction.chain_end)

    @contextmanager
    def append_staged(
        self, transaction: Transaction, staged: Sequence[StagedEntries], *, moment: int, actor: str
    ) -> Iterator[None]:
        """Append at the end of the block. A thread computes the links while the block runs, and while rows are written.

        Nothing else may be appended in the block.
        """
        key, first = self._chain_key(transaction), transaction.chain_end[0] + 1
        chain = _StagedChain(key, transaction.chain_end, moment, actor, self._origin)
        with ThreadPoolExecutor(1, "audit") as thread:
            links = [thread.submit(chain.links, each.contents) for each in staged]
            yield
            for each, its_links in zip(staged, links, strict=True):
                values = {"first": first, "moment": moment, "actor": actor, "origin": self._origin}
                transaction.execute(_APPEND_STAGED.format(each.rows.table), values | {"links": its_links.result()})
                first += len(each.contents)
        transaction.chain_end = chain.end
        transaction.audit_head = self.vault.proofs.signed_head(*chain.end)

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
        transaction.execute(
            "INSERT INTO audit_keys (name, sealed_key) VALUES ('chain', :sealed)",
            {"sealed": self.vault.seal(key, _KEY_PLACE, transaction)},
        )
        return key


class _StagedChain:
    """Continues the chain with entries that are encoded except for their number, time, actor and origin."""

    def __init__(self, key: bytes, end: tuple[int, bytes], moment: int, actor: str, origin: str | None) -> None:
        self._key = key
        self.end = end
        self._before = _encode((moment, actor))[1:-1] + b","
        self._after = b"]" if origin is None else b"," + _encode((origin,))[1:]

    def links(self, contents: Sequence[bytes]) -> bytes:
        (end, link), key, before, after = self.end, self._key, self._before, self._after
        links = []
        for seq, content in enumerate(contents, end + 1):
            hashed = b"%b[%d,%b%b%b" % (link, seq, before, content, after)
            link = hashlib.blake2b(hashed, digest_size=32, key=key).digest()
            links.append(link)
        self.end = (end + len(contents), link)
        return b"".join(links)


class DeferredAuditLog(AuditLog):
    """Keeps what is appended until `flush`, for changes that are written before the end of the chain is known."""

    def __init__(self, log: AuditLog) -> None:
        super().__init__(log.vault)
        self._appends: list[Callable[[Transaction, AuditLog], None]] = []

    def append(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        self._appends.append(lambda locked, log: log.append(locked, entries))

    @contextmanager
    def append_staged(
        self, transaction: Transaction, staged: Sequence[StagedEntries], *, moment: int, actor: str
    ) -> Iterator[None]:
        def append(locked: Transaction, log: AuditLog) -> None:
            with log.append_staged(locked, staged, moment=moment, actor=actor):
                pass

        yield
        self._appends.append(append)

    def flush(self, transaction: Transaction, log: AuditLog) -> None:
        for append in self._appends:
            append(transaction, log)


def _derived(key: bytes) -> bytes:
    return derived_key(key, b"relaydeck audit chain 1")


def _hashed(content: tuple[Any, ...], origin: str | None) -> tuple[Any, ...]:
    """An entry without an origin has the hash that it had before there were origins."""
    return content if origin is None else (*content, origin)


def _link(key: bytes, previous: bytes, content: tuple[Any, ...]) -> bytes:
    # A third of the cost of HMAC-SHA256, for every change.
    return hashlib.blake2b(previous + _encode(content), digest_size=32, key=key).digest()


def head(read: Callable[[str], list[Row]]) -> Head:
    rows = read("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    return Head(rows[0].seq, rows[0].hash) if rows else EMPTY


def verify(rows: Callable[[str], Iterable[Row]], vault: Opener, saved: Head | None = None) -> Head | BrokenLink:
    """Check the whole chain. Returns its head, or the first broken link.

    `rows` runs a query inside one snapshot. `saved` is an earlier head that the chain must contain.
    """
    stored = _stored_head(rows, vault)
    known = [(head, origin) for head, origin in ((stored, "stored"), (saved, "given")) if head is not None]
    key = _stored_key(rows, vault)
    reached = EMPTY
    for row in rows(f"SELECT {COLUMNS} FROM audit ORDER BY seq"):
        if broken := _broken(row, reached, key):
            return broken
        reached = Head(row.seq, row.hash)
        for head, origin in known:
            if reached.seq == head.seq and reached.hash != head.hash:
                return BrokenLink(head.seq, f"differs from the entry that the {origin} head was taken from")
    for head, origin in known:
        if reached.seq < head.seq:
            return BrokenLink(reached.seq + 1, f"is missing: the {origin} head was taken at entry {head.seq}")
    if stored is None:
        return BrokenLink(reached.seq + 1, "may be missing: the stored head was removed or changed")
    return reached


def _stored_head(rows: Callable[[str], Iterable[Row]], vault: Opener) -> Head | None:
    found = [vault.proofs.stored_head(row.audit_head) for row in rows("SELECT audit_head FROM clock")]
    return Head(*found[0]) if found and found[0] else None


def _stored_key(rows: Callable[[str], Iterable[Row]], vault: Opener) -> bytes | None:
    found = list(rows(_KEY_SQL))
    try:
        return _derived(vault.open(found[0].sealed_key, _KEY_PLACE)) if found else None
    except Damaged:
        return None


def _broken(row: Row, reached: Head, key: bytes | None) -> BrokenLink | None:
    if row.seq != reached.seq + 1:
        return BrokenLink(reached.seq + 1, "is missing")
    if key is None:
        return BrokenLink(row.seq, "cannot be checked: the audit key is missing or does not open")
    if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
        return BrokenLink(row.seq, "was changed")
    content = _hashed(row[: len(_CONTENT)], row.origin)
    if not hmac.compare_digest(_link(key, reached.hash, content), row.hash):
        return BrokenLink(row.seq, "was changed, or does not follow the row before it")
    return None
