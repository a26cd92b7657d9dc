"""Opens the vault of a database. A new database gets its first data key, and a master key if there is none."""

import time
from pathlib import Path

from relaydeck.store.database import Database
from relaydeck.store.master_key import MasterKey, create_master_key, read_master_key
from relaydeck.store.sealing import Keyring
from relaydeck.store.vault import Vault, read_keyring


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
