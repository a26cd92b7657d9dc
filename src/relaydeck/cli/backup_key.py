"""The master key in a backup: sealed with a passphrase when it is written, opened when it is restored.

A passphrase comes from a file or the terminal: other users of the machine can see arguments and environment.
"""

import sys
from pathlib import Path

import click

from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.copying.passphrase import LEAST_CHARACTERS, open_master_key, seal_master_key
from relaydeck.store.database import Reader
from relaydeck.store.master_key import MasterKey, create_master_key, master_key_bytes, open_keyring
from relaydeck.store.sealing import Keyring


def sealed_master_key(reader: Reader, path: Path, passphrase_file: Path | None) -> bytes:
    """The master key of this database, sealed with a new passphrase."""
    key = master_key_bytes(path)
    rows = reader.read("SELECT id, wrapped FROM data_keys ORDER BY id")
    open_keyring(MasterKey(key), [(row.id, row.wrapped) for row in rows])  # raises unless it is this database's key
    return seal_master_key(key, _new_passphrase(passphrase_file))


def master_key_for(backup: BackupFile, path: Path, passphrase_file: Path | None) -> bytes | None:
    """The key in the file at `path`, else the one in the backup, else None. Raises OperatorError if it does not fit."""
    sealed = backup.header.sealed_master_key
    if path.exists():
        key = master_key_bytes(path)
    elif sealed is not None:
        key = open_master_key(sealed, _known_passphrase(passphrase_file))
    else:
        return None
    open_keyring(MasterKey(key), backup.data_keys())
    return key


def keyring_for(backup: BackupFile, path: Path, passphrase_file: Path | None) -> Keyring | None:
    """The keyring of the backup, if there is a master key for it. Raises as `master_key_for`."""
    key = master_key_for(backup, path, passphrase_file)
    return None if key is None else open_keyring(MasterKey(key), backup.data_keys())


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
