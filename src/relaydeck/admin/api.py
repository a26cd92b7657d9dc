"""Everything under `/admin/v1`, built for one worker."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from relaydeck.admin.actions import action_operations
from relaydeck.admin.apply import ApplyOperation
from relaydeck.admin.audit_operations import AuditOperations
from relaydeck.admin.balances import BalanceOperations
from relaydeck.admin.description import AdminDescription
from relaydeck.admin.doctor import DoctorOperation
from relaydeck.admin.estimates import EstimateOperation
from relaydeck.admin.event_operations import EventOperations
from relaydeck.admin.export import ExportOperation
from relaydeck.admin.lists import Lists
from relaydeck.admin.operation import Operations
from relaydeck.admin.operation_runner import OperationRunner
from relaydeck.admin.relayer_addresses import RelayerAddresses
from relaydeck.admin.resources import ResourceOperations
from relaydeck.admin.routes import AdminRouter, Methods
from relaydeck.admin.signer_checks import SignerCheckOperation
from relaydeck.admin.signer_creation import signer_creation
from relaydeck.admin.store_thread import StoreThread
from relaydeck.admin.token_operations import TokenOperations
from relaydeck.admin.why import WhyOperation
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.doctor.all_checks import examine
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.fees.estimator import Estimator
from relaydeck.networks.node_rule import NodeRule
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.provisioning.url_rules import UrlRules
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
        self._reads = StoreThread(settings)
        self._applies = StoreThread(settings, "admin-applies")  # a large one takes a minute, and reads go on
        self.read = self._reads.run
        self.erase_removed = self._applies.erase_removed
        self.examination = SharedRun(partial(examine, settings), "doctor")
        runner = OperationRunner(writer, audit)
        self.console_audit = runner.console_audit
        guarded: dict[str, Methods] = {}
        for operations in self._operations(settings, estimator, access):
            for path, methods in operations.items():
                answers = {method: runner.answer(operation) for method, operation in methods.items()}
                guarded[path] = guarded.get(path, {}) | answers
        max_bodies = {"apply": settings.apply_max_body_bytes}
        self.find = AdminRouter(guarded, AdminDescription(render).routes(), max_bodies).find

    def _operations(self, settings: Settings, estimator: Estimator, access: KeyAccess) -> Iterator[Operations]:
        reads, lists = self._reads, Lists(self._reads, settings.max_per_page)
        nodes, webhooks = NodeRule(settings.rpc_allowed_over_http), WebhookRule(settings.webhook_allow)
        urls = UrlRules(nodes, marks_nodes=True, webhooks=webhooks)
        yield ResourceOperations(reads, lists, RelayerAddresses(reads, access), urls).operations()
        yield signer_creation()
        yield action_operations()
        yield SignerCheckOperation(reads, access).operations()
        yield BalanceOperations(reads, settings).operations()
        yield WhyOperation(reads, settings, estimator.pool).operations()
        yield EstimateOperation(reads, estimator).operations()
        yield ApplyOperation(self._applies, access, urls).operations()
        yield ExportOperation(reads).operations()
        yield TokenOperations(lists).operations()
        yield EventOperations(reads, settings.max_per_page).operations()
        yield AuditOperations(reads, lists).operations()
        yield DoctorOperation(self.examination).operations()

    def suspend(self) -> None:
        """Fail everything until `resume`: the database is unreachable."""
        self._reads.suspend()
        self._applies.suspend()

    def resume(self) -> None:
        self._reads.resume()
        self._applies.resume()

    def close(self) -> None:
        self.examination.close()
        self._applies.close()
        self._reads.close()
