"""Starts the checks of signers when there is a signer."""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.log import Log
from relaydeck.settings import Settings
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import Store
from relaydeck.store.rounds_service import RoundsService
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.signers.check_rounds import Count, SignerCheckRounds


class SignerCheckService(RoundsService):
    def __init__(
        self,
        settings: Settings,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        access: KeyAccess,
        count: "Count",
    ) -> None:
        interval = settings.signer_check_seconds if access.bound_types else 0.0
        super().__init__("signers", interval, partial(import_module, "relaydeck.signers.check_rounds"))
        self._settings = settings
        self._parts = store, writer, audit, log, access, count

    def build(self) -> "SignerCheckRounds":
        from relaydeck.signers.check_rounds import SignerCheckRounds
        from relaydeck.store.rounds import RoundOptions

        return SignerCheckRounds(
            *self._parts, RoundOptions(self._settings.signer_check_seconds, self._settings.lease_seconds)
        )
