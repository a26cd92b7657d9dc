"""The master key, and the vault, which seals and opens the secrets of one database through rotations of its keyring.

The master key is read from its file and wraps the data keys, with AES-256-GCM. A new database gets its first data key,
and a master key if there is none.
"""

import hmac
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader, ReadRows, Transaction
from relaydeck.store.files import private_file
from relaydeck.store.sealing import Keyring, Place, RowProofs, decrypt, derived_key, encrypt, sealing_key_of

MASTER_KEY_BYTES = 32
_CHECK_FILE = "Check the file and its permissions, or restore it from your backup."


class MasterKey:
    """Wraps data keys; the keys that prove rows, identify plans and authenticate backups are derived from it."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.proofs = RowProofs(derived_key(key, b"relaydeck row proofs 1"))
        self.plan_key = derived_key(key, b"relaydeck plan revisions 1")
        self._backup_key = derived_key(key, b"relaydeck backups 1")

    def wrap(self, data_key: bytes) -> bytes:
        return encrypt(self._cipher, data_key, b"relaydeck data key")

    def unwrap(self, wrapped: bytes) -> bytes:
        """Raises InvalidTag when this is not the master key that wrapped it."""
        return decrypt(self._cipher, wrapped, b"relaydeck data key")

    def backup_mac(self, digest: bytes) -> bytes:
        """Authenticates a backup with this digest."""
        return hmac.digest(self._backup_key, digest, "sha256")


def open_keyring(master: MasterKey, rows: Sequence[tuple[Any, ...]]) -> Keyring:
    try:
        return Keyring({int(key_id): AESGCM(master.unwrap(wrapped)) for key_id, wrapped in rows}, master.proofs)
    except (InvalidTag, TypeError, ValueError, OverflowError):  # another key, or rows that nothing of ours wrote
        raise OperatorError(
            "the master key does not open this database's keyring",
            "Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE).",
        ) from None


def new_data_key(master: MasterKey) -> bytes:
    """A fresh data key, already wrapped."""
    return master.wrap(AESGCM.generate_key(256))


def read_master_key(path: Path) -> MasterKey:
    return MasterKey(master_key_bytes(path))


def master_key_bytes(path: Path) -> bytes:
    """The key itself, to wrap with it or to seal it for a backup."""
    try:
        return _key_bytes(path.read_text("ascii").strip())
    except FileNotFoundError:
        raise OperatorError(
            f"the master key file {path} is missing",
            "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this"
            " database cannot be opened. Only a backup made with --with-master-key contains it.",
        ) from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not 64 hexadecimal digits"
        raise OperatorError(f"the master key file {path} cannot be used: {reason}", _CHECK_FILE) from None


def _key_bytes(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != MASTER_KEY_BYTES:
        raise ValueError
    return key


def create_master_key(path: Path, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
    """Write a new master key that only its owner can read. An existing file is not changed."""
    try:
        with private_file(path) as file:
            file.write(f"{random_bytes(MASTER_KEY_BYTES).hex()}\n".encode())
    except FileExistsError:
        return  # two first starts agree on one key
    except OSError as error:
        if path.exists():  # a secret that is mounted read-only
            return
        raise OperatorError(
            f"the master key cannot be written to the folder {path.parent}: {error.strerror}",
            "Create the folder, or make it writable, or choose another file with RELAYDECK_MASTER_KEY_FILE.",
        ) from None


_KEYS = "SELECT id, wrapped FROM data_keys ORDER BY id"


def read_keyring(database: Reader, master: MasterKey) -> Keyring:
    """Raises OperatorError."""
    return open_keyring(master, database.read(_KEYS))


class Vault:
    def __init__(self, database: Database, master: MasterKey) -> None:
        self._database = database
        self._master = master
        self.proofs = master.proofs
        self.plan_key = master.plan_key
        self.keyring = read_keyring(database, master)

    def open(self, sealed: bytes, place: Place) -> bytes:
        """Raises Damaged when the value was changed or moved."""
        if not self.keyring.knows(sealing_key_of(sealed)):
            self.keyring = read_keyring(self._database, self._master)
        return self.keyring.open(sealed, place)

    def seal(self, plain: bytes, place: Place, transaction: Transaction) -> bytes:
        """Seal inside a write transaction, so that no rotation can retire the key before the value is stored."""
        return self.refreshed(transaction).keyring.seal(plain, place)

    def refreshed(self, transaction: Transaction) -> "Vault":
        """This vault, with every key that a value in the transaction may need."""
        if transaction.newest_key != self.keyring.active:
            self.keyring = open_keyring(self._master, transaction.all(_KEYS))
        return self

    def keyring_to_seal(self, read: ReadRows) -> Keyring:
        """To seal values ahead of a transaction. It must not store them if its newest key is another one."""
        newest = read("SELECT max(id) AS newest FROM data_keys", {})[0].newest
        if newest != self.keyring.active:
            self.keyring = open_keyring(self._master, read(_KEYS, {}))
        return self.keyring

    def add_data_key(self, transaction: Transaction, now: int) -> None:
        """Add a data key. It seals every value from then on."""
        added = transaction.one(
            "INSERT INTO data_keys (wrapped, created_at) VALUES (:wrapped, :now) RETURNING id",
            {"wrapped": new_data_key(self._master), "now": now},
        )
        assert added is not None
        transaction.newest_key = added.id


def existing_keyring(database: Database, path: Path) -> Keyring | None:
    """A database that has sealed values is not touched without the key that opens them. None for a new database."""
    return read_keyring(database, read_master_key(path)) if _has_data_keys(database) else None


def _has_data_keys(database: Database) -> bool:
    return database.has_table("data_keys") and bool(database.read("SELECT 1 FROM data_keys LIMIT 1"))


def open_vault(database: Database, path: Path) -> Vault:
    if not _has_data_keys(database):
        create_master_key(path)
        _add_first_data_key(database, read_master_key(path))
    return Vault(database, read_master_key(path))


def _add_first_data_key(database: Database, master: MasterKey) -> None:
    vault = Vault(database, master)
    with database.transaction() as transaction:
        # Another process may have added one since the check.
        if transaction.one("SELECT 1 FROM data_keys") is None:
            vault.add_data_key(transaction, int(time.time()))
            transaction.audit_head = vault.proofs.signed_head(*transaction.chain_end)
