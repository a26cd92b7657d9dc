"""The admin API of a worker, built by the first request, so that the start does not wait for it."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.admin import idempotency
from relaydeck.contract.description import rendered
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.fees.estimator import Estimator
from relaydeck.http.pipeline import Route
from relaydeck.settings import Settings
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog

if TYPE_CHECKING:
    from relaydeck.admin.api import AdminApi

_ADMIN_API = "relaydeck.admin.api"


class LateAdmin:
    """`on_close` registers the function that closes the API."""

    purge_each_hour = staticmethod(idempotency.purge_each_hour)

    def __init__(
        self,
        settings: Settings,
        writer: CallerWriter,
        audit: AuditLog,
        estimator: Estimator,
        access: KeyAccess,
        on_close: Callable[[Callable[[], None]], object],
    ) -> None:
        self._parts = settings, writer, audit, rendered, estimator, access
        self._on_close = on_close
        self._api: AdminApi | None = None
        self._suspended = False

    def find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        return self.api().find(method, path, raw_path)

    def api(self) -> "AdminApi":
        if self._api is None:
            api: type[AdminApi] = import_module(_ADMIN_API).AdminApi
            self._api = api(*self._parts)
            self._on_close(self._api.close)
            if self._suspended:
                self._api.suspend()
        return self._api

    def suspend(self) -> None:
        """Fail every read until `resume`: the database is unreachable."""
        self._suspended = True
        if self._api is not None:
            self._api.suspend()

    def resume(self) -> None:
        self._suspended = False
        if self._api is not None:
            self._api.resume()

    async def erase_removed(self) -> None:
        """Erase secrets that were removed through its own connection for writes."""
        if self._api is not None:
            await self._api.erase_removed()

    async def warm(self) -> None:
        """Load its code in the background, so that the first request does not wait for that."""
        await asyncio.to_thread(import_module, _ADMIN_API)
