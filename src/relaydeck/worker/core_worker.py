"""Wires the settings to what the five operations and health need, and that to the pipeline that requests pass."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from relaydeck.contract.operations import Pages, contract_routes, relayer_encoder, signer_encoder
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.credentials.token_cache import CallerWriter, FindOther, TokenCache
from relaydeck.errors import ServerFailure, StoreError
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import fee_options
from relaydeck.http.access_log import open_access_log
from relaydeck.http.body import BodyReader
from relaydeck.http.connection_guard import ConnectionGuard
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.pipeline import Pipeline, Router, Routes
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.request import Handle
from relaydeck.http.shared_limits import LimitClient, SharedLimiter
from relaydeck.log import Log
from relaydeck.notifications.events import report_database_change
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.outgoing import http_client
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.settings.model import Settings
from relaydeck.settings.needs import require_tracing
from relaydeck.signers import signer_changes
from relaydeck.store.audit import AuditLog
from relaydeck.store.follower import Follower, FollowsTable, RemoteFollower
from relaydeck.store.listing import Listing
from relaydeck.store.open_store import Store, open_served_store
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.protection import ClosedProtections
from relaydeck.store.scoped_lists import KeptScopes, ScopedTable
from relaydeck.store.writer import Writer
from relaydeck.worker.health_routes import HealthRoutes, Readiness, follower_readiness, store_readiness
from relaydeck.worker.housekeeping import (
    WriteWatch,
    calm_garbage_collection,
    check_each_second,
    check_keys_each_minute,
    store_uses_each_minute,
    warm_listings,
)
from relaydeck.worker.reports import Reports, report_nodes

if TYPE_CHECKING:
    from relaydeck.http.tracing import Tracing


class CoreWorker:
    """What one worker process holds for the five operations and health, from the start of its event loop to its end.

    `relaydeck serve --core` runs this class, and `Worker` is this class with everything around it: the admin API, the
    console, events, the monitor. It overrides the methods of the last section.

    Each service registers its closer when it is started, and `stop` calls the closers in reverse order: a service is
    closed before those it was built on.
    """

    _problem_paths: tuple[bytes, ...] = ()  # below them, errors have the form of the admin API

    def __init__(self, settings: Settings, log: Log, metrics: Metrics) -> None:
        self._settings, self._log, self._metrics = settings, log, metrics
        self._closers = AsyncExitStack()
        self._reports = Reports(log, metrics)
        self._tracing = self._start_tracing()
        self._store = self._open_store()
        metrics.start()  # not before: the store may wait for another process that migrates it, for up to an hour
        self._access_log = open_access_log(settings, log, metrics)
        self._closers.callback(self._access_log.flush)
        self._writer = self._start_writer()
        self._audit = AuditLog(self._store.vault)
        self._estimator = self._make_estimator()
        self._closers.push_async_callback(self._estimator.close)
        self._build_read_model()
        pipeline = self._build_pipeline()
        guard = ConnectionGuard(pipeline.busy, log, metrics, settings.write_timeout_seconds)
        self._closers.callback(guard.close)
        self.pipeline: Handle = pipeline if self._tracing is None else self._tracing.traced(pipeline)
        self._follower.load()
        self._start_housekeeping()

    async def stop(self) -> None:
        await self._closers.aclose()

    # -- steps of the start -----------------------------------------------------------------------

    def _start_tracing(self) -> "Tracing | None":
        if self._settings.otel_endpoint is None:
            return None
        tracing = open_tracing(self._settings.otel_endpoint, self._reports.lost_traces)
        self._closers.push_async_callback(asyncio.to_thread, tracing.close)
        return tracing

    def _open_store(self) -> Store:
        store = open_served_store(self._settings)
        store.database.on_lock_wait = self._reports.lock_wait
        self._closers.callback(store.close)
        return store

    def _start_writer(self) -> Writer:
        database = self._store.database
        # The follower closes after the writer: until the last write has ended it reports a server that hangs.
        self._closers.push_async_callback(lambda: self._follower.close())
        self._writes = WriteWatch(database, self._metrics, self._log)
        writer = Writer(database, lambda: self._follower.problem, self._writes.note)
        self._closers.push_async_callback(writer.stop)
        return writer

    def _make_estimator(self) -> Estimator:
        options = fee_options(self._settings)
        if self._tracing is None:
            return Estimator(options)
        from relaydeck.fees.traced_estimator import TracedEstimator

        return TracedEstimator(options, self._tracing.tracer)

    def _build_read_model(self) -> None:
        """What this process keeps in memory of the database, and the follower that keeps it up to date."""
        settings, (database, vault) = self._settings, self._store
        self._closed = ClosedProtections()
        find_other = self._find_other_credential()
        self._tokens = TokenCache(vault.proofs, self._reports.forged_token, find_other, self._closed)
        self._caller_writer = CallerWriter(self._writer, self._tokens)
        self._widened = settings.signer_config == "non_secret"
        encode_signer = signer_encoder(widened=self._widened)
        encode_relayer = relayer_encoder(vault, self._reports.damage)
        preload = database.remote
        self._signers = Listing("signers", signer_changes.LIST_COLUMNS, encode_signer, database, preload=preload)
        self._relayers = Listing("relayers", relayer_rows.COLUMNS, encode_relayer, database, preload=preload)
        self._directory = RelayerDirectory(database, vault)
        scopes = KeptScopes(database.open_reader, lambda revision: self._follower.reach(revision))
        self._closers.callback(scopes.close)
        scoped = [ScopedTable(each.table, scopes) for each in (self._signers, self._relayers)]
        self._tables: list[FollowsTable] = [self._closed, self._tokens, self._signers, self._relayers, *scoped]
        self._start_services()
        self._follower = self._make_follower()
        self._signer_pages = Pages(self._signers, self._follower.fill, settings.max_per_page, scopes)
        self._relayer_pages = Pages(self._relayers, self._follower.fill, settings.max_per_page, scopes)

    def _find_other_credential(self) -> FindOther | None:
        """Finds JSON Web Tokens of workloads, where issuers are set: only then is their library loaded."""
        workloads = [each for each in self._settings.issuers if not each.is_for_people]
        if not workloads:
            return None
        from relaydeck.credentials.json_web_tokens import TrustedIssuer, Workloads

        issuers = [TrustedIssuer(each, self._reports.issuer_keys) for each in workloads]
        found = Workloads(issuers, closed=self._closed)
        self._closers.push_async_callback(found.close)
        return found.find

    def _make_follower(self) -> Follower | RemoteFollower:
        database = self._store.database
        if not isinstance(database, PostgresDatabase):
            return Follower(database, self._tables, self._forget)
        return RemoteFollower(
            database,
            self._tables,
            self._forget,
            stale_seconds=self._settings.stale_seconds,
            report_problem=self._report_problem,
            report_fork=self._report_fork,
            distrust_tokens=self._tokens.distrust,
        )

    def _build_pipeline(self) -> Pipeline:
        settings, follower = self._settings, self._follower
        rate, burst = settings.rate_limit_per_second, settings.rate_limit_burst
        router, limiter = self._router(), RateLimiter(settings.run_folder / "limits", rate or 1, burst)
        # Without a common limit, the own limits of tokens are counted by each machine.
        shared_limiter = _shared_limiter(settings, limiter, self._log, self._metrics) if rate else None
        if shared_limiter is not None:
            self._closers.push_async_callback(shared_limiter.close)
        return Pipeline(
            exact_routes=router.exact,
            find_route=router.find,
            catch_up=follower.catch_up,
            catch_up_with_tokens=follower.catch_up_with_tokens,
            reach=follower.reach,
            find_credential=self._tokens.find,
            limiter=limiter,
            allowance=limiter.common if rate else None,
            shared_limiter=shared_limiter,
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=self._log,
            problem_paths=self._problem_paths,
            drain_mark=self._metrics.drain_mark,
        )

    def _contract_routes(self) -> Routes:
        catch_up, reports = self._follower.catch_up, self._reports
        return contract_routes(
            signers=self._signer_pages,
            relayers=self._relayer_pages,
            rpc=RelayerRpc(self._directory, catch_up, self._estimator, reports.unforeseen_failure, reports.estimate),
            writer=self._caller_writer,
            audit=self._audit,
            webhooks=WebhookRule(self._settings.webhook_allow),
            widened_signer_config=self._widened,
        )

    def _open_routes(self) -> Routes:
        """Routes that need no credential, unless another process serves them on their own port."""
        return {} if self._settings.operations_address is not None else self._make_open_routes()

    def _start_housekeeping(self) -> None:
        parts = self._store.database, self._follower, self._reports, self._log
        self._start_task(check_each_second(*parts))
        self._start_task(self._writes.run(self._writer))
        self._start_task(check_keys_each_minute(self._store, self._metrics, self._log))
        self._start_task(self._warm())
        self._start_task(store_uses_each_minute(self._writer, self._access_log))
        self._start_task(report_nodes(self._estimator, self._settings.run_folder, self._log))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._closers.callback(task.cancel)

    async def _warm(self) -> None:
        await warm_listings(self._follower, self._reports, self._signers, self._relayers)
        await _warm_estimator(self._estimator, self._directory)
        calm_garbage_collection()

    # -- the memory and its database --------------------------------------------------------------

    def _forget(self) -> None:
        for each in (self._signer_pages, self._relayer_pages, self._directory):
            each.forget()

    async def _readiness(self) -> Readiness:
        if isinstance(self._follower, RemoteFollower):
            return follower_readiness(self._follower, self._settings.stale_seconds)
        return await store_readiness(self._store.database)

    def _report_problem(self, problem: str) -> None:
        """While the database is unreachable, nothing waits for it."""
        self._reports.database_problem(problem)
        if problem:
            self._writer.fail_pending(problem)
        self._store.database.suspend() if problem else self._store.database.resume()

    def _report_fork(self, problem: str, known_event: int) -> None:
        self._reports.database_fork(problem)
        now = int(time.time())
        self._start_task(report_database_change(self._writer, self._log, problem, known_event, now))

    # -- what `Worker` overrides ------------------------------------------------------------------

    def _start_services(self) -> None:
        """Start services that work beside requests. They follow tables, as the read model does."""

    def _router(self) -> Router:
        return Router(self._open_routes() | self._contract_routes())

    def _make_open_routes(self) -> Routes:
        return HealthRoutes(self._metrics, self._readiness).routes()


def _shared_limiter(settings: Settings, local: RateLimiter, log: Log, metrics: Metrics) -> SharedLimiter | None:
    """None: there is no server."""
    if settings.limits_url is None:
        return None
    client = LimitClient(settings.limits_url, settings.limits_password_file, settings.limits_timeout_seconds)
    rate, burst = local.common.rate, local.common.burst
    return SharedLimiter(client, local, rate, burst, log=log, metrics=metrics)


def open_tracing(endpoint: str, report: Callable[[str], None]) -> "Tracing":
    """`report` is called in another thread. Raises OperatorError when the extra is not installed."""
    require_tracing()
    from relaydeck.http.tracing import Tracing

    tracing = Tracing(endpoint, report)
    http_client.trace_with = tracing.outgoing
    return tracing


async def _warm_estimator(estimator: Estimator, directory: RelayerDirectory) -> None:
    """Connect to the nodes before the first estimate, where there are relayers."""
    with suppress(StoreError, ServerFailure):  # the first estimate reads what it needs
        if networks := await directory.networks_in_use():
            await estimator.warm(networks)
