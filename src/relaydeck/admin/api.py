"""Everything under `/admin/v1`, built for one worker."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from relaydeck.admin.actions import action_operations
from relaydeck.admin.apply import ApplyOperation
from relaydeck.admin.audit import AuditOperations
from relaydeck.admin.balances import BalanceOperations
from relaydeck.admin.description import AdminDescription
from relaydeck.admin.doctor import DoctorOperation
from relaydeck.admin.estimates import EstimateOperation
from relaydeck.admin.events import EventOperations
from relaydeck.admin.export import ExportOperation
from relaydeck.admin.lists import Lists
from relaydeck.admin.operation import Operations
from relaydeck.admin.operation_runner import OperationRunner
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.relayer_addresses import RelayerAddresses
from relaydeck.admin.resources import ResourceOperations
from relaydeck.admin.routes import AdminRouter, Methods
from relaydeck.admin.signer_checks import SignerCheckOperation
from relaydeck.admin.signer_creation import signer_creation
from relaydeck.admin.tokens import TokenOperations
from relaydeck.admin.why import WhyOperation
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.doctor.all_checks import examine
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.fees.estimator import Estimator
from relaydeck.networks.node_rule import NodeRule
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
        self._applies = ReadPool(settings, "admin-applies")  # a large one takes a minute, and reads go on
        self.read = self._read_pool.run
        self.erase_removed = self._applies.erase_removed
        self.examination = SharedRun(partial(examine, settings), "doctor")
        runner = OperationRunner(writer, audit)
        guarded: dict[str, Methods] = {}
        for operations in self._operations(settings, estimator, access):
            for path, methods in operations.items():
                answers = {method: runner.answer(operation) for method, operation in methods.items()}
                guarded[path] = guarded.get(path, {}) | answers
        max_bodies = {"apply": settings.apply_max_body_bytes}
        self.find = AdminRouter(guarded, AdminDescription(render).routes(), max_bodies).find

    def _operations(self, settings: Settings, estimator: Estimator, access: KeyAccess) -> Iterator[Operations]:
        read_pool, lists = self._read_pool, Lists(self._read_pool, settings.max_per_page)
        nodes = NodeRule(settings.rpc_allowed_over_http)
        yield ResourceOperations(read_pool, lists, RelayerAddresses(read_pool, access), nodes).operations()
        yield signer_creation()
        yield action_operations()
        yield SignerCheckOperation(read_pool, access).operations()
        yield BalanceOperations(read_pool, settings).operations()
        yield WhyOperation(read_pool, settings, estimator.pool).operations()
        yield EstimateOperation(read_pool, estimator).operations()
        yield ApplyOperation(self._applies, access, nodes).operations()
        yield ExportOperation(read_pool).operations()
        yield TokenOperations(lists).operations()
        yield EventOperations(read_pool, settings.max_per_page).operations()
        yield AuditOperations(read_pool, lists).operations()
        yield DoctorOperation(self.examination).operations()

    def suspend(self) -> None:
        """Fail everything until `resume`: the database is unreachable."""
        self._read_pool.suspend()
        self._applies.suspend()

    def resume(self) -> None:
        self._read_pool.resume()
        self._applies.resume()

    def close(self) -> None:
        self.examination.close()
        self._applies.close()
        self._read_pool.close()
