"""`POST /admin/v1/signers/{id}/check`: a signer proves now that it reaches its key. Which types have a driver."""

from relaydeck.admin.bodies import SignerDriver
from relaydeck.admin.operation import Change, Content, Operations, Request
from relaydeck.admin.store_thread import StoreThread
from relaydeck.signers import check_changes, check_rows
from relaydeck.signers.check import check_signer
from relaydeck.signers.check_report import check_report
from relaydeck.signers.key_access import KeyAccess


class SignerCheckOperation:
    def __init__(self, reads: StoreThread, access: KeyAccess) -> None:
        self._reads = reads
        self._access = access

    def operations(self) -> Operations:
        return {"signers/{id}/check": {"POST": self.check}, "signer-drivers": {"GET": self.list_drivers}}

    async def list_drivers(self, _request: Request) -> Content:
        """The bound drivers: `relaydeck signer check --all` checks the signers of these types."""
        return Content([SignerDriver(*each) for each in self._access.bindings.items()])

    async def check(self, request: Request) -> Change:
        """The key system is asked before the transaction, which only saves the result."""
        name = request.identifier
        request.refuse_content()
        signer = await self._reads.run(lambda store: check_rows.find_signer(store.database.read, store.vault, name))
        keys, local = await self._access.keys(), signer.set_locally
        check = await check_signer(keys, signer.id, signer.type, signer.config, set_locally=local)
        return lambda context: Content(check_report(check_changes.settle(context, signer, check)[0]))
