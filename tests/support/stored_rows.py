"""Writes rows of records without entries in the audit log, to fill the databases of tests and benchmarks."""

from relaydeck.store import changes
from relaydeck.store.database import Transaction
from relaydeck.store.record_table import R, RecordTable, StoredValues
from relaydeck.store.vault import Vault


def create_row(
    table: RecordTable[R], transaction: Transaction, vault: Vault, record: R, *, origin: str = "api", now: int = 0
) -> None:
    values = _values(table, transaction, vault, record) | {"origin": origin, "created_at": now}
    transaction.insert(table.name, tuple(values), [tuple(values.values())])


def update_row(table: RecordTable[R], transaction: Transaction, vault: Vault, record: R) -> None:
    """Write every field except the identity and the read-only ones."""
    changed = ", ".join(f"{column} = :{column}" for column in (*table.changeable, "revision"))
    statement = f"UPDATE {table.name} SET {changed} WHERE {table.identity} = :{table.identity}"
    transaction.execute(statement, _values(table, transaction, vault, record))


def remove_signer(transaction: Transaction, name: str) -> None:
    (row,) = transaction.all("SELECT seq FROM signers WHERE id = :id", {"id": name})
    changes.remove_row(transaction, "signers", row.seq)


def _values(table: RecordTable[R], transaction: Transaction, vault: Vault, record: R) -> StoredValues:
    keyring, version = vault.refreshed(transaction).keyring, transaction.chain_end[0]
    return table.stored_values(record, keyring, version) | {"revision": transaction.revision}
