"""`POST /admin/v1/signers/{id}/check`: a signer proves now that it reaches its key. Which types have a driver."""

from relaydeck.admin.bodies import SignerDriver
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import ChangeRunner, Content, identifier_in_path, refuse_content, reply
from relaydeck.admin.routes import Methods
from relaydeck.http.pipeline import Call, Reply
from relaydeck.signers import check_changes, check_rows
from relaydeck.signers.check import check_signer
from relaydeck.signers.check_report import check_report
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.change_context import ChangeContext


class SignerCheckOperation:
    def __init__(self, read_pool: ReadPool, changes: ChangeRunner, access: KeyAccess) -> None:
        self._read_pool = read_pool
        self._changes = changes
        self._access = access

    def routes(self) -> dict[str, Methods]:
        return {"signers/{id}/check": {"POST": self.check}, "signer-drivers": {"GET": self.list_drivers}}

    async def list_drivers(self, call: Call) -> Reply:
        """The bound drivers: `relaydeck signer check --all` checks the signers of these types."""
        return reply(Content([SignerDriver(*each) for each in self._access.bindings.items()]))

    async def check(self, call: Call) -> Reply:
        """The key system is asked before the transaction, which only saves the result."""
        name = identifier_in_path(call)
        refuse_content(call)
        signer = await self._read_pool.run(lambda store: check_rows.find_signer(store.database.read, store.vault, name))
        check = await check_signer(await self._access.keys(), signer.id, signer.type, signer.config)

        def work(context: ChangeContext) -> Content:
            return Content(check_report(check_changes.settle(context, signer, check)[0]))

        return await self._changes.run(call, work)
