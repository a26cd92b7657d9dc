"""The master key: read from its file, created with a new home. It wraps the data keys, with AES-256-GCM."""

import hmac
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.errors import OperatorError
from relaydeck.store.home_folder import sync_folder
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.sealing import Keyring, derived_key

MASTER_KEY_BYTES = 32
_NONCE_BYTES = 12
_CHECK_FILE = "Check the file and its permissions, or restore it from your backup."


class MasterKey:
    """Wraps data keys; the keys that prove rows, identify plans and authenticate backups are derived from it."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.proofs = RowProofs(derived_key(key, b"relaydeck row proofs 1"))
        self.plan_key = derived_key(key, b"relaydeck plan revisions 1")
        self._backup_key = derived_key(key, b"relaydeck backups 1")

    def wrap(self, data_key: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data_key, b"relaydeck data key")

    def unwrap(self, wrapped: bytes) -> bytes:
        """Raises InvalidTag when this is not the master key that wrapped it."""
        return self._cipher.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], b"relaydeck data key")

    def backup_mac(self, digest: bytes) -> bytes:
        """Authenticates a backup with this digest."""
        return hmac.digest(self._backup_key, digest, "sha256")


def open_keyring(master: MasterKey, rows: Sequence[tuple[int, bytes]]) -> Keyring:
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
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        if path.exists():  # a secret that is mounted read-only
            return
        raise OperatorError(
            f"the master key cannot be written to the folder {path.parent}: {error.strerror}",
            "Create the folder, or make it writable, or choose another file with RELAYDECK_MASTER_KEY_FILE.",
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(random_bytes(MASTER_KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link is created as a whole and never replaces a file, so that two first starts agree on one key.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    sync_folder(path.parent)
