"""The schemas of the OpenAPI document, derived from the wire types and the records they contain.

Constraints that a type cannot express (which of two fields is present) are added here by name.
"""

from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.basis import (
    CONFIG_MEANING,
    FAILURES,
    OTHER_CONFIGS,
    UNKNOWN_FIELDS,
    Basis,
    contract,
    in_words,
    shown,
)
from relaydeck.contract import wire
from relaydeck.contract.rpc import METHOD_NOT_FOUND
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fields import BASIS, field, fields_of
from relaydeck.http import envelope
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import DisabledReason, Policies, Relayer
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.signers.signer_types import SHAPES, SHOWN_FIELDS, response_type, secret_fields

Json = dict[str, Any]

PLACE = "#/components/schemas/"
_JSON_TYPES = {str: "string", bool: "boolean"}
_TYPE = shown("2.2").but(value=contract("2.2"))


def reference(name: str) -> Json:
    return {"$ref": PLACE + name}


def schemas() -> dict[str, Json]:
    """Every body of the interface by its name."""
    found = _derived()
    for (name, property_name), more in _more().items():
        found[name]["properties"][property_name] |= more
    for schema in found.values():
        _name_types(schema)
        if schema.get("additionalProperties") is False:
            schema[BASIS] = {"no further fields": in_words(UNKNOWN_FIELDS)}
    found["RpcResponse"]["oneOf"] = [{"required": ["result"]}, {"required": ["error"]}]
    found["RpcResponse"][BASIS] = {"one of result and error": in_words(FAILURES)}
    found["RpcError"]["oneOf"] = _rpc_error_schemas()
    return dict(sorted(found.items()))


def _name_types(schema: Json) -> None:
    """Give the fields with listed values their type, which the contract shows beside the values."""
    for described in schema.get("properties", {}).values():
        if "enum" in described:
            described.setdefault("type", _JSON_TYPES[type(described["enum"][0])])


def _derived() -> dict[str, Json]:
    requests = (wire.NotificationUpdate, FeeEstimateParams, _rpc_request())
    answers = _answers()
    (signer, *_), components = msgspec.json.schema_components(
        [wire.SignerRequest, *requests, *answers], schema_hook=_secret, ref_template=PLACE + "{name}"
    )
    for answer in answers:
        _as_answered(components[answer.__name__], answer)
    for request in wire.SIGNER_REQUESTS.values():
        tag = components[request.__name__]["properties"]["type"]
        tag |= {"description": "The type of signer; it decides the shape of `config`.", BASIS: _TYPE.parts()}
    components["SignerRequest"] = signer | {"description": "A signer to create: one shape for each `type`."}
    for schema in components.values():
        schema.pop("title", None)
    return _without_unused(components)


def _without_unused(components: dict[str, Json]) -> dict[str, Json]:
    """Without the records that only fields outside the described interface have: no schema refers to them."""
    own = {each.record for answer in _answers() for each in fields_of(answer) if each.traits.basis is None}
    names = {each.__name__ for each in own if each is not None}
    return {name: schema for name, schema in components.items() if name not in names}


def _secret(kind: type) -> Json:
    if kind is Secret:
        return {"type": "string", "maxLength": LONGEST_SECRET, "writeOnly": True}
    raise NotImplementedError(kind)


def _answers() -> tuple[type[msgspec.Struct], ...]:
    success, listed = envelope.Success, {"pagination": envelope.Pagination}
    signer = _signer()
    return (
        _retyped("SignerEnvelope", success, {"data": signer}, without="pagination"),
        _retyped("NotificationEnvelope", success, {"data": Notification}, without="pagination"),
        _retyped("SignerListEnvelope", success, {"data": GenericAlias(list, signer), **listed}),
        _retyped("RelayerListEnvelope", success, {"data": list[Relayer], **listed}),
        _retyped("ErrorEnvelope", envelope.Failure, {}),
        envelope.Metadata,
        envelope.LogEntry,
        envelope.Pagination,
        signer,
        Notification,
        Relayer,
        RpcUrl,
        DisabledReason,
        Policies,
        wire.RpcResponse,
        wire.FeeEstimateResult,
        wire.RpcError,
    )


