"""Everything under `/admin/v1`, built for one worker."""

from collections.abc import Callable
from functools import partial
from typing import Any

from relaydeck.admin.audit import AuditOperations
from relaydeck.admin.balances import BalanceOperations
from relaydeck.admin.description import AdminDescription
from relaydeck.admin.doctor import DoctorOperation
from relaydeck.admin.estimates import EstimateOperation
from relaydeck.admin.events import EventOperations
from relaydeck.admin.provisioning import ProvisioningOperations
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.resources import Lists, ResourceOperations
from relaydeck.admin.responses import ChangeRunner
from relaydeck.admin.routes import AdminRouter, Methods
from relaydeck.admin.signer_checks import SignerCheckOperation
from relaydeck.admin.tokens import TokenOperations
from relaydeck.admin.why import WhyOperation
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.doctor.home import examine
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.fees.estimator import Estimator
from relaydeck.settings import Settings
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog


class AdminApi:
    """`render` makes a web page of an OpenAPI document.

    `estimator` makes estimates and has their nodes, `access` the keys of signers.
    """

    def __init__(
        self,
        settings: Settings,
        writer: CallerWriter,
        audit: AuditLog,
        render: Callable[[dict[str, Any]], str],
        estimator: Estimator,
        access: KeyAccess,
    ) -> None:
        self._read_pool = ReadPool(settings)
        self.read = self._read_pool.run
        self.suspend, self.resume = self._read_pool.suspend, self._read_pool.resume
        self.examination = SharedRun(partial(examine, settings), "doctor")
        lists, changes = Lists(self._read_pool, settings.max_per_page), ChangeRunner(writer, audit)
        guarded: dict[str, Methods] = {
            **ResourceOperations(self._read_pool, changes, lists, access).routes(),
            **SignerCheckOperation(self._read_pool, changes, access).routes(),
            **BalanceOperations(self._read_pool, settings).routes(),
            **WhyOperation(self._read_pool, settings, estimator.pool).routes(),
            **EstimateOperation(self._read_pool, estimator).routes(),
            **ProvisioningOperations(self._read_pool, changes, access).routes(),
            **TokenOperations(changes, lists).routes(),
            **EventOperations(self._read_pool, changes, settings.max_per_page).routes(),
            **AuditOperations(self._read_pool, lists).routes(),
            **DoctorOperation(self.examination).routes(),
        }
        max_bodies = {"apply": settings.apply_max_body_bytes}
        self.find = AdminRouter(guarded, AdminDescription(render).routes(), max_bodies).find

    def close(self) -> None:
        self.examination.close()
        self._read_pool.close()
