"""Checks of the service: the head of the audit log and the verification of its chain, and what `doctor` finds."""

from relaydeck.admin.handling import Content, Request, Services, handles
from relaydeck.api.operations import GET_AUDIT_HEAD, RUN_DOCTOR, VERIFY_AUDIT
from relaydeck.api.records import AuditHead
from relaydeck.doctor import AuditVerification
from relaydeck.doctor.integrity import verify_audit
from relaydeck.errors import BadRequest
from relaydeck.store import audit
from relaydeck.store.open_store import Store


@handles(GET_AUDIT_HEAD)
async def head(services: Services, _request: Request) -> Content:
    return Content(AuditHead(str(await services.read(lambda store: audit.head(store.database.read)))))


@handles(VERIFY_AUDIT)
async def verify(services: Services, request: Request) -> Content:
    saved = request.query.get("head", "")
    return Content(await services.read(lambda store: _verification(store, saved)))


def _verification(store: Store, saved: str) -> AuditVerification:
    """`saved` is an earlier head, or empty. Raises BadRequest when it is not a head."""
    earlier = audit.read_head(saved) if saved else None
    if saved and earlier is None:
        raise BadRequest("head must be a number, a colon and 64 hexadecimal digits")
    return verify_audit(store.database, store.vault, earlier)


@handles(RUN_DOCTOR)
async def run_doctor(services: Services, _request: Request) -> Content:
    return Content(await services.examine())
