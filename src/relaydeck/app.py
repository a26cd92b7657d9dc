"""The one place that wires settings to services to the ASGI application."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaydeck.contract.description import admin_page
from relaydeck.contract.operations import Operations, Pages
from relaydeck.contract.routes import Router
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.contract.views import relayer_encoder, signer_encoder
from relaydeck.credentials.token_book import TokenBook
from relaydeck.errors import StoreError, operator_words
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.options import FeeOptions
from relaydeck.http.body import BodyReader, Receive
from relaydeck.http.envelope import Failure
from relaydeck.http.limit_server import LimitServer
from relaydeck.http.metrics import (
    DAMAGED_VALUES,
    EVENT_TRIES,
    LOG_LINES_DROPPED,
    STORE_AWAY,
    UNEXPECTED_FAILURES,
    Metrics,
)
from relaydeck.http.operations import Readiness
from relaydeck.http.pipeline import Pipeline, Route, Send, failure_encoder, innermost
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.shared_limits import SharedLimiter
from relaydeck.log import Log
from relaydeck.notifications.delivery_service import DeliveryService
from relaydeck.operations_worker import (
    OperationsWorker,
    open_access_log,
    open_routes,
    readiness_from_memory,
    store_readiness,
)
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.monitor_service import MonitorService
from relaydeck.settings import Settings
from relaydeck.signers import signer_rows
from relaydeck.store.audit import AuditLog
from relaydeck.store.follower import Follower, Follows
from relaydeck.store.listing import Listing
from relaydeck.store.open_store import open_store
from relaydeck.store.sealing import Damaged
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.admin.api import AdminApi
    from relaydeck.store.remote_follower import RemoteFollower

_LOOK_SECONDS = 1.0
_DEAF_TURNS = 10
_WARM_ITEMS = 200
_ADMIN_API = "relaydeck.admin.api"
_REMOTE_FOLLOWER = "relaydeck.store.remote_follower"


class Worker:
    """Everything one worker process holds, from the start of its event loop to its end."""

    def __init__(self, settings: Settings, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics
        self._access_log = open_access_log(settings, log, metrics)
        self._store = open_store(settings)
        database, vault = self._store
        self._writer = Writer(database, self._away) if database.remote else Writer(database)
        self._settings = settings
        self._audit = AuditLog(vault)
        self._admin: AdminApi | None = None
        self._abandoned = False  # the database is away: nobody waits for it
        self._signers = Listing(
            "signers",
            signer_rows.LIST_COLUMNS,
            signer_encoder(widened=settings.signer_config == "non_secret"),
            database,
            whole=database.remote,
        )
        self._relayers = Listing(
            "relayers",
            relayer_rows.COLUMNS,
            relayer_encoder(vault, self._report_damage),
            database,
            whole=database.remote,
        )
        tokens = TokenBook()
        self._directory = RelayerDirectory(database, vault)
        self._delivery_service = DeliveryService(
            settings, self._store, self._writer, log, partial(metrics.count, EVENT_TRIES)
        )
        self._estimator = Estimator(fee_options(settings))
        self._monitor_service = MonitorService(
            settings, self._store, self._writer, self._audit, log, self._estimator.pool
        )
        followers: list[Follows] = [
            tokens,
            self._signers,
            self._relayers,
            self._delivery_service,
            self._monitor_service,
        ]
        self._follower = self._follow(followers)
        self._signer_pages = Pages(self._signers, self._follower.fill, settings.max_per_page)
        self._relayer_pages = Pages(self._relayers, self._follower.fill, settings.max_per_page)
        operations = Operations(
            signers=self._signer_pages,
            relayers=self._relayer_pages,
            run_rpc=RelayerRpc(self._directory, self._follower.catch_up, self._estimator, self._report_unforeseen),
            writer=self._writer,
            audit=self._audit,
            widened_signer_config=settings.signer_config == "non_secret",
        )
        limiter = _limiter(settings)
        self._shared_limiter = _shared_limiter(settings, limiter, log, metrics)
        router = Router(self._open_routes(settings), operations.routes(), {b"admin": self._find_admin})
        self.pipeline = Pipeline(
            exact_routes=router.exact,
            find_route=router.find,
            catch_up=self._follower.catch_up,
            catch_up_with_tokens=self._follower.catch_up_with_tokens,
            reach=self._follower.reach,
            find_credential=tokens.find,
            limiter=limiter,
            shared_limiter=self._shared_limiter,
            limit_policy=_limit_policy(settings),
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=log,
            encode_failure=failure_encoder(Failure),
        )
        self._follower.load()
        self._background = [asyncio.create_task(self._keep_looking()), asyncio.create_task(self._warm())]

    def _open_routes(self, settings: Settings) -> dict[str, dict[str, Route]]:
        if settings.operations_address is not None:
            return {}
        return open_routes(self._metrics, self._readiness, self._store)

    def _follow(self, followers: list[Follows]) -> "Follower | RemoteFollower":
        database = self._store.database
        if not database.remote:
            return Follower(database, followers, self._forget)
        remote: type[RemoteFollower] = import_module(_REMOTE_FOLLOWER).RemoteFollower
        return remote(
            database,  # type: ignore[arg-type]
            followers,
            self._forget,
            stale_seconds=self._settings.stale_seconds,
            announce=self._announce_away,
        )

    def _announce_away(self, problem: str) -> None:
        self._metrics.set(STORE_AWAY, bool(problem))
        if problem:
            self._log.event("error", "the database is away: lists are answered from memory", problem=problem)
            self._writer.give_up(problem)
        else:
            self._log.event("info", "the database is back")
        self._abandoned = bool(problem)
        for each in (self._store.database, self._admin):
            if each is not None:
                each.abandon() if problem else each.resume()

    def _away(self) -> str:
        return "" if isinstance(self._follower, Follower) else self._follower.problem

    async def _readiness(self) -> Readiness:
        if isinstance(self._follower, Follower):
            return await store_readiness(self._store)
        if not self._follower.problem:
            return Readiness(True)
        return readiness_from_memory(self._follower.age, self._settings.stale_seconds)

    def _find_admin(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        """Made when first asked for: the start does not wait for it."""
        if self._admin is None:
            api: type[AdminApi] = import_module(_ADMIN_API).AdminApi
            self._admin = api(self._settings, self._writer, self._audit, admin_page, self._estimator.pool)
            if self._abandoned:
                self._admin.abandon()
        return self._admin.find(method, path, raw_path)

    def _forget(self) -> None:
        self._signer_pages.forget()
        self._relayer_pages.forget()
        self._directory.forget()

    def _report_damage(self, damage: Damaged) -> None:
        self._metrics.count(DAMAGED_VALUES)
        self._log.event("error", "sealed value does not open", record=damage.place.record, table=damage.place.table)

    def _report_unforeseen(self, error: BaseException) -> None:
        self._metrics.count(UNEXPECTED_FAILURES)
        self._log.event("error", "a fee estimate failed unexpectedly", error=type(error).__name__, at=innermost(error))

    async def _keep_looking(self) -> None:
        """A writer killed between its commit and its ring is heard here; and so is a parent that was killed."""
        parent = os.getppid()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if os.getppid() != parent:
                self._log.event("error", "the process that started this worker is gone: stopping")
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if isinstance(self._follower, Follower):
                self._look_by_ourselves(self._follower)

    def _look_by_ourselves(self, follower: Follower) -> None:
        try:
            follower.look()
        except StoreError as error:
            self._log.event("error", "the store cannot be read", problem=str(error))

    async def _warm(self) -> None:
        """Encode every item in the background, a few at a time, so that no page has a first reader."""
        if not self._store.database.remote:  # else they are encoded already
            for listing in (self._signers, self._relayers):
                await self._warm_listing(listing)
        await asyncio.to_thread(import_module, _ADMIN_API)
        _calm_garbage_collection()

    async def _warm_listing(self, listing: Listing) -> None:
        start = 0
        while start < listing.total:
            try:
                self._follower.fill(listing, partial(_from, start))
            except StoreError:
                return  # told by those who look each second; the pages are filled when they are asked for
            start += _WARM_ITEMS
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        for task in self._background:
            task.cancel()
        await self._monitor_service.close()
        if self._shared_limiter is not None:
            await self._shared_limiter.close()
        await self._estimator.close()
        await self._delivery_service.close()
        await self._writer.stop()
        if not isinstance(self._follower, Follower):
            await self._follower.close()  # until now it would notice a server that begins to hang
        if self._admin is not None:
            self._admin.close()
        self._access_log.flush()
        self._store.close()


class Application:
    """The ASGI application. Its worker is made when the server's event loop has begun."""

    def __init__(
        self,
        settings: Settings,
        metrics_path: Path,
        log: Log,
        make_worker: Callable[[Settings, Log, Metrics], Worker | OperationsWorker] = Worker,
    ) -> None:
        self._make_worker = make_worker
        self._settings = settings
        self._metrics_path = metrics_path
        self._log = log

    def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http":
            return self._pipeline(scope, receive, send)
        return self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            worker = self._start()
        except Exception as error:
            # Told in our words; anything unforeseen by its kind, since its text might quote a setting.
            problem, remedy = operator_words(error)
            self._log.event("error", "cannot start", problem=problem, remedy=remedy)
            self._log.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            await send({"type": "lifespan.startup.failed", "message": "the worker cannot start"})
            return
        await send({"type": "lifespan.startup.complete"})
        # The server stops its loop now and runs it anew. A signal in between would be lost: it is held back until
        # turns have passed that the first run had no more of.
        for _ in range(_DEAF_TURNS):
            await asyncio.sleep(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        await receive()
        await worker.stop()
        self._log.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _start(self) -> Worker | OperationsWorker:
        self._log.gather(asyncio.get_running_loop())
        metrics = Metrics(self._metrics_path)
        metrics.claim_row()
        self._log.dropped = lambda lines: metrics.count(LOG_LINES_DROPPED, by=lines)
        worker = self._make_worker(self._settings, self._log, metrics)
        _calm_garbage_collection()
        self._pipeline = worker.pipeline
        return worker


def _from(start: int, total: int) -> tuple[int, int]:
    return start, min(start + _WARM_ITEMS, total)


def _limiter(settings: Settings) -> RateLimiter | None:
    if settings.rate_limit_per_second == 0:
        return None
    path = settings.run_folder / "limits"
    return RateLimiter(path, settings.rate_limit_per_second, settings.rate_limit_burst)


def _shared_limiter(settings: Settings, local: RateLimiter | None, log: Log, metrics: Metrics) -> SharedLimiter | None:
    if local is None or settings.limits_url is None:
        return None
    server = LimitServer(settings.limits_url, settings.limits_password_file, settings.limits_timeout_seconds)
    return SharedLimiter(
        server, local, settings.rate_limit_per_second, settings.rate_limit_burst, log=log, metrics=metrics
    )


def _limit_policy(settings: Settings) -> tuple[bytes, bytes]:
    window = -(-settings.rate_limit_burst // max(settings.rate_limit_per_second, 1))
    return (b"ratelimit-policy", b'"default";q=%d;w=%d' % (settings.rate_limit_burst, window))


def fee_options(settings: Settings) -> FeeOptions:
    return FeeOptions(
        priority_percentile=settings.priority_fee_percentile,
        history_blocks=settings.priority_fee_blocks,
        deadline=settings.rpc_deadline_seconds,
        try_timeout=settings.rpc_try_timeout_seconds,
        pause_max=settings.rpc_probe_seconds,
        connections_per_url=settings.rpc_connections,
        allow=settings.rpc_allowed,
    )


def _calm_garbage_collection() -> None:
    """What is loaded stays: leave it out of collections, and look for cycles less often than every 700 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
