"""The master key and a backup: it authenticates the file, and can be part of it, sealed with a passphrase.

A passphrase comes from a file or the terminal: other users of the machine can see arguments and environment.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click

from relaydeck.cli.output import progress_bar
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.copying.passphrase import LEAST_CHARACTERS, open_master_key, seal_master_key
from relaydeck.store.database import Reader
from relaydeck.store.master_key import MasterKey, create_master_key, master_key_bytes, open_keyring
from relaydeck.store.sealing import Keyring

_EXPLAINED = (
    "--unauthenticated restores it nevertheless, and revokes every token, session and sign-in link in it. Other"
    " records may be forged too: restore it only if nobody else could write the file."
)


@dataclass(frozen=True)
class CheckedBackup:
    """A backup whose every byte was checked, and the master key that opens it, if there is one."""

    file: BackupFile
    key: bytes | None = field(repr=False)
    keyring: Keyring | None
    is_authentic: bool


def master_key_of(reader: Reader, path: Path) -> bytes:
    """The key in the file at `path`. Raises OperatorError unless it is the key of this database."""
    key = master_key_bytes(path)
    rows = reader.read("SELECT id, wrapped FROM data_keys ORDER BY id")
    open_keyring(MasterKey(key), [(row.id, row.wrapped) for row in rows])
    return key


def sealed_master_key(key: bytes, passphrase_file: Path | None) -> bytes:
    """The master key, sealed with a new passphrase."""
    return seal_master_key(key, _new_passphrase(passphrase_file))


@contextmanager
def checked_backup(
    path: Path, key_path: Path, passphrase_file: Path | None, unauthenticated: bool
) -> Iterator[CheckedBackup]:
    """Raises OperatorError unless it is authentic. `unauthenticated` accepts one that cannot be authenticated."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        with progress_bar("checking", size) as advance:
            backup = BackupFile(path, file, advance)
        key = _master_key_for(backup, key_path, passphrase_file)
        is_authentic = _is_authentic(backup, path, key, key_path, unauthenticated)
        with progress_bar("reading", size) as advance:
            backup.check_contents(advance)
        keyring = None if key is None else open_keyring(MasterKey(key), backup.data_keys())
        yield CheckedBackup(backup, key, keyring, is_authentic)


def _is_authentic(backup: BackupFile, path: Path, key: bytes | None, key_path: Path, unauthenticated: bool) -> bool:
    if key is not None and backup.has_mac:
        if backup.is_authentic(MasterKey(key)):
            return True
        raise OperatorError(
            f"the backup {path} is not authentic: another master key made it, or somebody changed it",
            f"Use the master key file of the service that wrote it ({key_path}), or another copy of the backup."
            " Nothing was changed.",
        )
    if unauthenticated:
        return False
    if backup.has_mac:
        raise OperatorError(
            f"the backup {path} cannot be authenticated: the master key file {key_path} is missing",
            f"Put your copy of it there first. {_EXPLAINED}",
        )
    raise OperatorError(
        f"the backup {path} cannot be authenticated: it has no MAC (an older Relaydeck, or a forger, wrote it)",
        f"Somebody could have added tokens to it. {_EXPLAINED}",
    )


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise OperatorError(
            f"the backup {path} cannot be read: {error.strerror}", "Name a file that 'relaydeck backup' wrote."
        ) from None


def _master_key_for(backup: BackupFile, path: Path, passphrase_file: Path | None) -> bytes | None:
    """The key in the file at `path`, else the one in the backup, else None."""
    if path.exists():
        return master_key_bytes(path)
    sealed = backup.header.sealed_master_key
    return None if sealed is None else open_master_key(sealed, _known_passphrase(passphrase_file))


def write_master_key(key: bytes | None, path: Path) -> None:
    if key is not None:
        create_master_key(path, lambda _count: key)  # leaves an existing file unchanged


def _new_passphrase(file: Path | None) -> Secret:
    passphrase = _from_file(file) if file else _prompt("Passphrase for the master key", twice=True)
    if len(passphrase.reveal()) < LEAST_CHARACTERS:
        raise OperatorError(f"the passphrase is shorter than {LEAST_CHARACTERS} characters", "Nothing was written.")
    return passphrase


def _known_passphrase(file: Path | None) -> Secret:
    return _from_file(file) if file else _prompt("Passphrase of the master key in the backup", twice=False)


def _from_file(file: Path) -> Secret:
    lines = file.read_text("utf-8").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise OperatorError(f"{file} does not contain exactly one line with a passphrase")
    return Secret(lines[0])


def _prompt(question: str, *, twice: bool) -> Secret:
    if not sys.stdin.isatty():
        raise OperatorError("there is no terminal to ask for the passphrase", "Pass it with --passphrase-file.")
    return Secret(click.prompt(question, hide_input=True, confirmation_prompt=twice, err=True))
