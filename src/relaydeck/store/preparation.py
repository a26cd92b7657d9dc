"""What is read and sealed before the transaction that stores it, and whether it is still valid in that transaction."""

from collections.abc import Iterator

from relaydeck.errors import RecordNotFound
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.vault import Vault

Record = tuple[str, str]  # resource, as actions of the audit log name it, and identity


class Preparation:
    """`read` runs inside one snapshot, or inside the transaction itself."""

    def __init__(self, read: ReadRows, vault: Vault) -> None:
        self._read = read
        self.vault = vault
        self.keyring = vault.keyring_to_seal(read)
        end = read("SELECT seq FROM audit ORDER BY seq DESC LIMIT 1", {})
        # The number of audit entries: the version of the values that are sealed with it, see `sealed_columns.py`.
        self.version: int = end[0].seq if end else 0

    def row(self, sql: str, record: str) -> Row:
        found = self._read(sql, {"id": record})
        if not found:
            raise RecordNotFound("relayer")
        return found[0]

    def changed_since(self, transaction: Transaction) -> Iterator[Record]:
        """The records with an entry in the audit log since then. Every change of a record has one."""
        if transaction.chain_end[0] == self.version:
            return
        for row in transaction.all("SELECT action, record FROM audit WHERE seq > :seq", {"seq": self.version}):
            yield row.action.partition(".")[0], row.record

    def opens_in(self, transaction: Transaction) -> bool:
        """Whether its keyring still seals: a rotation may retire the key of an earlier one."""
        return self.keyring.active == transaction.newest_key
