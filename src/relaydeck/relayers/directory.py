"""Finds a relayer and its network by the relayer's id, and remembers both until the next write."""

from functools import partial

from relaydeck.errors import RelayerNotFound
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Database
from relaydeck.store.vault import Vault

_MOST_REMEMBERED = 10_000


class RelayerDirectory:
    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._remembered: dict[str, tuple[Relayer, Network]] = {}
        self._forgotten = 0  # how often

    async def find(self, relayer_id: str) -> tuple[Relayer, Network]:
        """Raises RelayerNotFound, or Damaged when sealed URLs do not open."""
        found = self._remembered.get(relayer_id)
        if found is None:
            forgotten = self._forgotten
            found = await self._database.run_in_reader(partial(self.read, relayer_id))
            # What was read before the last write is right for who asked before it, and for nobody after.
            if forgotten == self._forgotten and len(self._remembered) < _MOST_REMEMBERED:
                self._remembered[relayer_id] = found
        return found

    def forget(self) -> None:
        self._remembered.clear()
        self._forgotten += 1

    def read(self, relayer_id: str) -> tuple[Relayer, Network]:
        """As `find`, for who has no event loop, and nothing to remember."""
        rows = self._database.read(f"SELECT {relayer_rows.COLUMNS} FROM relayers WHERE id = :id", {"id": relayer_id})
        if not rows:
            raise RelayerNotFound(relayer_id)
        relayer = relayer_rows.from_row(rows[0], self._vault)
        networks = self._database.read(
            f"SELECT {network_rows.COLUMNS} FROM networks WHERE name = :name",
            {"name": relayer.network},
        )
        if not networks:
            raise RelayerNotFound(relayer_id)  # both were removed between the two reads
        return relayer, network_rows.from_row(networks[0], self._vault)
