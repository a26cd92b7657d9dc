"""Proofs of rows: keyed hashes (BLAKE2b, RFC 7693), under a key that is derived from the master key.

They show that Relaydeck wrote a row. An attacker who can write to the database but does not have the master key can
neither add a token, nor revive a revoked one, nor shorten the audit log without a row whose proof does not hold.

A migration proves the tokens that versions without proofs wrote. It trusts what it finds, so these proofs are of
another kind: a token has one until it is replaced.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from relaydeck.store.database import EMPTY_CHAIN, Execute

PROOFS_SINCE = 12  # the migration step that adds the columns
TOKEN_COLUMNS = ("name", "kind", "digest", "created_at", "expires_at", "revoked_at")
_ISSUED, _MIGRATED = "tokens", "tokens as a migration found them"
_SEQ_BYTES, _HASH_BYTES = 8, 32
_HEAD_BYTES = _SEQ_BYTES + 2 * _HASH_BYTES

_encode = msgspec.json.Encoder().encode


class RowProofs:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, table: str, values: Sequence[Any]) -> bytes:
        return hashlib.blake2b(_encode((table, *values)), digest_size=_HASH_BYTES, key=self._key).digest()

    def holds(self, proof: bytes | None, table: str, values: Sequence[Any]) -> bool:
        return proof is not None and hmac.compare_digest(proof, self.of(table, values))

    def token_origin(self, proof: bytes | None, values: Sequence[Any]) -> Literal["issued", "migrated"] | None:
        """Who proved the row of a token first: the service that issued it, or a migration. None: nobody did."""
        if self.holds(proof, _ISSUED, values):
            return "issued"
        return "migrated" if self.holds(proof, _MIGRATED, values) else None

    def signed_head(self, seq: int, link: bytes) -> bytes:
        """The end of the audit log as the row of the clock stores it: number, hash, proof."""
        return seq.to_bytes(_SEQ_BYTES, "big") + link + self.of("audit", (seq, link))

    def stored_head(self, stored: bytes | None) -> tuple[int, bytes] | None:
        """Number and hash of a stored head; None when its proof does not hold."""
        if stored is None or len(stored) != _HEAD_BYTES:
            return None
        seq, link = int.from_bytes(stored[:_SEQ_BYTES], "big"), stored[_SEQ_BYTES : _SEQ_BYTES + _HASH_BYTES]
        return (seq, link) if self.holds(stored[_SEQ_BYTES + _HASH_BYTES :], "audit", (seq, link)) else None


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
