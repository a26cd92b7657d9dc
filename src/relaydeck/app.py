"""The one place that wires settings to services to the ASGI application."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaydeck.admin import idempotency
from relaydeck.contract.description import admin_page
from relaydeck.contract.lists import Pages
from relaydeck.contract.operations import contract_routes
from relaydeck.contract.routes import ContractRoutes, Router
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.contract.views import relayer_encoder, signer_encoder
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.credentials.token_book import TokenBook
from relaydeck.credentials.token_rows import Token
from relaydeck.errors import Damaged, ServerFailure, StoreError, operator_words
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.options import FeeOptions
from relaydeck.http.access_log import AccessLog
from relaydeck.http.body import BodyReader, Receive
from relaydeck.http.limit_server import LimitServer
from relaydeck.http.metrics import (
    DAMAGED_VALUES,
    ESTIMATE_SECONDS,
    ESTIMATES,
    EVENT_TRIES,
    FORGED_TOKENS,
    HISTORY_CHANGES,
    LOG_LINES_DROPPED,
    MONITOR_CHECKS,
    MONITOR_LAG,
    MONITOR_ROUND,
    MONITOR_SHARDS,
    OPEN_FILES,
    READ_MODEL_AGE,
    RESIDENT_BYTES,
    SIGNER_CHECKS,
    STORE_AWAY,
    UNEXPECTED_FAILURES,
    WORKERS,
    Metrics,
)
from relaydeck.http.operations import Readiness
from relaydeck.http.pipeline import Call, Find, Pipeline, Reply, Route, Send, innermost
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.shared_limits import SharedLimiter
from relaydeck.http.unread_responses import limit_unread
from relaydeck.log import Log
from relaydeck.notifications.delivery_service import DeliveryService
from relaydeck.operations_worker import (
    OperationsWorker,
    open_access_log,
    open_routes,
    readiness_from_memory,
    store_readiness,
)
from relaydeck.process_figures import own_process
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.monitor_service import MonitorService
from relaydeck.settings import Settings
from relaydeck.signers import signer_rows
from relaydeck.signers.check_service import SignerCheckService
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog
from relaydeck.store.follower import Follower, FollowsTable
from relaydeck.store.listing import Listing
from relaydeck.store.open_store import Store, open_store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.admin.api import AdminApi
    from relaydeck.console.console import Console
    from relaydeck.relayers.monitor import RoundReport
    from relaydeck.store.remote_follower import RemoteFollower

_CHECK_SECONDS = 1.0
_PURGE_SECONDS = 3600.0
_UNMASK_TURNS = 10
_WARM_ITEMS = 200
_ADMIN_API = "relaydeck.admin.api"
_CONSOLE = "relaydeck.console.console"
_REMOTE_FOLLOWER = "relaydeck.store.remote_follower"


class Worker:
    """Everything one worker process holds, from the start of its event loop to its end.

    Each service registers its closer when it is started, and `stop` calls the closers in reverse order: a service is
    closed before those it was built on.
    """

    def __init__(self, settings: Settings, log: Log, metrics: Metrics) -> None:
        self._settings, self._log, self._metrics = settings, log, metrics
        self._closers = AsyncExitStack()
        self._admin: AdminApi | None = None
        self._console: Console | None = None
        self._suspended = False  # the database is unreachable: nothing waits for it
        self._store = self._open_store()
        self._access_log = self._open_access_log()
        self._writer = self._start_writer()
        self._audit = AuditLog(self._store.vault)
        self._estimator = self._start_estimator()
        self._key_access = self._open_key_access()
        self._build_read_model()
        self._console_route = Route("console", None, answer=self._answer_console)
        self.pipeline = self._build_pipeline()
        self._follower.load()
        self._start_task(self._check_each_second())
        self._start_task(self._warm())
        self._start_task(self._purge_each_hour())

    async def stop(self) -> None:
        await self._closers.aclose()

    # -- steps of the start -----------------------------------------------------------------------

    def _open_store(self) -> Store:
        store = open_store(self._settings)
        self._closers.callback(store.close)
        return store

    def _open_access_log(self) -> AccessLog:
        access_log = open_access_log(self._settings, self._log, self._metrics)
        self._closers.callback(access_log.flush)
        return access_log

    def _start_writer(self) -> Writer:
        database = self._store.database
        # The follower closes after the writer: until the last write has ended it reports a server that hangs.
        self._closers.push_async_callback(self._close_follower)
        writer = Writer(database, self._problem) if database.remote else Writer(database)
        self._closers.push_async_callback(writer.stop)
        return writer

    def _start_estimator(self) -> Estimator:
        estimator = Estimator(fee_options(self._settings))
        self._closers.push_async_callback(estimator.close)
        return estimator

    def _open_key_access(self) -> KeyAccess:
        access = KeyAccess(self._settings)
        self._closers.push_async_callback(access.close)
        return access

    def _build_read_model(self) -> None:
        """What this process keeps in memory of the database, and the follower that keeps it up to date."""
        database, vault = self._store
        self._tokens = TokenBook(vault.proofs, self._report_forged_token)
        self._caller_writer = CallerWriter(self._writer, self._tokens)
        encode_signer = signer_encoder(widened=self._shows_more_of_signers)
        encode_relayer = relayer_encoder(vault, self._report_damage)
        remote = database.remote
        self._signers = Listing("signers", signer_rows.LIST_COLUMNS, encode_signer, database, whole=remote)
        self._relayers = Listing("relayers", relayer_rows.COLUMNS, encode_relayer, database, whole=remote)
        self._directory = RelayerDirectory(database, vault)
        self._follower = self._build_follower(
            [
                self._tokens,
                self._signers,
                self._relayers,
                self._start_delivery(),
                self._start_monitor(),
                self._start_signer_checks(),
            ]
        )
        self._signer_pages = Pages(self._signers, self._follower.fill, self._settings.max_per_page)
        self._relayer_pages = Pages(self._relayers, self._follower.fill, self._settings.max_per_page)

    def _start_delivery(self) -> DeliveryService:
        count_attempt = partial(self._metrics.count, EVENT_TRIES)
        service = DeliveryService(self._settings, self._store, self._writer, self._log, count_attempt)
        self._closers.push_async_callback(service.close)
        return service

    def _start_monitor(self) -> MonitorService:
        pool = self._estimator.pool
        parts = self._settings, self._store, self._writer, self._audit, self._log, pool
        service = MonitorService(*parts, partial(self._metrics.count, MONITOR_CHECKS), self._report_round)
        self._closers.push_async_callback(service.close)
        return service

    def _start_signer_checks(self) -> SignerCheckService:
        count, access = partial(self._metrics.count, SIGNER_CHECKS), self._key_access
        service = SignerCheckService(self._settings, self._store, self._writer, self._audit, self._log, access, count)
        self._closers.push_async_callback(service.close)
        return service

    def _build_follower(self, followers: list[FollowsTable]) -> "Follower | RemoteFollower":
        database = self._store.database
        if not database.remote:
            return Follower(database, followers, self._forget)
        remote: type[RemoteFollower] = import_module(_REMOTE_FOLLOWER).RemoteFollower
        return remote(
            database,  # type: ignore[arg-type]
            followers,
            self._forget,
            stale_seconds=self._settings.stale_seconds,
            report_problem=self._report_problem,
            report_fork=self._report_fork,
        )

    async def _close_follower(self) -> None:
        if not isinstance(self._follower, Follower):
            await self._follower.close()

    def _build_pipeline(self) -> Pipeline:
        settings = self._settings
        below: dict[bytes, Find] = {b"admin": self._find_admin}
        others = self._open_routes()
        if settings.console == "on":
            below[b"console"] = self._find_console
            others["/"] = {"GET": Route("console", None, answer=_to_console)}
        router = Router(others, self._contract_routes(), below)
        limiter = _limiter(settings)
        return Pipeline(
            exact_routes=router.exact,
            find_route=router.find,
            catch_up=self._follower.catch_up,
            catch_up_with_tokens=self._follower.catch_up_with_tokens,
            reach=self._follower.reach,
            find_credential=self._tokens.find,
            limiter=limiter,
            shared_limiter=self._start_shared_limiter(limiter),
            limit_policy=_limit_policy(settings),
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=self._log,
        )

    def _contract_routes(self) -> ContractRoutes:
        estimator, catch_up = self._estimator, self._follower.catch_up
        return contract_routes(
            signers=self._signer_pages,
            relayers=self._relayer_pages,
            rpc=RelayerRpc(self._directory, catch_up, estimator, self._report_unforeseen, self._observe_estimate),
            writer=self._caller_writer,
            audit=self._audit,
            widened_signer_config=self._shows_more_of_signers,
        )

    @property
    def _shows_more_of_signers(self) -> bool:
        return self._settings.signer_config == "non_secret"

    def _open_routes(self) -> dict[str, dict[str, Route]]:
        """Routes that need no credential, unless another process serves them on their own port."""
        if self._settings.operations_address is not None:
            return {}
        return open_routes(self._metrics, self._readiness, self._store, serves_operations=True)

    def _start_shared_limiter(self, local: RateLimiter | None) -> SharedLimiter | None:
        settings = self._settings
        if local is None or settings.limits_url is None:
            return None
        server = LimitServer(settings.limits_url, settings.limits_password_file, settings.limits_timeout_seconds)
        rate, burst = settings.rate_limit_per_second, settings.rate_limit_burst
        limiter = SharedLimiter(server, local, rate, burst, log=self._log, metrics=self._metrics)
        self._closers.push_async_callback(limiter.close)
        return limiter

    def _find_admin(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        return self._admin_api().find(method, path, raw_path)

    def _admin_api(self) -> "AdminApi":
        """Built by the first request, so that the start does not wait for it."""
        if self._admin is None:
            api: type[AdminApi] = import_module(_ADMIN_API).AdminApi
            estimator, access = self._estimator, self._key_access
            self._admin = api(self._settings, self._caller_writer, self._audit, admin_page, estimator, access)
            self._closers.callback(self._admin.close)
            if self._suspended:
                self._admin.suspend()
        return self._admin

    def _find_console(self, method: str, _path: str, raw_path: bytes) -> tuple[Route, str]:
        """Every path below `/console` is one route: the console finds its pages by itself."""
        return self._console_route, f"{method} {raw_path.decode('latin-1')}"

    async def _answer_console(self, call: Call) -> Reply:
        """The first request loads the console, in a thread: templates take longer than the lists may wait."""
        module = await asyncio.to_thread(import_module, _CONSOLE)
        if self._console is None:
            api = self._admin_api()
            is_stopping = self._settings.stop_mark(os.getppid()).exists
            sources = module.Sources(
                settings=self._settings,
                writer=self._writer,
                find_admin=api.find,
                read=api.read,
                proofs=self._store.vault.proofs,
                revision=self._revision,
                is_stopping=is_stopping,
                estimator=self._estimator,
                examination=api.examination,
            )
            self._console = module.Console(sources)
            self._closers.callback(self._console.close)
        return await self._console.answer(call)

    def _revision(self) -> int:
        """Of the database, as far as this worker knows. A remote follower is notified and needs no look."""
        if isinstance(self._follower, Follower):
            with suppress(StoreError):  # the next look tries again
                self._follower.catch_up()
        return self._follower.revision

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._closers.callback(task.cancel)

    # -- a database that is away ------------------------------------------------------------------

    def _report_problem(self, problem: str) -> None:
        self._metrics.set(STORE_AWAY, bool(problem))
        if problem:
            self._log.event("error", "the database is unreachable: lists are answered from memory", problem=problem)
            self._writer.fail_pending(problem)
        else:
            self._log.event("info", "the database is reachable again")
        self._suspended = bool(problem)
        for each in (self._store.database, self._admin):
            if each is not None:
                each.suspend() if problem else each.resume()

    def _report_fork(self, problem: str) -> None:
        self._metrics.count(HISTORY_CHANGES)
        self._log.event("error", "the database has another history: everything is loaded again", problem=problem)

    def _problem(self) -> str:
        return "" if isinstance(self._follower, Follower) else self._follower.problem

    async def _readiness(self) -> Readiness:
        if isinstance(self._follower, Follower):
            return await store_readiness(self._store)
        if self._follower.read_only:
            return Readiness(False, "the database is a read-only standby")
        if not self._follower.problem:
            return Readiness(True)
        return readiness_from_memory(self._follower.age, self._settings.stale_seconds)

    # -- reports ----------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._signer_pages.forget()
        self._relayer_pages.forget()
        self._directory.forget()

    def _report_damage(self, damage: Damaged) -> None:
        self._metrics.count(DAMAGED_VALUES)
        self._log.event("error", "a sealed value cannot be opened", record=damage.record, table=damage.table)

    def _report_forged_token(self, token: Token) -> None:
        self._metrics.count(FORGED_TOKENS)
        self._log.event("error", "a token that Relaydeck did not write is refused: see SECURITY.md", token=token.name)

    def _report_unforeseen(self, error: BaseException) -> None:
        self._metrics.count(UNEXPECTED_FAILURES)
        self._log.event("error", "a fee estimate failed unexpectedly", error=type(error).__name__, at=innermost(error))

    def _observe_estimate(self, outcome: str, nanoseconds: int) -> None:
        self._metrics.count(ESTIMATES, outcome)
        self._metrics.observe(ESTIMATE_SECONDS, nanoseconds, outcome)

    def _report_round(self, report: "RoundReport") -> None:
        self._metrics.set(MONITOR_ROUND, report.completed_at)
        self._metrics.set(MONITOR_LAG, report.lag)
        self._metrics.set(MONITOR_SHARDS, report.shards)

    def _report_process(self) -> None:
        figures = own_process()
        age = 0.0 if isinstance(self._follower, Follower) else self._follower.age
        self._metrics.set(READ_MODEL_AGE, int(age))
        self._metrics.set(WORKERS, 1)
        self._metrics.set(RESIDENT_BYTES, figures.resident_bytes)
        self._metrics.set(OPEN_FILES, figures.open_files)

    # -- in the background ------------------------------------------------------------------------

    async def _check_each_second(self) -> None:
        """Find writes that were committed but not signalled, and stop when the parent process is gone."""
        parent, limited = os.getppid(), False
        while True:
            self._metrics.beat()
            limited = limited or limit_unread(self._settings.write_timeout_seconds) > 0  # once the server listens
            self._report_process()
            await asyncio.sleep(_CHECK_SECONDS)
            if os.getppid() != parent:
                self._log.event("error", "the process that started this worker is gone: stopping")
                os.kill(os.getpid(), signal.SIGTERM)
                return
            self._store.database.break_late_commit()
            if self._store.database.erasing:
                await asyncio.to_thread(self._store.database.erase_removed)
            if isinstance(self._follower, Follower):
                self._check_for_writes(self._follower)

    async def _purge_each_hour(self) -> None:
        """Responses that were kept for a day contain tokens: they go even if no request comes."""
        database = self._store.database
        while True:
            await asyncio.sleep(_PURGE_SECONDS)
            with suppress(StoreError, ServerFailure):  # the next round tries again
                if await database.run_in_reader(lambda: idempotency.can_purge(database.read, time.time())):
                    await self._writer.write(lambda transaction: idempotency.purge(transaction, time.time()))

    def _check_for_writes(self, follower: Follower) -> None:
        try:
            follower.refresh()
        except StoreError as error:
            self._log.event("error", "the store cannot be read", problem=str(error))

    async def _warm(self) -> None:
        """Encode every item in the background, a few at a time, so that no request pays for the first reading."""
        if not self._store.database.remote:  # a remote follower has encoded them already
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
                return  # the check of each second logs it; a request fills the page it needs
            start += _WARM_ITEMS
            await asyncio.sleep(0.001)


class Application:
    """The ASGI application. It makes its worker when the server's event loop has started."""

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
            # Logged in our own words. An unexpected error is logged by its type: its text may quote a setting.
            problem, remedy = operator_words(error)
            self._log.event("error", "cannot start", problem=problem, remedy=remedy)
            self._log.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            await send({"type": "lifespan.startup.failed", "message": "the worker cannot start"})
            return
        await send({"type": "lifespan.startup.complete"})
        # The server now stops its event loop and runs it again, and a signal in between would be lost. SIGTERM stays
        # blocked for more turns than the first run had left, so that the second run receives it.
        for _ in range(_UNMASK_TURNS):
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


async def _to_console(_call: Call) -> Reply:
    return Reply(303, b"", headers=((b"location", b"/console"),))


def _from(start: int, total: int) -> tuple[int, int]:
    return start, min(start + _WARM_ITEMS, total)


def _limiter(settings: Settings) -> RateLimiter | None:
    if settings.rate_limit_per_second == 0:
        return None
    path = settings.run_folder / "limits"
    return RateLimiter(path, settings.rate_limit_per_second, settings.rate_limit_burst)


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
    """What is loaded now stays: exclude it from collections, and collect less often than every 700 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
