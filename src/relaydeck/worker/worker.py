"""Wires what is around the five operations to a worker: the admin API, the console, events, the monitor, the checks."""

from relaydeck.contract.routes import Router, Routes
from relaydeck.notifications.delivery_service import DeliveryService
from relaydeck.relayers.monitor_service import MonitorService
from relaydeck.signers.check_service import SignerCheckService
from relaydeck.signers.key_access import KeyAccess
from relaydeck.worker.core_worker import CoreWorker
from relaydeck.worker.late_admin import LateAdmin
from relaydeck.worker.late_console import HOME_PAGE, LateConsole
from relaydeck.worker.open_routes import open_routes


class Worker(CoreWorker):
    """What one worker process of the whole service holds."""

    _problem_paths = (b"/admin/",)

    def _start_services(self) -> None:
        access = self._open_key_access()
        self._admin = self._prepare_admin(access)
        self._tables += [self._start_delivery(), self._start_monitor(), self._start_signer_checks(access)]

    def _open_key_access(self) -> KeyAccess:
        access = KeyAccess(self._settings)
        self._closers.push_async_callback(access.close)
        return access

    def _start_delivery(self) -> DeliveryService:
        count = self._reports.delivery_attempt
        service = DeliveryService(self._settings, self._store, self._writer, self._log, count)
        self._closers.push_async_callback(service.close)
        return service

    def _start_monitor(self) -> MonitorService:
        parts = self._settings, self._store, self._writer, self._audit, self._log, self._estimator.pool
        service = MonitorService(*parts, self._reports.relayer_check, self._reports.monitor_round)
        self._closers.push_async_callback(service.close)
        return service

    def _start_signer_checks(self, access: KeyAccess) -> SignerCheckService:
        parts = self._settings, self._store, self._writer, self._audit, self._log
        service = SignerCheckService(*parts, access, self._reports.signer_check)
        self._closers.push_async_callback(service.close)
        return service

    def _prepare_admin(self, access: KeyAccess) -> LateAdmin:
        parts = self._settings, self._caller_writer, self._audit, self._estimator, access
        return LateAdmin(*parts, on_close=self._closers.callback)

    def _prepare_console(self) -> LateConsole:
        parts = self._settings, self._writer, self._admin, self._estimator
        return LateConsole(*parts, revision=self._following.revision, on_close=self._closers.callback)

    def _router(self) -> Router:
        routes, contract, admin = self._open_routes(), self._contract_routes(), self._admin.find
        if self._settings.console == "off":
            return Router(routes, contract, {b"admin": admin})
        console = self._prepare_console().find
        return Router({**routes, "/": HOME_PAGE}, contract, {b"admin": admin, b"console": console})

    def _make_open_routes(self) -> Routes:
        readiness = self._following.readiness
        return open_routes(self._metrics, readiness, self._store, self._settings, serves_operations=True)

    def _start_upkeep(self) -> None:
        super()._start_upkeep()
        self._start_task(self._admin.purge_each_hour(self._store.database, self._writer))

    async def _load_more(self) -> None:
        await self._admin.warm()

    async def _erase_removed(self) -> None:
        await self._admin.erase_removed()

    def _report_problem(self, problem: str) -> None:
        super()._report_problem(problem)
        self._admin.suspend() if problem else self._admin.resume()
