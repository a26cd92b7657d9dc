import json
from typing import Any

from relaydeck.contract.operations import Pages, relayer_encoder, signer_encoder
from relaydeck.relayers import relayer_rows
from relaydeck.scope import Visible
from relaydeck.signers import signer_changes
from relaydeck.store.database import Database
from relaydeck.store.follower import Follower, RemoteFollower
from relaydeck.store.listing import Listing
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.scoped_lists import KeptScopes, ScopedTable
from relaydeck.store.vault import Vault


class ScopedLists:
    """In a running event loop."""

    def __init__(self, database: Database, vault: Vault) -> None:
        preload = database.remote
        encode = {"signers": signer_encoder(widened=False), "relayers": relayer_encoder(vault, lambda damage: None)}
        columns = {"signers": signer_changes.LIST_COLUMNS, "relayers": relayer_rows.COLUMNS}
        listings = {t: Listing(t, columns[t], encode[t], database, preload=preload) for t in encode}
        self.scopes = KeptScopes(database.open_reader, lambda revision: self.follower.reach(revision))
        tables: list[Any] = [*listings.values(), *(ScopedTable(table, self.scopes) for table in listings)]
        self.follower: Follower | RemoteFollower
        if isinstance(database, PostgresDatabase):
            self.follower = RemoteFollower(
                database,
                tables,
                self._forget,
                stale_seconds=60,
                report_problem=lambda problem: None,
            )
        else:
            self.follower = Follower(database, tables, self._forget)
        self._pages = {t: Pages(each, self.follower.fill, 1000, self.scopes) for t, each in listings.items()}
        self.follower.load()

    def _forget(self) -> None:
        for each in self._pages.values():
            each.forget()

    async def page(self, scope: Visible | None, table: str, query: str = "") -> bytes:
        if (behind := self.follower.catch_up()) is not None:
            assert await behind == ()
        if scope is None:
            return self._pages[table].page(query.encode())
        return await self._pages[table].scoped_page(scope, query.encode())

    async def names(self, scope: Visible | None, table: str) -> list[str]:
        body = json.loads(await self.page(scope, table, "per_page=1000"))
        assert body["pagination"]["total_items"] == len(body["data"])
        return [each["id"] for each in body["data"]]

    async def close(self) -> None:
        self.scopes.close()
        await self.follower.close()
