"""The master key, and the vault, which seals and opens the secrets of one database through rotations of its keys.

The master key is read from its file and wraps the data keys, with AES-256-GCM. A new database gets its first data key,
and a master key if there is none. In the file, a key system may have wrapped the key itself (`process/wrapped_keys`).

While the master key is replaced (`rotation.py`), the file holds the new one and below it the old one. The database
decides which is in use: the one that wraps the newest data key proves rows and wraps further data keys; others are
trusted as long as they wrap any data key. A process reads the file again when it meets a newer data key or a proof that
does not hold, so the file must hold the new key before the database does.
"""

import fcntl
import hmac
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.errors import OperatorError, ServerFailure
from relaydeck.process.wrapped_keys import WRAPPED_KEYS
from relaydeck.store.database import Database, Reader, ReadRows, Transaction
from relaydeck.store.files import private_file, remove_old_drafts
from relaydeck.store.sealing import Keyring, Place, RowProofs, decrypt, derived_key, encrypt, sealing_key_of

MASTER_KEY_BYTES = 32
_CHECK_FILE = "Check the file and its permissions, or restore it from your backup."


class MasterKey:
    """Wraps data keys; the keys that prove rows, identify plans and authenticate backups are derived from it."""

    def __init__(self, key: bytes, line: str = "") -> None:
        """`line`: of the file that has it."""
        self._key = key
        self.line = line or key.hex()
        self._cipher = AESGCM(key)
        self.proof_key = derived_key(key, b"relaydeck row proofs 1")
        self.plan_key = derived_key(key, b"relaydeck plan revisions 1")
        self._backup_key = derived_key(key, b"relaydeck backups 1")

    def reveal(self) -> bytes:
        """The key itself, to seal it for a backup."""
        return self._key

    def wrap(self, data_key: bytes) -> bytes:
        return encrypt(self._cipher, data_key, b"relaydeck data key")

    def unwrap(self, wrapped: bytes) -> bytes:
        """Raises InvalidTag when this is not the master key that wrapped it."""
        return decrypt(self._cipher, wrapped, b"relaydeck data key")

    def backup_mac(self, digest: bytes) -> bytes:
        """Authenticates a backup with this digest."""
        return hmac.digest(self._backup_key, digest, "sha256")


class OpenedKeys(NamedTuple):
    keyring: Keyring
    master: MasterKey  # which wraps the newest data key
    older: list[MasterKey]  # which wrap others, while the master key is replaced


def open_keys(masters: Sequence[MasterKey], rows: Iterable[tuple[Any, ...]]) -> OpenedKeys:
    """Unwrap the data keys, each with the master key that wrapped it. Raises OperatorError when none of them did."""
    found = dict(_unwrapped(masters, *row) for row in rows)
    master = found[max(found)][0] if found else masters[0]
    older = [each for each in masters if each is not master and any(each is wrapper for wrapper, _ in found.values())]
    proofs = RowProofs(master.proof_key, *(each.proof_key for each in older))
    return OpenedKeys(Keyring({key_id: cipher for key_id, (_, cipher) in found.items()}, proofs), master, older)


def _unwrapped(masters: Sequence[MasterKey], key_id: Any, wrapped: Any) -> tuple[int, tuple[MasterKey, AESGCM]]:
    for master in masters:
        with suppress(InvalidTag, TypeError, ValueError, OverflowError):  # another key, or a row that we did not write
            return int(key_id), (master, AESGCM(master.unwrap(wrapped)))
    raise OperatorError(
        "the master key does not open this database's keyring",
        "Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE). If 'relaydeck key rotate --master'"
        " replaced the key, copy the file from where that ran.",
    )


def open_keyring(masters: Sequence[MasterKey], rows: Iterable[tuple[Any, ...]]) -> Keyring:
    return open_keys(masters, rows).keyring


def new_data_key(master: MasterKey) -> bytes:
    """A fresh data key, already wrapped."""
    return master.wrap(AESGCM.generate_key(256))


