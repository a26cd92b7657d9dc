"""Wires the settings to what the five operations and health need, and that to the pipeline that requests pass."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from relaydeck.contract.operations import contract_routes
from relaydeck.contract.routes import ContractRoutes, Router, Routes
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.credentials.token_book import TokenBook
from relaydeck.fees.estimator import Estimator
from relaydeck.http.access_log import AccessLog, open_access_log
from relaydeck.http.body import BodyReader
from relaydeck.http.connection_guard import ConnectionGuard, start_guard
from relaydeck.http.health_routes import HealthRoutes
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.pipeline import Pipeline
from relaydeck.log import Log
from relaydeck.notifications.database_changes import report_database_change
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.settings import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.follower import FollowsTable
from relaydeck.store.open_store import Store, open_served_store
from relaydeck.store.writer import Writer
from relaydeck.worker import limits
from relaydeck.worker.fee_settings import fee_options, warm_estimator
from relaydeck.worker.following import Following
from relaydeck.worker.list_pages import ListPages
from relaydeck.worker.node_reports import report_nodes
from relaydeck.worker.reports import Reports
from relaydeck.worker.traces import make_estimator, make_handle, open_tracing
from relaydeck.worker.upkeep import Upkeep, calm_garbage_collection

if TYPE_CHECKING:
    from relaydeck.tracing import Tracing


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
        self._access_log = self._open_access_log()
        self._writer = self._start_writer()
        self._audit = AuditLog(self._store.vault)
        self._estimator = self._start_estimator()
        self._build_read_model()
        pipeline = self._build_pipeline()
        self._guard = self._start_guard(pipeline)
        self.pipeline = make_handle(pipeline, self._tracing)
        self._following.follower.load()
        self._start_upkeep()

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
        self._closers.callback(store.close)
        return store

    def _open_access_log(self) -> AccessLog:
        access_log = open_access_log(self._settings, self._log, self._metrics)
        self._closers.callback(access_log.flush)
        return access_log

    def _start_writer(self) -> Writer:
        database = self._store.database
        # The follower closes after the writer: until the last write has ended it reports a server that hangs.
        self._closers.push_async_callback(self._close_following)
        writer = Writer(database, self._problem) if database.remote else Writer(database)
        self._closers.push_async_callback(writer.stop)
        return writer

    def _start_estimator(self) -> Estimator:
        estimator = make_estimator(fee_options(self._settings), self._tracing)
        self._closers.push_async_callback(estimator.close)
        return estimator

    def _build_read_model(self) -> None:
        """What this process keeps in memory of the database, and the follower that keeps it up to date."""
        self._tokens = TokenBook(self._store.vault.proofs, self._reports.forged_token)
        self._caller_writer = CallerWriter(self._writer, self._tokens)
        self._lists = ListPages(self._settings, self._store, self._reports)
        self._directory = RelayerDirectory(*self._store)
        self._tables: list[FollowsTable] = [self._tokens, self._lists.signers, self._lists.relayers]
        self._start_services()
        followed = self._settings, self._store, self._tables
        reports = self._report_problem, self._report_fork
        self._following = Following(*followed, self._forget, *reports, self._tokens.distrust)
        self._lists.render_with(self._following.follower.fill)

    def _build_pipeline(self) -> Pipeline:
        settings, follower = self._settings, self._following.follower
        router, limiter = self._router(), limits.local_limiter(settings)
        shared_limiter = limits.shared_limiter(settings, limiter, self._log, self._metrics)
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
            shared_limiter=shared_limiter,
            limit_policy=limits.limit_policy(settings),
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=self._log,
            problem_paths=self._problem_paths,
        )

    def _start_guard(self, pipeline: Pipeline) -> ConnectionGuard:
        guard = start_guard(pipeline.busy, self._log, self._metrics, self._settings.write_timeout_seconds)
        self._closers.callback(guard.close)
        return guard

    def _contract_routes(self) -> ContractRoutes:
        catch_up, reports = self._following.follower.catch_up, self._reports
        return contract_routes(
            signers=self._lists.signer_pages,
            relayers=self._lists.relayer_pages,
            rpc=RelayerRpc(self._directory, catch_up, self._estimator, reports.unforeseen_failure, reports.estimate),
            writer=self._caller_writer,
            audit=self._audit,
            webhooks=WebhookRule(self._settings.webhook_allow),
            widened_signer_config=self._lists.shows_more_of_signers,
        )

    def _open_routes(self) -> Routes:
        """Routes that need no credential, unless another process serves them on their own port."""
        return {} if self._settings.operations_address is not None else self._make_open_routes()

    def _start_upkeep(self) -> None:
        upkeep = Upkeep(self._store.database, self._following, self._reports, self._log, self._erase_removed)
        self._start_task(upkeep.check_each_second(self._guard))
        self._start_task(self._warm(upkeep))
        self._start_task(report_nodes(self._estimator, self._settings.run_folder, self._log))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._closers.callback(task.cancel)

    async def _warm(self, upkeep: Upkeep) -> None:
        await upkeep.warm(self._lists.signers, self._lists.relayers)
        await self._load_more()
        await warm_estimator(self._estimator, self._directory)
        calm_garbage_collection()

    # -- the memory and its database --------------------------------------------------------------

    def _forget(self) -> None:
        self._lists.forget()
        self._directory.forget()

    def _problem(self) -> str:
        return self._following.problem

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

    async def _close_following(self) -> None:
        await self._following.close()

    # -- what `Worker` overrides ------------------------------------------------------------------

    def _start_services(self) -> None:
        """Start services that work beside requests. They follow tables, as the read model does."""

    def _router(self) -> Router:
        return Router(self._open_routes(), self._contract_routes())

    def _make_open_routes(self) -> Routes:
        return HealthRoutes(self._metrics, self._following.readiness).routes()

    async def _load_more(self) -> None:
        """Load code in the background that a later request needs."""

    async def _erase_removed(self) -> None:
        """Erase secrets that were removed through another connection than that of the store."""
