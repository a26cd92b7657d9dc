"""What is read and sealed before the transaction that stores it, and whether it is still valid in that transaction."""

from relaydeck.errors import RecordNotFound
from relaydeck.store import audit
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.vault import Vault

Record = tuple[str, str]  # resource, as actions of the audit log name it, and identity


class Preparation:
    """`read` runs inside one snapshot, or inside the transaction itself."""

    def __init__(self, read: ReadRows, vault: Vault) -> None:
        self._read = read
        self.vault = vault
        self.keyring = vault.keyring_to_seal(read)
        self._end = audit.head(lambda sql: read(sql, {}))
        # The number of audit entries: the version of the values that are sealed with it, see `sealed_columns.py`.
        self.version = self._end.seq
        self._entries: list[tuple[Record, str]] = []  # those between the version and `_end`

    def row(self, sql: str, record: str) -> Row:
        found = self._read(sql, {"id": record})
        if not found:
            raise RecordNotFound("relayer")
        return found[0]

    def entries_since(self, transaction: Transaction) -> list[tuple[Record, str]] | None:
        """The records with an entry in the audit log since then, each with what was done: every change has an entry.

        None: the log does not continue the one that was read. A standby that lacked its end may have been promoted.
        """
        if transaction.chain_end != self._end and not self.advance(transaction.all):
            return None
        return self._entries

    def advance(self, read: ReadRows) -> bool:
        """Read the entries that were added. Before the transaction, so that it has few to read. False: see above."""
        sql = "SELECT seq, hash, action, record FROM audit WHERE seq >= :seq ORDER BY seq"
        rows = read(sql, {"seq": self._end.seq})
        if self._end.seq and (not rows or (rows[0].seq, rows[0].hash) != self._end):
            return False
        self._entries += [_entry(row) for row in rows if row.seq > self._end.seq]
        if rows:
            self._end = audit.Head(rows[-1].seq, rows[-1].hash)
        return True

    def opens_in(self, transaction: Transaction) -> bool:
        """Whether its keyring still seals: a rotation may retire the key of an earlier one."""
        return self.keyring.active == transaction.newest_key


def _entry(row: Row) -> tuple[Record, str]:
    resource, _, change = row.action.partition(".")
    return (resource, row.record), change
