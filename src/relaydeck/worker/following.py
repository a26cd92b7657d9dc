"""Keeps what a worker holds in memory up to date with the database, which may be a server that is away."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.errors import StoreError
from relaydeck.http.health_routes import Readiness
from relaydeck.settings import Settings
from relaydeck.store.follower import Follower, FollowsTable
from relaydeck.store.open_store import Store
from relaydeck.worker.readiness import follower_readiness, store_readiness

if TYPE_CHECKING:
    from relaydeck.store.remote_follower import RemoteFollower

_REMOTE_FOLLOWER = "relaydeck.store.remote_follower"
Report = Callable[[str], None]


class Following:
    """`local` is the follower of a database on this machine, `remote` that of a database server."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        tables: list[FollowsTable],
        forget: Callable[[], None],
        report_problem: Report,
        report_fork: Callable[[str, int], None],
        distrust_tokens: Callable[[], None],
    ) -> None:
        self._store = store
        self._stale_seconds = settings.stale_seconds
        self.local: Follower | None = None
        self.remote: RemoteFollower | None = None
        if not store.database.remote:
            self.follower: Follower | RemoteFollower = Follower(store.database, tables, forget)
            self.local = self.follower
            return
        remote: type[RemoteFollower] = import_module(_REMOTE_FOLLOWER).RemoteFollower
        self.follower = self.remote = remote(
            store.database,  # type: ignore[arg-type]
            tables,
            forget,
            stale_seconds=settings.stale_seconds,
            report_problem=report_problem,
            report_fork=report_fork,
            distrust_tokens=distrust_tokens,
        )

    @property
    def problem(self) -> str:
        return "" if self.remote is None else self.remote.problem

    @property
    def age(self) -> float:
        """For how many seconds the memory has not been compared with the database."""
        return 0.0 if self.remote is None else self.remote.age

    def revision(self) -> int:
        """Of the database, as far as this worker knows. A remote follower is notified and needs no look."""
        if self.local is not None:
            with suppress(StoreError):  # the next look tries again
                self.local.catch_up()
        return self.follower.revision

    async def readiness(self) -> Readiness:
        if self.remote is None:
            return await store_readiness(self._store)
        return follower_readiness(self.remote, self._stale_seconds)

    async def close(self) -> None:
        if self.remote is not None:
            await self.remote.close()
