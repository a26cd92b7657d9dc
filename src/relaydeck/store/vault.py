"""Seals and opens the secrets of one database, following its keyring as that is rotated."""

from relaydeck.store.database import Database, Transaction
from relaydeck.store.sealing import Keyring, MasterKey, Place, new_data_key, open_keyring, sealing_key_of


class Vault:
    def __init__(self, database: Database, master: MasterKey) -> None:
        self._database = database
        self._master = master
        self._keyring = Keyring({})
        self._load()

    def _load(self) -> None:
        rows = self._database.read("SELECT id, wrapped FROM data_keys ORDER BY id")
        self._keyring = open_keyring(self._master, [(row.id, row.wrapped) for row in rows])

    def open(self, sealed: bytes, place: Place) -> bytes:
        """Raises Damaged when the value was changed or moved."""
        if not self._keyring.knows(sealing_key_of(sealed)):
            self._load()
        return self._keyring.open(sealed, place)

    def seal(self, plain: bytes, place: Place, transaction: Transaction) -> bytes:
        """Seal inside a write transaction, so that a rotation cannot retire the key in between."""
        return self.caught_up(transaction)._keyring.seal(plain, place)

    def seal_early(self, plain: bytes, place: Place) -> bytes:
        """Seal before the transaction; in it, the value's `mark` tells whether a rotation came in between."""
        return self._keyring.seal(plain, place)

    def mark(self, transaction: Transaction) -> bytes:
        """What a value that the newest key sealed begins with."""
        return self.caught_up(transaction)._keyring.header

    def caught_up(self, transaction: Transaction) -> "Vault":
        """This vault, knowing every key that the transaction can meet."""
        if transaction.newest_key != self._keyring.active:
            rows = transaction.all("SELECT id, wrapped FROM data_keys ORDER BY id")
            self._keyring = open_keyring(self._master, [(row.id, row.wrapped) for row in rows])
        return self

    def add_data_key(self, transaction: Transaction, now: int) -> None:
        """A new data key; from the next seal on it is the one that seals."""
        added = transaction.one(
            "INSERT INTO data_keys (wrapped, created_at) VALUES (:wrapped, :now) RETURNING id",
            {"wrapped": new_data_key(self._master), "now": now},
        )
        assert added is not None
        transaction.newest_key = added.id