def _rpc_request() -> type[msgspec.Struct]:
    """The request as its sender sees it: the wire type leaves two fields undecoded."""
    types = {"params": dict[str, Any], "id": str | float | None | UnsetType}
    return _retyped("RpcRequest", wire.RpcRequest, types, optional="id")


def _retyped(
    name: str, base: type[msgspec.Struct], types: Json, *, without: str = "", optional: str = ""
) -> type[msgspec.Struct]:
    """The fields of `base` under another name, some with a more specific type."""
    fields: list[Any] = []
    for info in msgspec.structs.fields(base):
        kind = info.type
        if info.name in types:
            kind = Annotated[types[info.name], *kind.__metadata__]
        if info.name == optional:
            fields.append((info.name, kind, UNSET))
        elif info.name != without:
            fields.append((info.name, kind))
    forbid = base.__struct_config__.forbid_unknown_fields
    namespace = {"__doc__": base.__doc__}
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=forbid, namespace=namespace)


def _as_answered(schema: Json, answer: type[msgspec.Struct]) -> None:
    """Adapt the schema of a record to a response.

    A field with a default is always present, unless it can be unset or its sealed form may not open. Fields that only
    a request has, and fields that are not part of the described interface, are absent.
    """
    shown = [each for each in fields_of(answer) if not each.traits.write_only and each.traits.basis is not None]
    schema["properties"] = {each.name: schema["properties"][each.name] for each in shown}
    schema["required"] = [each.name for each in shown if not each.may_be_unset and not each.traits.sealed_as]
    for described in schema["properties"].values():
        described.pop("default", None)


def _signer() -> type[msgspec.Struct]:
    """A signer in a response: its config may contain any field that is not secret, and needs none."""
    names = sorted({each.name for shape in SHAPES.values() for each in fields_of(shape)} - _secret_names())
    config = msgspec.defstruct(
        "SignerConfig",
        [(name, Annotated[str | UnsetType, _config_field(name)], UNSET) for name in names],
        namespace={"__doc__": "Each field is a string and present only when the request contained it."},
    )
    return _retyped("Signer", wire.Signer, {"config": config})


def _secret_names() -> set[str]:
    return {name for shape in SHAPES.values() for name in secret_fields(shape)}


def _config_field(name: str) -> msgspec.Meta:
    if name in SHOWN_FIELDS:
        basis = shown("2.2").but(presence=OTHER_CONFIGS, meaning=CONFIG_MEANING)
        return field("Present when the signer was created with it.", basis=basis)
    basis = Basis(presence=OTHER_CONFIGS, type=OTHER_CONFIGS, meaning=CONFIG_MEANING)
    return field("Only with the setting `RELAYDECK_SIGNER_CONFIG=non_secret`.", basis=basis)


def _more() -> dict[tuple[str, str], Json]:
    """Constraints beyond the types, by schema and field.

    The contract calls amounts numbers: the document keeps that type, and adds that ours are whole.
    """
    return {
        ("Policies", "gas_price_cap"): {"type": "number", "multipleOf": 1},
        ("Policies", "min_balance"): {"type": "number", "multipleOf": 1},
        ("RpcRequest", "params"): {"anyOf": [reference("FeeEstimateParams"), {"type": "object"}]},
        ("Signer", "type"): {"enum": [response_type(kind) for kind in SHAPES]},
    }


def rpc_errors() -> dict[int, tuple[str, str]]:
    """Each code of a JSON-RPC error with its message and its meaning."""
    known = {METHOD_NOT_FOUND.code: (METHOD_NOT_FOUND.message, "The method is not `feeEstimate`.")}
    known |= {failure.code: (failure.message, failure.meaning) for failure in RpcFailure.__subclasses__()}
    return dict(sorted(known.items()))


def _rpc_error_schemas() -> list[Json]:
    return [
        {"properties": {"code": {"const": code}, "message": {"const": message}}, "description": meaning}
        for code, (message, meaning) in rpc_errors().items()
    ]
