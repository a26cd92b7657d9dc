"""Secrets at rest: data keys seal values with AES-256-GCM. `master_key.py` wraps the data keys.

A sealed value is   format (1) | data key id (4) | nonce (12) | ciphertext and tag
Its place (table, record, field, version) is associated data: a value that is moved to another row does not open, nor
does an old one that is put back into its row. `sealed_columns.py` describes versions.
"""

import os
from collections import deque

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relaydeck.errors import Damaged
from relaydeck.store.row_proofs import RowProofs

_FORMAT = b"\2"
_FIRST_FORMAT = b"\1"  # without the version
_NONCE_BYTES = 12
_NONCES_DRAWN = 256
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

    def bound_in_first_format(self) -> bytes:
        return self.bound().rpartition(b",")[0]


class Nonces:
    """Random nonces, drawn in batches, because each draw is a system call that releases the interpreter.

    Several threads may use it: `deque.popleft` is atomic, so that no nonce is returned twice.
    """

    def __init__(self) -> None:
        self._ready: deque[bytes] = deque()

    def take(self) -> bytes:
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                drawn = os.urandom(_NONCE_BYTES * _NONCES_DRAWN)
                self._ready.extend([drawn[at : at + _NONCE_BYTES] for at in range(0, len(drawn), _NONCE_BYTES)])


class Keyring:
    """The unwrapped data keys of one database. The key with the greatest id seals; every key opens."""

    def __init__(self, ciphers: dict[int, AESGCM], proofs: RowProofs) -> None:
        self._ciphers = ciphers
        self.proofs = proofs
        self._nonces = Nonces()
        self.active = max(ciphers, default=0)
        # The first bytes of every value that this keyring seals.
        self.header = _FORMAT + self.active.to_bytes(4, "big")

    def knows(self, key_id: int) -> bool:
        return key_id in self._ciphers

    def seal(self, plain: bytes, place: Place) -> bytes:
        header, nonce = self.header, self._nonces.take()
        return header + nonce + self._ciphers[self.active].encrypt(nonce, plain, header + place.bound())

    def open(self, sealed: bytes, place: Place) -> bytes:
        return self._open(sealed, place, _FORMAT, place.bound())

    def open_first_format(self, sealed: bytes, place: Place) -> bytes:
        """For the migration only: it would also open an old value that was put back."""
        return self._open(sealed, place, _FIRST_FORMAT, place.bound_in_first_format())

    def _open(self, sealed: bytes, place: Place, form: bytes, bound: bytes) -> bytes:
        header, nonce = sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES]
        cipher = self._ciphers.get(sealing_key_of(sealed))
        if cipher is None or header[:1] != form:
            raise Damaged(place.table, place.record, place.field)
        try:
            return cipher.decrypt(nonce, sealed[_HEADER_BYTES + _NONCE_BYTES :], header + bound)
        except (InvalidTag, ValueError):
            raise Damaged(place.table, place.record, place.field) from None


def derived_key(key: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key)


def sealing_key_of(sealed: bytes) -> int:
    """The id of the data key that sealed a value."""
    return int.from_bytes(sealed[1:_HEADER_BYTES], "big")
