"""Finds a relayer and its network by the relayer's id, and remembers both until the next write."""

from relaydeck.errors import RelayerNotFound
from relaydeck.networks import records as network_records
from relaydeck.networks.model import Network
from relaydeck.relayers import records
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Database
from relaydeck.store.vault import Vault

_MOST_REMEMBERED = 10_000


class RelayerDirectory:
    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._remembered: dict[str, tuple[Relayer, Network]] = {}

    def find(self, relayer_id: str) -> tuple[Relayer, Network]:
        """Raises RelayerNotFound, or Damaged when sealed URLs do not open."""
        found = self._remembered.get(relayer_id)
        if found is None:
            found = self._read(relayer_id)
            if len(self._remembered) < _MOST_REMEMBERED:
                self._remembered[relayer_id] = found
        return found

    def forget(self) -> None:
        self._remembered.clear()

    def _read(self, relayer_id: str) -> tuple[Relayer, Network]:
        rows = self._database.read(f"SELECT {records.COLUMNS} FROM relayers WHERE id = :id", {"id": relayer_id})
        if not rows:
            raise RelayerNotFound(relayer_id)
        relayer = records.from_row(rows[0], self._vault)
        networks = self._database.read(
            f"SELECT {network_records.COLUMNS} FROM networks WHERE name = :name",
            {"name": relayer.network},
        )
        return relayer, network_records.from_row(networks[0], self._vault)
