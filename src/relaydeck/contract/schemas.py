"""The schemas of the OpenAPI document, derived from the wire types.

What a type cannot say (an identifier's length, which of two fields is present) is added here by name.
"""

import re
from types import GenericAlias
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.contract import wire, wording
from relaydeck.contract.rpc import METHOD_NOT_FOUND
from relaydeck.contract.wording import Words
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.identifiers import MAX_LENGTH
from relaydeck.secret import Secret
from relaydeck.signers.shapes import SHAPES, Config, response_type, secret_fields

Json = dict[str, Any]

PLACE = "#/components/schemas/"
_VIEW = re.compile(r"\b([A-Z][A-Za-z]+)View\b")

IDENTIFIER: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_LENGTH,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
    "not": {"enum": [".", ".."]},
}


def reference(name: str) -> Json:
    return {"$ref": PLACE + name}


def basis(words: Words) -> Json:
    return {"description": words.text, "x-relaydeck-basis": words.basis}


def schemas() -> dict[str, Json]:
    """Every body of the interface by its name."""
    found = _derived()
    for name, schema in found.items():
        _describe(name, schema)
        if name in wording.TYPES:
            schema |= basis(wording.TYPES[name])
    for (name, field), more in _more().items():
        found[name]["properties"][field] |= more
    found["RpcResponse"]["oneOf"] = [{"required": ["result"]}, {"required": ["error"]}]
    found["RpcError"]["oneOf"] = _rpc_errors()
    return dict(sorted(found.items()))


def _derived() -> dict[str, Json]:
    requests = (wire.NotificationUpdate, FeeEstimateParams, _rpc_request())
    answers = _answers()
    (signer, *_), components = msgspec.json.schema_components(
        [wire.SignerRequest, *requests, *answers], schema_hook=_secret, ref_template=PLACE + "{name}"
    )
    for answer in answers:
        _require_what_is_always_there(components[answer.__name__], answer)
    components["SignerRequest"] = signer
    for schema in components.values():
        schema.pop("title", None)
        schema.pop("description", None)  # the types' own words are for people who read the code
    renamed: dict[str, Json] = msgspec.json.decode(_VIEW.sub(r"\1", msgspec.json.encode(components).decode()))
    return renamed


def _secret(kind: type) -> Json:
    if kind is Secret:
        return {"type": "string", "writeOnly": True}
    raise NotImplementedError(kind)


def _answers() -> tuple[type[msgspec.Struct], ...]:
    listed = {"pagination": wire.Pagination}
    signer = _signer()
    return (
        _retyped("SignerEnvelope", wire.Success, {"data": signer}, without="pagination"),
        _retyped("NotificationEnvelope", wire.Success, {"data": wire.NotificationView}, without="pagination"),
        _retyped("SignerListEnvelope", wire.Success, {"data": GenericAlias(list, signer), **listed}),
        _retyped("RelayerListEnvelope", wire.Success, {"data": list[wire.RelayerView], **listed}),
        _retyped("ErrorEnvelope", wire.Failure, {}),
        wire.Metadata,
        wire.LogEntry,
        wire.Pagination,
        signer,
        wire.NotificationView,
        wire.RelayerView,
        wire.RpcUrlView,
        wire.DisabledReasonView,
        wire.PoliciesView,
        wire.RpcResponse,
        wire.FeeEstimateResult,
        wire.RpcErrorView,
    )


def _rpc_request() -> type[msgspec.Struct]:
    """The request as its sender sees it: the wire type keeps two fields as they came."""
    types = {"params": dict[str, Any], "id": str | float | None | UnsetType}
    return _retyped("RpcRequest", wire.RpcRequest, types, optional="id")


def _retyped(
    name: str, base: type[msgspec.Struct], types: Json, *, without: str = "", optional: str = ""
) -> type[msgspec.Struct]:
    """The fields of `base` under another name, some with a type that says more."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(base):
        kind = types.get(field.name, field.type)
        if field.name == optional:
            fields.append((field.name, kind, UNSET))
        elif field.name != without:
            fields.append((field.name, kind))
    forbid = base.__struct_config__.forbid_unknown_fields
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=forbid)


def _require_what_is_always_there(schema: Json, answer: type[msgspec.Struct]) -> None:
    """In an answer a field with a default is there all the same, unless its type says it may be unset."""
    fields = msgspec.structs.fields(answer)
    schema["required"] = [field.name for field in fields if UnsetType not in getattr(field.type, "__args__", ())]
    for field in schema["properties"].values():
        field.pop("default", None)


def _describe(name: str, schema: Json) -> None:
    words = wording.FIELDS.get(name, {})
    for field, described in schema.get("properties", {}).items():
        described |= basis(words.get(field, wording.WIDENED))


def _signer() -> type[msgspec.Struct]:
    """A signer as it is answered: its config may hold any field that is no secret, and needs none."""
    fields = sorted({field for shape in SHAPES.values() for field in _open_fields(shape)})
    config = msgspec.defstruct("SignerConfig", [(field, str | UnsetType, UNSET) for field in fields])
    return _retyped("Signer", wire.SignerView, {"config": config})


def _open_fields(shape: type[Config]) -> set[str]:
    return set(shape.__struct_fields__) - secret_fields(shape)


def _more() -> dict[tuple[str, str], Json]:
    """Constraints beyond the types, by schema and field."""
    opaque = {"type": "object", "writeOnly": True}
    answered_types = [response_type(kind) for kind in SHAPES]
    requests = [kind.__name__ for kind in wire.SignerRequest.__args__]
    return {
        **{(request, "id"): IDENTIFIER for request in requests},
        ("SecondKmsConfig", "key"): opaque,
        ("SecondKmsConfig", "service_account"): opaque,
        ("NotificationUpdate", "url"): {"format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"},
        ("RpcRequest", "params"): {"anyOf": [reference("FeeEstimateParams"), {"type": "object"}]},
        ("Signer", "type"): {"enum": answered_types},
        ("Metadata", "traces"): {"items": True, "maxItems": 0},
        ("Pagination", "current_page"): {"minimum": 1},
        ("Pagination", "per_page"): {"minimum": 1},
        ("Pagination", "total_items"): {"minimum": 0},
        ("SignerEnvelope", "error"): {"const": ""},
        ("SignerListEnvelope", "error"): {"const": ""},
        ("RelayerListEnvelope", "error"): {"const": ""},
        ("NotificationEnvelope", "error"): {"const": ""},
        ("DisabledReason", "type"): {"enum": ["NonceSyncFailed"]},
    }


def _rpc_errors() -> list[Json]:
    known = {METHOD_NOT_FOUND.code: METHOD_NOT_FOUND.message}
    known |= {failure.code: failure.message for failure in RpcFailure.__subclasses__()}
    return [
        {
            "properties": {"code": {"const": code}, "message": {"const": message}},
            "description": wording.RPC_ERRORS.get(code, message),
        }
        for code, message in sorted(known.items())
    ]
