"""The head of the audit log, and the verification of its chain."""

from relaydeck.admin.bodies import AuditHead, AuditVerification
from relaydeck.admin.collections import AUDIT
from relaydeck.admin.lists import Lists
from relaydeck.admin.operation import Content, Operations, Request
from relaydeck.admin.store_thread import StoreThread
from relaydeck.doctor.audit_log import verify_audit
from relaydeck.errors import BadRequest
from relaydeck.store import audit
from relaydeck.store.open_store import Store


class AuditOperations:
    def __init__(self, reads: StoreThread, lists: Lists) -> None:
        self._reads = reads
        self._lists = lists

    def operations(self) -> Operations:
        return {
            "audit": {"GET": self.list_entries},
            "audit/head": {"GET": self.head},
            "audit/verify": {"GET": self.verify},
        }

    async def list_entries(self, request: Request) -> Content:
        return await self._lists.list_page(request, AUDIT)

    async def head(self, request: Request) -> Content:
        found = await self._reads.run(lambda store: audit.head(store.database.read))
        return Content(AuditHead(str(found)))

    async def verify(self, request: Request) -> Content:
        saved = request.read_query().get("head", "")
        return Content(await self._reads.run(lambda store: verification(store, saved)))


def verification(store: Store, saved: str) -> AuditVerification:
    """`saved` is an earlier head, or empty. Raises BadRequest when it is not a head."""
    earlier = audit.read_head(saved) if saved else None
    if saved and earlier is None:
        raise BadRequest("head must be a number, a colon and 64 hexadecimal digits")
    return AuditVerification(*verify_audit(store.database, store.vault, earlier))
