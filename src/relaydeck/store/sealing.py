"""Secrets at rest and proofs of rows. `vault.py` wraps the data keys.

Data keys seal values with AES-256-GCM. A sealed value:   format (1) | data key id (4) | nonce (12) | ciphertext, tag
Its place (table, record, field, version) is associated data: a value that is moved to another row does not open, nor
does an old one that is put back into its row. `sealed_columns.py` describes versions.

Proofs are keyed hashes (BLAKE2b, RFC 7693), under a key that is derived from the master key. They show that Relaydeck
wrote a row. An attacker who can write to the database but does not have the master key can neither add a token, nor
revive a revoked one, nor shorten the audit log without a row whose proof does not hold. A migration proves the tokens
that versions without proofs wrote. It trusts what it finds, so these proofs are of another kind: a token has one until
it is replaced. While the master key is replaced, the proofs of the old one hold too (`rotation.py`).
"""

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relaydeck.errors import Damaged
from relaydeck.store.database import EMPTY_CHAIN, Execute, Row, Transaction

PROOFS_SINCE = 12  # the migration step that adds the columns
TOKEN_COLUMNS = ("name", "kind", "digest", "created_at", "expires_at", "revoked_at")
TOKEN_PROOFS = _ISSUED, _MIGRATED = "tokens", "tokens as a migration found them"
_LOOK_SECONDS = 1.0
_SEQ_BYTES, _HASH_BYTES = 8, 32
_HEAD_BYTES = _SEQ_BYTES + 2 * _HASH_BYTES

_encode = msgspec.json.Encoder().encode


class ProvenRows(NamedTuple):
    """The rows of a table that have proofs, and what they prove."""

    table: str
    columns: str  # of `t`, the table, and what it is joined with
    joined: str = ""
    proven: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple  # from the values of the columns
    kinds: tuple[str, ...] = ()  # of the proofs; none: the name of the table
    column: str = "proof"

    def read(self, transaction: Transaction, after: int, last: int, rows: int) -> list[Row]:
        return transaction.all(
            f"SELECT t.seq, t.{self.column} AS proof, {self.columns} FROM {self.table} t {self.joined}"
            " WHERE t.seq > :after AND t.seq <= :last ORDER BY t.seq LIMIT :rows",
            {"after": after, "last": last, "rows": rows},
        )


class KeepsKeys(Protocol):
    """Keeps proofs up to date with the master key of the database."""

    def refreshed(self, transaction: Transaction) -> object: ...

    def looked_again(self) -> bool:
        """Whether there are other keys than before."""


class RowProofs:
    """The first key proves rows. Proofs of the others hold too, until a rotation of the master key has ended."""

    def __init__(self, *keys: bytes, vault: KeepsKeys | None = None) -> None:
        self._keys = keys
        self._vault = vault
        self._looked_at = 0.0

    def follow(self, other: "RowProofs") -> bool:
        """Use the keys of another one. Returns whether that makes a difference."""
        before, self._keys, self._looked_at = self._keys, other._keys, time.monotonic()
        return before != self._keys

    def fresh(self, transaction: Transaction) -> "RowProofs":
        """To prove a row in a transaction: under the master key that the database has by then."""
        if self._vault is not None:
            self._vault.refreshed(transaction)
        return self

    @property
    def has_older(self) -> bool:
        """Whether the master key is being replaced."""
        return len(self._keys) > 1

    def of(self, table: str, values: Sequence[Any]) -> bytes:
        return _proof(self._keys[0], table, values)

    def matches(self, proof: bytes, table: str, values: Sequence[Any]) -> bool:
        """Whether it is a proof under a key that is known: for what anybody may send."""
        return any(hmac.compare_digest(proof, _proof(key, table, values)) for key in self._keys)

    def holds(self, proof: bytes | None, table: str, values: Sequence[Any]) -> bool:
        """Whether it is the proof of a stored row. May read the database, unlike `matches`."""
        return self._holding(proof, [(table, values)]) is not None

    def _holding(self, proof: bytes | None, stated: Sequence[tuple[str, Sequence[Any]]]) -> str | None:
        if proof is None:
            return None
        keys = self._keys
        for table, values in stated:
            if hmac.compare_digest(proof, self.of(table, values)):
                return table
        found = next((table for table, values in stated if self.matches(proof, table, values)), None)
        # An old key that this process knows may have been replaced since, and there may be one that it does not know.
        is_recent = found is not None and time.monotonic() - self._looked_at < _LOOK_SECONDS
        if is_recent or self._vault is None:
            return found
        self._vault.looked_again()
        # Compared with those that were tried: another thread may have looked in between, and this look found no others.
        return found if self._keys == keys else self._holding(proof, stated)

    def renewed(self, proof: bytes | None, table: str, values: Sequence[Any]) -> bytes | None:
        """The proof under the first key, in place of one under another; None where there is none to replace."""
        present = self.of(table, values)
        is_older = proof is not None and proof != present and self.matches(proof, table, values)
        return present if is_older else None

    def token_origin(self, proof: bytes | None, values: Sequence[Any]) -> Literal["issued", "migrated"] | None:
        """Who proved the row of a token first: the service that issued it, or a migration. None: nobody did."""
        found = self._holding(proof, [(kind, values) for kind in TOKEN_PROOFS])
        return None if found is None else "issued" if found == _ISSUED else "migrated"

    def signed_head(self, seq: int, link: bytes) -> bytes:
        """The end of the audit log as the row of the clock stores it: number, hash, proof."""
        return seq.to_bytes(_SEQ_BYTES, "big") + link + self.of("audit", (seq, link))

    def stored_head(self, stored: bytes | None) -> tuple[int, bytes] | None:
        """Number and hash of a stored head; None when its proof does not hold."""
        if stored is None or len(stored) != _HEAD_BYTES:
            return None
        seq, link = int.from_bytes(stored[:_SEQ_BYTES], "big"), stored[_SEQ_BYTES : _SEQ_BYTES + _HASH_BYTES]
        return (seq, link) if self.holds(stored[_SEQ_BYTES + _HASH_BYTES :], "audit", (seq, link)) else None


