"""Finds a relayer and its network by the relayer's id, and caches both until the next write."""

from contextlib import suppress
from functools import partial

from relaydeck.errors import RelayerNotFound
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Database
from relaydeck.store.vault import Vault

_MAX_CACHED = 10_000
_MAX_IN_USE = 100  # networks that are listed


class RelayerDirectory:
    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._cached: dict[str, tuple[Relayer, Network]] = {}
        self._generation = 0  # grows with each write

    async def find(self, relayer_id: str) -> tuple[Relayer, Network]:
        """Raises RelayerNotFound, or Damaged when sealed URLs do not open."""
        found = self._cached.get(relayer_id)
        if found is None:
            generation = self._generation
            found = await self._database.run_in_reader(partial(self.read, relayer_id))
            # A record read before the last write answers this request, but must not be cached for later ones.
            if generation == self._generation and len(self._cached) < _MAX_CACHED:
                self._cached[relayer_id] = found
        return found

    async def networks_in_use(self) -> list[Network]:
        """The 100 oldest networks with relayers, without those that cannot be read."""
        return await self._database.run_in_reader(self._read_networks_in_use)

    def _read_networks_in_use(self) -> list[Network]:
        rows = self._database.read(
            f"SELECT {network_rows.COLUMNS} FROM networks"
            " WHERE EXISTS (SELECT 1 FROM relayers WHERE relayers.network = networks.name) ORDER BY seq LIMIT :most",
            {"most": _MAX_IN_USE},
        )
        found = []
        for row in rows:
            with suppress(Exception):  # it is reported where it is used
                found.append(network_rows.from_row(row, self._vault))
        return found

    def forget(self) -> None:
        self._cached.clear()
        self._generation += 1

    def read(self, relayer_id: str) -> tuple[Relayer, Network]:
        """Like `find`, without an event loop and without the cache."""
        relayer = relayer_rows.TABLE.find(self._database.read, self._vault, relayer_id)
        if relayer is None:
            raise RelayerNotFound(relayer_id)
        network = network_rows.TABLE.find(self._database.read, self._vault, relayer.network)
        if network is None:
            raise RelayerNotFound(relayer_id)  # both were removed between the two reads
        return relayer, network