def read_master_keys(path: Path, *, anew: bool = False) -> list[MasterKey]:
    """One for each line of the file: one in all, or the new one and the old one while it is replaced.

    `anew`: as a process does that starts now, and has unwrapped none of them before.
    """
    try:
        lines = path.read_text("ascii").strip().splitlines()
        return [MasterKey(_key_bytes(line, anew), line) for line in lines or [""]]
    except FileNotFoundError:
        raise OperatorError(
            f"the master key file {path} is missing",
            "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this"
            " database cannot be opened. Only a backup made with --with-master-key contains it.",
        ) from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not 64 hexadecimal digits"
        raise OperatorError(f"the master key file {path} cannot be used: {reason}", _CHECK_FILE) from None


def _key_bytes(line: str, anew: bool) -> bytes:
    key = WRAPPED_KEYS.unwrap(line, anew=anew)
    if len(key) != MASTER_KEY_BYTES:
        raise ValueError
    return key


def _lines(masters: Iterable[MasterKey]) -> bytes:
    return "".join(f"{each.line}\n" for each in masters).encode()


def new_master_key(key: bytes = b"", *, plain: bool = False) -> MasterKey:
    """Wrapped by the key system in the settings, if there is one, unless `plain`. Raises OperatorError."""
    key = key or os.urandom(MASTER_KEY_BYTES)
    return MasterKey(key, "" if plain else WRAPPED_KEYS.wrap(key))


def create_master_key(path: Path, key: bytes = b"") -> None:
    """Write a new master key, or this one, that only its owner can read. An existing file is not changed."""
    if path.exists():
        return
    master = new_master_key(key)
    try:
        with private_file(path) as file:
            file.write(_lines([master]))
    except FileExistsError:
        return  # two first starts agree on one key
    except OSError as error:
        raise OperatorError(
            f"the master key cannot be written to the folder {path.parent}: {error.strerror}",
            "Create the folder, or make it writable, or choose another file with RELAYDECK_MASTER_KEY_FILE.",
        ) from None


@contextmanager
def replacing_master_key(path: Path) -> Iterator[None]:
    """One process at a time on this machine replaces the key in a file: of two new keys, one would be lost."""
    folder = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise OperatorError("another process replaces the master key now", "Wait until it has ended.") from None
    finally:
        os.close(folder)


def write_master_keys(path: Path, masters: Sequence[MasterKey]) -> None:
    """Replace the keys in the file in one step. It keeps its owner and its permissions. Raises OperatorError."""
    path = path.resolve()  # replace the file that a link points to, not the link
    try:
        remove_old_drafts(path)
        found = path.stat()
        with private_file(path, replace=True) as file:
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fchmod(file.fileno(), found.st_mode & 0o777)
            file.write(_lines(masters))
    except OSError as error:
        raise OperatorError(
            f"the master key file {path} cannot be changed: {error.strerror}",
            "Run the command as the owner of the file. If the file is mounted, change it where it comes from: a new key"
            " ('openssl rand -hex 32') in the first line, the present one in the second. When every service has the"
            " file, run the command again.",
        ) from None


_KEYS = "SELECT id, wrapped FROM data_keys ORDER BY id"


def read_keyring(database: Reader, path: Path) -> Keyring:
    """Raises OperatorError."""
    return open_keyring(read_master_keys(path), database.read(_KEYS))