def _proof(key: bytes, table: str, values: Sequence[Any]) -> bytes:
    return hashlib.blake2b(_encode((table, *values)), digest_size=_HASH_BYTES, key=key).digest()


def prove_stored_rows(execute: Execute, proofs: RowProofs) -> None:
    """Add the proofs of the rows that earlier versions wrote. Inside the migration that adds the columns."""
    _prove_tokens(execute, proofs, _MIGRATED)
    last = execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchall()
    head = proofs.signed_head(*(last[0] if last else EMPTY_CHAIN))
    execute("UPDATE clock SET audit_head = :head", {"head": head})


def prove_revoked_tokens(execute: Execute, proofs: RowProofs) -> None:
    """Of a restored database. A forged row that gets a proof this way stays revoked."""
    _prove_tokens(execute, proofs, _ISSUED, " WHERE revoked_at IS NOT NULL")


def _prove_tokens(execute: Execute, proofs: RowProofs, kind: str, condition: str = "") -> None:
    for seq, *values in execute(f"SELECT seq, {', '.join(TOKEN_COLUMNS)} FROM tokens{condition}").fetchall():
        execute("UPDATE tokens SET proof = :proof WHERE seq = :seq", {"proof": proofs.of(kind, values), "seq": seq})


_FORMAT = b"\2"
_FIRST_FORMAT = b"\1"  # without the version
_NONCE_BYTES = 12
_HEADER_BYTES = 5


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a sealed value belongs, and which version of it."""

    table: str
    record: str
    field: str
    version: int = 0

    def bound(self) -> bytes:
        # Lengths keep ("a", "bc") and ("ab", "c") apart.
        table, record, field = self.table, self.record, self.field
        return f"{len(table)}:{table},{len(record)}:{record},{len(field)}:{field},{self.version}".encode()


class Keyring:
    """The unwrapped data keys of one database. The key with the greatest id seals; every key opens."""

    def __init__(self, ciphers: dict[int, AESGCM], proofs: RowProofs) -> None:
        self._ciphers = ciphers
        self.proofs = proofs
        self.active = max(ciphers, default=0)
        # The first bytes of every value that this keyring seals.
        self.header = _FORMAT + self.active.to_bytes(4, "big")

    def knows(self, key_id: int) -> bool:
        return key_id in self._ciphers

    def seal(self, plain: bytes, place: Place) -> bytes:
        return self.header + encrypt(self._ciphers[self.active], plain, self.header + place.bound())

    def open(self, sealed: bytes, place: Place) -> bytes:
        return self._open(sealed, place, _FORMAT, place.bound())

    def open_first_format(self, sealed: bytes, place: Place) -> bytes:
        """For the migration only: it would also open an old value that was put back."""
        return self._open(sealed, place, _FIRST_FORMAT, place.bound().rpartition(b",")[0])

    def _open(self, sealed: bytes, place: Place, form: bytes, bound: bytes) -> bytes:
        header = sealed[:_HEADER_BYTES]
        cipher = self._ciphers.get(sealing_key_of(sealed))
        if cipher is None or header[:1] != form:
            raise Damaged(place.table, place.record, place.field)
        try:
            return decrypt(cipher, sealed[_HEADER_BYTES:], header + bound)
        except (InvalidTag, ValueError):
            raise Damaged(place.table, place.record, place.field) from None


def derived_key(key: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key)


def encrypt(cipher: AESGCM, text: bytes, bound: bytes = b"") -> bytes:
    """A random nonce, and the ciphertext."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, text, bound)


def decrypt(cipher: AESGCM, encrypted: bytes, bound: bytes = b"") -> bytes:
    """Raises InvalidTag or ValueError."""
    return cipher.decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], bound)


def sealing_key_of(sealed: bytes) -> int:
    """The id of the data key that sealed a value."""
    return int.from_bytes(sealed[1:_HEADER_BYTES], "big")
