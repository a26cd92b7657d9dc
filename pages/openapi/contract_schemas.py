"""The schemas of the OpenAPI document, derived from the wire types and the records they contain, and its texts.

Constraints that a type cannot express (which of two fields is present) are added here by name.
"""

from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from pages.openapi.admin_schemas import PLACE, Json, for_tools, secret_schema
from relaydeck.api import wire
from relaydeck.basis import (
    CONFIG_MEANING,
    FAILURES,
    OTHER_CONFIGS,
    STATUSES,
    UNKNOWN_FIELDS,
    UNKNOWN_PATHS,
    Basis,
    Words,
    contract,
    in_words,
    ruling,
    shown,
)
from relaydeck.contract.rpc import METHOD_NOT_FOUND
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fields import BASIS, field, fields_of
from relaydeck.http import envelope
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import DisabledReason, Policies, Relayer
from relaydeck.signers.signer_types import SHAPES, SHOWN_FIELDS, response_type, secret_fields

INTRODUCTION = """\
Relaydeck manages relayers, the signers that hold their keys and the webhooks that receive their events, and runs \
JSON-RPC calls through a relayer.

The five operations under `/api/v1` are the described interface, and nothing else is served there. Each requires a \
bearer credential. A success has one envelope and an error another; the JSON-RPC call has the shape of JSON-RPC.

The interface is described by a contract, which leaves some points open. `x-relaydeck-basis` tells the two apart, for \
each part of each operation, parameter, field, status and header:

- `contract, section 2.4`: the contract shows it in this section.
- `ruling: …`: the contract leaves it open, and this service decides. The text after the colon names the row in the \
page "Open items" of Relaydeck's documentation (`docs/open-items.md`). A later edition of the contract may differ.

A field has up to four parts: its `presence` (required, optional, or left out when), its `type`, its `value` (which \
values of the type, in which unit; absent if any) and its `meaning`.

Every numeric status is a ruling, chosen by the meaning of its message; the messages are contract. An unknown path \
returns 404 with the message `Not Found`. A method that a path does not accept returns 405 with the message \
`Method Not Allowed` and an `Allow` header. Both have the error envelope. HEAD is accepted wherever GET is.

A request is checked in this order: 404 or 405 for the path, 401, 429, 413, 400, 404 for the resource, 409."""

_LIMITS = ruling("rate-limit values and window")
REVISIONS = ruling("visibility of a write on another replica")

HEADERS: dict[str, tuple[str, Words]] = {
    "X-Request-Id": (
        "Identifies this request in the service's log. The request's own `X-Request-Id` is kept when it has 1 to "
        "128 characters of `A-Z a-z 0-9 . _ : / + = @ -`.",
        ruling("`X-Request-Id`"),
    ),
    "Relaydeck-Reason": (
        "What exactly was wrong: at most 200 ASCII characters, with field names but never a value.",
        ruling("the reason for a refusal"),
    ),
    "RateLimit": (
        "Requests that remain (`r`) and seconds until the allowance is full again (`t`). Absent when no limit is set.",
        _LIMITS,
    ),
    "RateLimit-Policy": (
        "Size of the allowance (`q`) and the seconds to refill it (`w`). Absent when no limit is set.",
        _LIMITS,
    ),
    "Relaydeck-Revision": (
        "The revision of this write. A later request to any replica that sends it as `Relaydeck-Min-Revision` sees "
        "the write.",
        REVISIONS,
    ),
    "Relaydeck-Stale": (
        "Seconds since the database last responded. Present only while it is unreachable and the response comes from "
        "memory.",
        ruling("an unavailable database"),
    ),
    "Retry-After": ("Seconds until the next request is accepted.", STATUSES),
    "WWW-Authenticate": ("The required scheme.", STATUSES),
    "Allow": ("The methods that the path accepts.", UNKNOWN_PATHS),
}
MESSAGE = "x-relaydeck-message"  # the schema of the message of an error: in its body, each would be a type of its own
CODES = "x-relaydeck-codes"  # every code of a JSON-RPC error with its message and its meaning
_TYPE = shown("2.2").but(value=contract("2.2"))


def schemas() -> dict[str, Json]:
    """Every body of the interface by its name."""
    found = _derived()
    found["Signer"]["properties"]["type"]["enum"] = [response_type(kind) for kind in SHAPES]
    for schema in found.values():
        if schema.get("additionalProperties") is False:
            schema[BASIS] = {"no further fields": in_words(UNKNOWN_FIELDS)}
    found["RpcResponse"] |= {"minProperties": 3, "maxProperties": 3}
    found["RpcResponse"][BASIS] = {"one of result and error": in_words(FAILURES)}
    found["RpcError"][CODES] = _described_codes()
    return {name: for_tools(schema) for name, schema in sorted(found.items())}


def _derived() -> dict[str, Json]:
    requests = (wire.NotificationUpdate, FeeEstimateParams, _rpc_request())
    answers = _answers()
    (signer, *_), components = msgspec.json.schema_components(
        [wire.SignerRequest, *requests, *answers], schema_hook=secret_schema, ref_template=PLACE + "{name}"
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


def rpc_errors() -> dict[int, tuple[str, str]]:
    """Each code of a JSON-RPC error with its message and its meaning."""
    known = {METHOD_NOT_FOUND.code: (METHOD_NOT_FOUND.message, "The method is not `feeEstimate`.")}
    known |= {failure.code: (failure.message, failure.__doc__ or "") for failure in RpcFailure.__subclasses__()}
    return dict(sorted(known.items()))


def _described_codes() -> list[Json]:
    return [
        {"code": code, "message": message, "description": meaning} for code, (message, meaning) in rpc_errors().items()
    ]