class Vault:
    def __init__(self, database: Database, path: Path) -> None:
        """`path`: the master key file."""
        self._database, self._path = database, path
        self._masters = read_master_keys(path)
        self._opened = open_keys(self._masters, database.read(_KEYS))
        self._lock = threading.Lock()
        self.proofs = RowProofs(vault=self)  # one object for all who hold it, whichever the keys
        self.proofs.follow(self.keyring.proofs)

    @property
    def keyring(self) -> Keyring:
        return self._opened.keyring

    @property
    def master(self) -> MasterKey:
        return self._opened.master

    @property
    def plan_key(self) -> bytes:
        return self.master.plan_key

    def open(self, sealed: bytes, place: Place) -> bytes:
        """Raises Damaged when the value was changed or moved."""
        if not self.keyring.knows(sealing_key_of(sealed)):
            self.looked_again()
        return self.keyring.open(sealed, place)

    def seal(self, plain: bytes, place: Place, transaction: Transaction) -> bytes:
        """Seal inside a write transaction, so that no rotation can retire the key before the value is stored."""
        return self.refreshed(transaction).keyring.seal(plain, place)

    def refreshed(self, transaction: Transaction) -> "Vault":
        """This vault, with every key that a value or a proof in the transaction may need. Raises ServerFailure."""
        if transaction.newest_key != self.keyring.active:
            self._use(self._read_in(transaction.all(_KEYS)))
        return self

    def keyring_to_seal(self, read: ReadRows) -> Keyring:
        """To seal values ahead of a transaction. It must not store them if its newest key is another one."""
        newest = read("SELECT max(id) AS newest FROM data_keys", {})[0].newest
        if newest != self.keyring.active:
            self._use(self._read_in(read(_KEYS, {})))
        return self.keyring

    def look_again(self) -> bool:
        """Read the file and the data keys. Returns whether other master keys are in use. Raises OperatorError."""
        opened = self._read(self._database.read(_KEYS))
        with self._lock:
            # Meanwhile a transaction may have used a newer data key.
            return opened.keyring.active >= self.keyring.active and self._set(opened)

    def start_problem(self) -> str:
        """Why a process that starts now could not read the master key; empty when it could."""
        try:
            read_master_keys(self._path, anew=True)
        except OperatorError as error:
            return error.problem
        return ""

    def looked_again(self) -> bool:
        with suppress(OperatorError):  # each minute a service logs it
            return self.look_again()
        return False

    def _read(self, rows: Iterable[tuple[Any, ...]]) -> OpenedKeys:
        with suppress(OperatorError):  # as long as the keys that were read before are enough, the service goes on
            self._masters = read_master_keys(self._path)
        return open_keys(self._masters, rows)

    def _read_in(self, rows: Iterable[tuple[Any, ...]]) -> OpenedKeys:
        try:
            return self._read(rows)
        except OperatorError as error:  # sealed or proven under the key before, the write would be worth nothing
            raise ServerFailure(f"nothing can be written: {error.problem}; see the log") from None

    def _use(self, opened: OpenedKeys) -> None:
        with self._lock:
            self._set(opened)

    def _set(self, opened: OpenedKeys) -> bool:
        self._opened = opened
        return self.proofs.follow(opened.keyring.proofs)

    def add_data_key(self, transaction: Transaction, now: int, master: MasterKey | None = None) -> None:
        """Add a data key. It seals every value from then on. `master` wraps it, and is in use from then on."""
        added = transaction.one(
            "INSERT INTO data_keys (wrapped, created_at) VALUES (:wrapped, :now) RETURNING id",
            {"wrapped": new_data_key(master or self.master), "now": now},
        )
        assert added is not None
        transaction.newest_key = added.id

    def retire_older(self, transaction: Transaction) -> None:
        """Let the newest master key wrap every data key, so that no other opens any."""
        for key_id, wrapped in transaction.all(_KEYS):
            _, (wrapper, _) = _unwrapped([self.master, *self._opened.older], key_id, wrapped)
            if wrapper is not self.master:
                again = self.master.wrap(wrapper.unwrap(wrapped))
                transaction.execute(
                    "UPDATE data_keys SET wrapped = :again WHERE id = :id", {"again": again, "id": key_id}
                )


def existing_keyring(database: Database, path: Path) -> Keyring | None:
    """A database that has sealed values is not touched without the key that opens them. None for a new database."""
    return read_keyring(database, path) if _has_data_keys(database) else None


def _has_data_keys(database: Database) -> bool:
    return database.has_table("data_keys") and bool(database.read("SELECT 1 FROM data_keys LIMIT 1"))


def open_vault(database: Database, path: Path) -> Vault:
    if not _has_data_keys(database):
        create_master_key(path)
        _add_first_data_key(database, path)
    return Vault(database, path)


def _add_first_data_key(database: Database, path: Path) -> None:
    vault = Vault(database, path)
    with database.transaction() as transaction:
        # Another process may have added one since the check.
        if transaction.one("SELECT 1 FROM data_keys") is None:
            vault.add_data_key(transaction, int(time.time()))
            transaction.audit_head = vault.proofs.signed_head(*transaction.chain_end)
