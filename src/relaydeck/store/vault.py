"""Seals and opens the secrets of one database, and follows its keyring through rotations."""

from relaydeck.store.database import Database, Reader, ReadRows, Row, Transaction
from relaydeck.store.master_key import MasterKey, new_data_key, open_keyring
from relaydeck.store.sealing import Keyring, Place, sealing_key_of

_KEYS = "SELECT id, wrapped FROM data_keys ORDER BY id"


def read_keyring(database: Reader, master: MasterKey) -> Keyring:
    """Raises OperatorError."""
    return _opened(master, database.read(_KEYS))


def _opened(master: MasterKey, rows: list[Row]) -> Keyring:
    return open_keyring(master, [(row.id, row.wrapped) for row in rows])


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
            self.keyring = _opened(self._master, transaction.all(_KEYS))
        return self

    def keyring_to_seal(self, read: ReadRows) -> Keyring:
        """To seal values ahead of a transaction. It must not store them if its newest key is another one."""
        newest = read("SELECT max(id) AS newest FROM data_keys", {})[0].newest
        if newest != self.keyring.active:
            self.keyring = _opened(self._master, read(_KEYS, {}))
        return self.keyring

    def add_data_key(self, transaction: Transaction, now: int) -> None:
        """Add a data key. It seals every value from then on."""
        added = transaction.one(
            "INSERT INTO data_keys (wrapped, created_at) VALUES (:wrapped, :now) RETURNING id",
            {"wrapped": new_data_key(self._master), "now": now},
        )
        assert added is not None
        transaction.newest_key = added.id
