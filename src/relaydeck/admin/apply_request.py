"""The request of `POST /admin/v1/apply`: a document, and the values of the references in it."""

from typing import NamedTuple

import msgspec

from relaydeck.admin.bodies import ApplyRequest
from relaydeck.admin.documents import refuse_deep, release
from relaydeck.admin.operation import Request
from relaydeck.errors import BadRequest
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan_revision import is_revision
from relaydeck.provisioning.references import GivenReferences, Reference
from relaydeck.provisioning.url_rules import UrlRules
from relaydeck.secret import Secret


class RequestedApply(NamedTuple):
    planner: FilePlanner
    plan_only: bool


def read_apply(request: Request, urls: UrlRules) -> RequestedApply:
    """Takes seconds for a large document. Raises BadRequest."""
    asked = request.decode_apply()
    refuse_deep(asked.document)
    file = read_parsed(asked.document, GivenReferences(_references(asked)))
    release(asked.document)
    return RequestedApply(FilePlanner(file, asked.prune, urls), asked.plan_only)


def expected_revision(request: Request) -> str:
    """Of the plan to apply; empty: any plan. Raises BadRequest."""
    expected = (request.if_match or "").strip().strip('"')
    if expected and not is_revision(expected):
        raise BadRequest("If-Match must be the revision of a plan")
    return expected


def _references(asked: ApplyRequest) -> dict[Reference, Secret | str]:
    found: dict[Reference, Secret | str] = {}
    for each in asked.references:
        if (each.value is msgspec.UNSET) == (each.missing is msgspec.UNSET):
            raise BadRequest("each of references must have either value or missing")
        found[Reference(each.kind, each.name)] = each.missing if each.value is msgspec.UNSET else each.value  # type: ignore[assignment]
    return found
