"""Changes of a record by merge patch (RFC 7396), on the condition that it is as the caller knows it."""

from functools import cache
from typing import Any

from relaydeck.admin.bodies import Created
from relaydeck.admin.documents import Json
from relaydeck.admin.views import RecordView
from relaydeck.errors import BadRequest, NotPossible, OutOfDate
from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, Resource


def require_match(view: RecordView, if_match: str | None) -> None:
    if if_match is None or if_match.strip() == "*":
        return
    if view.etag not in [each.strip() for each in if_match.split(",")]:
        raise OutOfDate("the record has changed: read it again")


def patched_document(resource: Resource, before: RecordView, change: Json) -> Json:
    """The whole document after the patch. A patch may repeat a read-only field, but not change it."""
    identity, read_only = IDENTITY[resource], _read_only(resource)
    for name in (identity, *read_only):
        if name in change and change[name] != before.body.get(name):
            raise BadRequest(f"{name} cannot be changed here")
    for name in _sealed(resource):
        if name not in before.body and name not in change:
            raise NotPossible(f"the stored {name} cannot be opened: set it again")
    base = _without(before.body, read_only)
    if resource == "relayers" and change.get("signer_id", base["signer_id"]) != base["signer_id"]:
        base.pop("address")  # it belongs to the previous signer
    document: Json = merged(base, _without(change, read_only))
    if resource == "notifications" and "signing_key" in change and change["signing_key"] is None:
        document["signing_key"] = ""  # removes the key
    return document


def _without(document: Json, names: tuple[str, ...]) -> Json:
    return {name: value for name, value in document.items() if name not in names}


def merged(target: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396): objects are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@cache
def _fields(resource: Resource) -> tuple[Field, ...]:
    return fields_of(RECORD_TYPES[resource])


@cache
def _read_only(resource: Resource) -> tuple[str, ...]:
    """The fields that a response contains and a document cannot set."""
    return (*(field.name for field in _fields(resource) if field.traits.read_only), *Created.__struct_fields__)


@cache
def _sealed(resource: Resource) -> tuple[str, ...]:
    """The fields that a response leaves out when they do not open."""
    return tuple(each.name for each in _fields(resource) if each.traits.sealed_as and not each.traits.write_only)
