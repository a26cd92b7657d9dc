"""Writes the apply document that plans an audited change back."""

from collections.abc import Mapping
from typing import Any

import msgspec

from relaydeck.errors import Damaged, NotPossible, RecordNotFound
from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import CREATED_AS, IDENTITY, RECORD_TYPES, TABLES, Resource
from relaydeck.provisioning.export import stored_document, written_record, written_value
from relaydeck.provisioning.reader import is_address
from relaydeck.store.open_store import Store

_RESOURCES: dict[str, Resource] = {resource[:-1]: resource for resource in TABLES}


def resource_of(action: str) -> Resource | None:
    """That of the record which an entry with this action is about."""
    return _RESOURCES.get(action.partition(".")[0])


def reverted_resource(action: str, before: Mapping[str, Any] | None) -> Resource | None:
    """The resource of a change that can be planned back: what was before is recorded, and no part of it is hidden."""
    kind, _, verb = action.partition(".")
    resource = _RESOURCES.get(kind)
    if resource is None or not before or verb not in ("updated", "deleted"):
        return None
    hidden = _hidden(resource, before)
    return None if (any(hidden) if verb == "deleted" else hidden) else resource


def secret_resource(action: str, before: Mapping[str, Any] | None) -> str:
    """The resource of a change or deletion that cannot be planned back, because what was before is a secret."""
    kind, _, verb = action.partition(".")
    resource = _RESOURCES.get(kind)
    if action == "signer.deleted":
        return "signers"
    has_secret = resource and before and verb in ("updated", "deleted") and any(_hidden(resource, before))
    return resource if resource and has_secret else ""


def _hidden(resource: Resource, before: Mapping[str, Any]) -> list[Any]:
    """The values that may be parts of a secret."""
    fields = [(_field(resource, name)[0], value) for name, value in before.items()]
    return [value for field, value in fields if field is None or field.traits.sealed_as or is_address(field)]


def reverted_document(store: Store, action: str, record: str, before: Mapping[str, Any]) -> str:
    """The record as it is, or nothing if it was deleted, with what was before. Raises RecordNotFound, NotPossible."""
    resource = _RESOURCES[action.partition(".")[0]]
    try:
        content = stored_document(store, resource, record)
    except Damaged as damage:
        raise NotPossible(f"{damage}") from None
    if content is None and not action.endswith(".deleted"):
        raise RecordNotFound(resource[:-1])
    if content is None:
        content = {IDENTITY[resource]: record} | {each.name: True for each in CREATED_AS if before.get(each.name)}
    for name, value in before.items():
        field, inner = _field(resource, name)
        if field is not None and not field.traits.read_only:
            place = content.setdefault(name.partition(".")[0], {}) if inner is not None else content
            _put(place, inner or field, value)
    return written_record(resource, content)


def _field(resource: Resource, name: str) -> tuple[Field | None, Field | None]:
    """The declared field of a fact, and the one within it, as in `policies.min_balance`."""
    top, _, within = name.partition(".")
    field = _find(RECORD_TYPES[resource], top)
    return field, _find(field.record, within) if field is not None and field.record and within else None


def _find(record: type[msgspec.Struct], name: str) -> Field | None:
    return next((each for each in fields_of(record) if each.name == name), None)


def _put(content: dict[str, Any], field: Field, value: Any) -> None:
    """Null: it was unset, and a field that is left out has its default."""
    if value is None:
        content.pop(field.name, None)
    else:
        content[field.name] = written_value(field, msgspec.convert(value, field.type, strict=False))
