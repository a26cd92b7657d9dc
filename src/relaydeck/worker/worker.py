"""Wires the settings to the services of a worker, and the services to the pipeline that requests pass."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from relaydeck.contract.operations import contract_routes
from relaydeck.contract.routes import ContractRoutes, Router
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.credentials.token_book import TokenBook
from relaydeck.fees.estimator import Estimator
from relaydeck.http.access_log import AccessLog, open_access_log
from relaydeck.http.body import BodyReader
from relaydeck.http.connection_guard import ConnectionGuard, start_guard
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import EVENT_TRIES, MONITOR_CHECKS, SIGNER_CHECKS
from relaydeck.http.pipeline import Find, Pipeline, Route
from relaydeck.log import Log
from relaydeck.notifications.database_changes import report_database_change
from relaydeck.notifications.delivery_service import DeliveryService
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.monitor_service import MonitorService
from relaydeck.settings import Settings
from relaydeck.signers.check_service import SignerCheckService
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog
from relaydeck.store.follower import FollowsTable
from relaydeck.store.open_store import Store, open_served_store
from relaydeck.store.writer import Writer
from relaydeck.worker import limits
from relaydeck.worker.fee_settings import fee_options, warm_estimator
from relaydeck.worker.following import Following
from relaydeck.worker.late_admin import LateAdmin
from relaydeck.worker.late_console import LateConsole, redirect_to_console
from relaydeck.worker.list_pages import ListPages
from relaydeck.worker.node_reports import report_nodes
from relaydeck.worker.open_routes import open_routes
from relaydeck.worker.reports import Reports
from relaydeck.worker.traces import make_estimator, make_handle, open_tracing
from relaydeck.worker.upkeep import Upkeep, calm_garbage_collection

if TYPE_CHECKING:
    from relaydeck.tracing import Tracing


class Worker:
    """Everything one worker process holds, from the start of its event loop to its end.

    Each service registers its closer when it is started, and `stop` calls the closers in reverse order: a service is
    closed before those it was built on.
    """

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
        self._key_access = self._open_key_access()
        self._build_read_model()
        self._admin = self._prepare_admin()
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
        tracing = open_tracing(self._settings.otel_endpoint)
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

    def _open_key_access(self) -> KeyAccess:
        access = KeyAccess(self._settings)
        self._closers.push_async_callback(access.close)
        return access

    def _build_read_model(self) -> None:
        """What this process keeps in memory of the database, and the follower that keeps it up to date."""
        self._tokens = TokenBook(self._store.vault.proofs, self._reports.forged_token)
        self._caller_writer = CallerWriter(self._writer, self._tokens)
        self._lists = ListPages(self._settings, self._store, self._reports)
        self._directory = RelayerDirectory(*self._store)
        services = self._start_delivery(), self._start_monitor(), self._start_signer_checks()
        tables: list[FollowsTable] = [self._tokens, self._lists.signers, self._lists.relayers, *services]
        reports = self._report_problem, self._report_fork
        self._following = Following(self._settings, self._store, tables, self._forget, *reports, self._tokens.distrust)
        self._lists.render_with(self._following.follower.fill)

    def _start_delivery(self) -> DeliveryService:
        count_attempt = partial(self._metrics.count, EVENT_TRIES)
        service = DeliveryService(self._settings, self._store, self._writer, self._log, count_attempt)
        self._closers.push_async_callback(service.close)
        return service

    def _start_monitor(self) -> MonitorService:
        pool = self._estimator.pool
        parts = self._settings, self._store, self._writer, self._audit, self._log, pool
        service = MonitorService(*parts, partial(self._metrics.count, MONITOR_CHECKS), self._reports.monitor_round)
        self._closers.push_async_callback(service.close)
        return service

    def _start_signer_checks(self) -> SignerCheckService:
        count, access = partial(self._metrics.count, SIGNER_CHECKS), self._key_access
        service = SignerCheckService(self._settings, self._store, self._writer, self._audit, self._log, access, count)
        self._closers.push_async_callback(service.close)
        return service

    def _prepare_admin(self) -> LateAdmin:
        estimator, access = self._estimator, self._key_access
        return LateAdmin(
            self._settings, self._caller_writer, self._audit, estimator, access, on_close=self._closers.callback
        )

    def _prepare_console(self) -> LateConsole:
        parts = self._settings, self._writer, self._admin, self._estimator
        return LateConsole(*parts, revision=self._following.revision, on_close=self._closers.callback)

    def _build_pipeline(self) -> Pipeline:
        settings, follower = self._settings, self._following.follower
        router, limiter = self._build_router(), limits.local_limiter(settings)
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
        )

    def _start_guard(self, pipeline: Pipeline) -> ConnectionGuard:
        guard = start_guard(pipeline.busy, self._log, self._metrics, self._settings.write_timeout_seconds)
        self._closers.callback(guard.close)
        return guard

    def _build_router(self) -> Router:
        below: dict[bytes, Find] = {b"admin": self._admin.find}
        others = self._open_routes()
        if self._settings.console == "on":
            below[b"console"] = self._prepare_console().find
            others["/"] = {"GET": Route("console", None, answer=redirect_to_console)}
        return Router(others, self._contract_routes(), below)

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

    def _open_routes(self) -> dict[str, dict[str, Route]]:
        """Routes that need no credential, unless another process serves them on their own port."""
        if self._settings.operations_address is not None:
            return {}
        readiness = self._following.readiness
        return open_routes(self._metrics, readiness, self._store, self._settings, serves_operations=True)

    def _start_upkeep(self) -> None:
        upkeep = Upkeep(self._store.database, self._following, self._reports, self._log, self._admin.erase_removed)
        self._start_task(upkeep.check_each_second(self._guard))
        self._start_task(self._warm(upkeep))
        self._start_task(report_nodes(self._estimator, self._settings.run_folder, self._log))
        self._start_task(upkeep.purge_each_hour(self._writer))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._closers.callback(task.cancel)

    async def _warm(self, upkeep: Upkeep) -> None:
        await upkeep.warm(self._lists.signers, self._lists.relayers)
        await self._admin.warm()
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
        for each in (self._store.database, self._admin):
            each.suspend() if problem else each.resume()

    def _report_fork(self, problem: str, known_event: int) -> None:
        self._reports.database_fork(problem)
        now = int(time.time())
        self._start_task(report_database_change(self._writer, self._log, problem, known_event, now))

    async def _close_following(self) -> None:
        await self._following.close()
