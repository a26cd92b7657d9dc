"""What the database holds, looked up one record at a time, so that a small file on a large home is quick."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.notifications import notification_rows
from relaydeck.provisioning.declared import Resource
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.secret import Secret
from relaydeck.signers import signer_rows
from relaydeck.signers.shapes import Config
from relaydeck.store.database import Row
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault

ReadRows = Callable[[str, dict[str, Any]], list[Row]]
IDENTITY: dict[Resource, str] = {"networks": "name", "signers": "id", "notifications": "id", "relayers": "id"}
ORIGIN = "apply"  # of the rows that pruning may remove


class StoredSigner(NamedTuple):
    type: str
    config: Config


class StoredNotification(NamedTuple):
    type: str
    url: str
    signing_key: Secret | Damaged | None


class Stored:
    """`read` runs inside one snapshot or one transaction: everything seen here belongs to one moment."""

    def __init__(self, read: ReadRows, vault: Vault) -> None:
        self._read = read
        self._vault = vault
        # Ten thousand relayers may share one signer, which is opened once.
        self.signer = cache(self._signer)
        self.exists = cache(self._exists)
        self._by_name: dict[str, list[str]] | None = None

    def _row(self, columns: str, resource: Resource, record: str) -> Row | None:
        sql = f"SELECT {columns} FROM {resource} WHERE {IDENTITY[resource]} = :record"
        rows = self._read(sql, {"record": record})
        return rows[0] if rows else None

    def _exists(self, resource: Resource, record: str) -> bool:
        return self._row("1", resource, record) is not None

    def network(self, name: str) -> Network | Damaged | None:
        row = self._row(network_rows.COLUMNS, "networks", name)
        try:
            return None if row is None else network_rows.from_row(row, self._vault)
        except Damaged as damage:
            return damage

    def _signer(self, signer_id: str) -> StoredSigner | Damaged | None:
        row = self._row("type, open_config, sealed_config", "signers", signer_id)
        if row is None:
            return None
        try:
            return StoredSigner(row[0], signer_rows.open_config(self._vault, signer_id, *row))
        except Damaged as damage:
            return damage

    def notification(self, notification_id: str) -> StoredNotification | None:
        row = self._row("type, url, sealed_signing_key", "notifications", notification_id)
        if row is None:
            return None
        return StoredNotification(row[0], row[1], self._signing_key(notification_id, row[2]))

    def _signing_key(self, notification_id: str, sealed: bytes | None) -> Secret | Damaged | None:
        if sealed is None:
            return None
        try:
            return Secret(self._vault.open(sealed, notification_rows.place(notification_id)).decode())
        except Damaged as damage:
            return damage

    def relayer(self, relayer_id: str) -> Relayer | Damaged | None:
        row = self._row(relayer_rows.COLUMNS, "relayers", relayer_id)
        try:
            return None if row is None else relayer_rows.from_row(row, self._vault)
        except Damaged as damage:
            return damage

    def applied_relayers_named(self, name: str) -> list[str]:
        """The ids of the relayers of that name that an apply created."""
        if self._by_name is None:
            self._by_name = {}
            sql = "SELECT id, name FROM relayers WHERE origin = :origin ORDER BY seq"
            for relayer_id, known in self._read(sql, {"origin": ORIGIN}):
                self._by_name.setdefault(known, []).append(relayer_id)
        return self._by_name.get(name, [])

    def applied(self, resource: Resource) -> list[str]:
        """Every record of a resource that an apply created, oldest first."""
        sql = f"SELECT {IDENTITY[resource]} FROM {resource} WHERE origin = :origin ORDER BY seq"
        return [row[0] for row in self._read(sql, {"origin": ORIGIN})]

    def referring(self, resource: Resource, record: str) -> list[str]:
        """The ids of the relayers that refer to a record."""
        column = {"networks": "network", "signers": "signer_id", "notifications": "notification_id"}[resource]
        sql = f"SELECT id FROM relayers WHERE {column} = :record ORDER BY seq"
        return [row[0] for row in self._read(sql, {"record": record})]
