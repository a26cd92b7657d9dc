"""Wires what is around the five operations to a worker: the admin API, the console, events, the monitor, the checks."""

import asyncio
import os
from contextlib import suppress
from functools import partial

from relaydeck.admin.api import AdminApi
from relaydeck.admin.idempotency import purge_each_hour
from relaydeck.console.console import Console
from relaydeck.console.page_request import Services
from relaydeck.console.rendering import compile_templates
from relaydeck.credential import Credential, Unverified
from relaydeck.credentials.token_cache import FindOther
from relaydeck.errors import StoreError, Unauthorized
from relaydeck.http.metrics import EVENT_TRIES, MONITOR_CHECKS, SIGNER_CHECKS
from relaydeck.http.pipeline import Call, Find, Reply, Route, Router, Routes
from relaydeck.notifications.dispatcher import Dispatcher
from relaydeck.notifications.events import remove_expired_each_hour
from relaydeck.relayers.monitor import Monitor, MonitorGauges, monitor_options
from relaydeck.signers.check_results import SignerCheckRounds, check_options
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.store.follower import Follower
from relaydeck.worker.core_worker import CoreWorker
from relaydeck.worker.open_routes import open_routes


class Worker(CoreWorker):
    """What one worker process of the whole service holds."""

    _problem_paths = (b"/admin/",)
    _has_templates = False

    def _start_services(self) -> None:
        keys = SignerKeys(self._settings)
        self._closers.push_async_callback(keys.close)
        self._admin = AdminApi(self._settings, self._caller_writer, self._audit, self._estimator, keys)
        self._closers.callback(self._admin.services.close)
        for service in (self._make_dispatcher(), self._make_monitor(), self._make_signer_checks(keys)):
            self._closers.push_async_callback(service.close)
            self._tables.append(service)

    def _make_dispatcher(self) -> Dispatcher:
        parts = self._store, self._writer, self._log, self._settings
        count_try = partial(self._metrics.count, EVENT_TRIES)
        return Dispatcher(*parts, clock_sql=self._store.database.clock_sql, count_try=count_try)

    def _make_monitor(self) -> Monitor:
        parts = self._store, self._writer, self._audit, self._log, self._estimator.pool
        gauges = MonitorGauges(partial(self._metrics.count, MONITOR_CHECKS), self._reports.monitor_round)
        return Monitor(*parts, monitor_options(self._settings), gauges)

    def _make_signer_checks(self, keys: SignerKeys) -> SignerCheckRounds:
        parts = self._store, self._writer, self._audit, self._log, keys
        count_check = partial(self._metrics.count, SIGNER_CHECKS)
        return SignerCheckRounds(*parts, count_check, check_options(self._settings, keys))

    def _make_console(self) -> Console:
        return Console(
            Services(
                settings=self._settings,
                writer=self._writer,
                run=self._admin.run,
                read=self._admin.services.read,
                audit=self._admin.console_audit,
                revision=self._revision,
                is_stopping=self._settings.stop_mark(os.getppid()).exists,
                report_issuer=self._reports.issuer_keys,
                report_sign_on=self._reports.sign_on,
                estimator=self._estimator,
                keys=self._admin.services.keys,
                urls=self._admin.services.urls,
                examination=self._admin.services.examination,
            )
        )

    def _revision(self) -> int:
        """Of the database, as far as this worker knows. A remote follower is notified and needs no look."""
        if isinstance(self._follower, Follower):
            with suppress(StoreError):  # the next look tries again
                self._follower.catch_up()
        return self._follower.revision

    def _router(self) -> Router:
        routes = self._open_routes() | self._contract_routes()
        below: dict[bytes, Find] = {b"admin": self._admin.find}
        if self._settings.console == "on":
            self._console = self._make_console()
            self._closers.push_async_callback(self._console.close)
            routes["/"] = {"GET": Route("console", None, answer=_redirect)}
            below[b"console"] = self._find_console
        return Router(routes, below)

    def _find_other_credential(self) -> FindOther | None:
        """Also sessions of people who signed in with a command, where the settings name a provider."""
        find = super()._find_other_credential()
        if self._settings.console != "on" or not any(each.is_for_people for each in self._settings.issuers):
            return find

        def find_any(token: bytes, now: float) -> Credential:
            if token.startswith(b"p-"):
                raise Unverified(partial(self._console.bearer, token))
            if find is None:
                raise Unauthorized("the credential is unknown or revoked")
            return find(token, now)

        return find_any

    def _find_console(self, method: str, _path: str, raw_path: bytes) -> tuple[Route, str]:
        """Every path below `/console` is one route: the console finds its pages by itself."""
        route = Route("console", None, answer=self._answer_console, reads_late=True)
        return route, f"{method} {raw_path.decode('latin-1')}"

    async def _answer_console(self, call: Call) -> Reply:
        """The first request compiles the templates, in a thread: that takes longer than the lists may wait."""
        if not self._has_templates:
            await asyncio.to_thread(compile_templates)
            self._has_templates = True
        return await self._console.answer(call)

    def _make_open_routes(self) -> Routes:
        return open_routes(self._metrics, self._readiness, self._store, self._settings, serves_operations=True)

    def _start_housekeeping(self) -> None:
        super()._start_housekeeping()
        database, days = self._store.database, self._settings.event_retention_days
        self._start_task(purge_each_hour(database, self._writer))
        self._start_task(remove_expired_each_hour(database, self._writer, self._log, days))

    def _report_problem(self, problem: str) -> None:
        super()._report_problem(problem)
        self._admin.services.suspend() if problem else self._admin.services.resume()


async def _redirect(_call: Call) -> Reply:
    return Reply(303, b"", headers=((b"location", b"/console"),))
