"""The OpenAPI 3.1 document: the five operations, their responses with examples, and the service's own paths.

A test holds the examples to the schemas.
"""

import re
from typing import Any

import msgspec

from pages.openapi.admin import LICENSE, errors_of
from pages.openapi.admin_schemas import Json, reference
from pages.openapi.contract_schemas import HEADERS, INTRODUCTION, MESSAGE, REVISIONS, schemas
from pages.openapi.names import operation_id, tag
from relaydeck import __version__
from relaydeck.api.operation import CONTRACT_OPERATIONS, Operation
from relaydeck.api.wire import FeeEstimateResult, NotificationUpdate, RpcError, RpcRequest, RpcResponse, Signer
from relaydeck.basis import (
    IDENTIFIER_FORM,
    LARGEST_PAGE,
    OTHER_OPERATIONS,
    PAGE_ZERO,
    STATUSES,
    TOKENS,
    UNKNOWN_PATHS,
    Basis,
    contract,
    in_words,
    shown,
)
from relaydeck.errors import RequestError, Trait, UnknownPath, WrongMethod
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fields import BASIS, example_of, fields_of
from relaydeck.http.envelope import Metadata, Pagination
from relaydeck.http.request import DEFAULT_PER_PAGE
from relaydeck.identifiers import Identifier
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import Relayer
from relaydeck.roles import describe_roles, roles_with
from relaydeck.signers.signer_types import SHAPES, SHOWN_FIELDS


def signer_requests() -> dict[str, dict[str, Any]]:
    """A request for each type; the first is the one that the page shows."""
    ordered = sorted(SHAPES, key=lambda kind: kind != "provider_c")
    return {kind: {"id": f"{kind}-1", "type": kind, "config": example_of(SHAPES[kind])} for kind in ordered}


_METADATA = example_of(Metadata)
_SIGNER = example_of(Signer)


def _example(record: type[msgspec.Struct], *hidden: str) -> Json:
    """Without the fields that the described interface does not have."""
    own = {field.name for field in fields_of(record) if field.traits.basis is None}
    return {name: value for name, value in example_of(record).items() if name not in {*own, *hidden}}


_PAGINATION = example_of(Pagination)


def _envelope(data: Any, **more: Any) -> dict[str, Any]:
    return {"data": data, "error": "", "metadata": _METADATA, **more, "success": True}


_REQUESTED = next(iter(signer_requests().values()))
_SHOWN = {name: value for name, value in _REQUESTED["config"].items() if name in SHOWN_FIELDS}
SIGNER_CREATED = _envelope({"id": _REQUESTED["id"], "type": _REQUESTED["type"], "config": _SHOWN})
SIGNERS_LISTED = _envelope([_SIGNER], pagination=_PAGINATION)
RELAYERS_LISTED = _envelope([_example(Relayer)], pagination=_PAGINATION)

NOTIFICATION_UPDATE = example_of(NotificationUpdate)
NOTIFICATION_UPDATED = _envelope(_example(Notification, "signing_key"))

FEE_REQUEST = example_of(RpcRequest) | {"params": example_of(FeeEstimateParams)}
_ANSWERED = example_of(RpcResponse)
FEE_ANSWERS: dict[str, dict[str, Any]] = {
    "result": _ANSWERED | {"result": example_of(FeeEstimateResult)},
    "error": _ANSWERED | {"error": example_of(RpcError)},
}

PATH_IDS = {"notification_id": "pager", "relayer_id": "sepolia-1"}


def failure(message: str) -> dict[str, Any]:
    return {"data": None, "message": message, "success": False}


_LIMIT_HEADERS = ("RateLimit", "RateLimit-Policy")
_NUMBERS = ("Retry-After", "Relaydeck-Revision", "Relaydeck-Stale")


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Relaydeck", "version": __version__, "license": LICENSE, "description": INTRODUCTION},
        "servers": [{"url": "/", "description": "The service that returned this document."}],
        "security": [{"bearer": []}],
        "tags": [
            {"name": "signers", "description": "Configurations that hold a key, or a reference to one."},
            {"name": "notifications", "description": "Webhooks that receive the events of relayers."},
            {
                "name": "relayers",
                "description": "An address on a network, with its signer and its policies.",
            },
            {
                "name": "service",
                "description": "Paths of the service itself. They require no credential.",
            },
        ],
        "paths": _contract_paths() | _service_paths(),
        "components": {
            "schemas": schemas(),
            "responses": {
                "UnknownPath": _failure(UnknownPath),
                "WrongMethod": _failure(WrongMethod),
            },
            "securitySchemes": {"bearer": _bearer()},
        },
    }


def _bearer() -> Json:
    return {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token that an operator created with `relaydeck token create NAME`, of kind "
        f"{describe_roles('`')}.",
        BASIS: {"header": in_words(contract("5")), "tokens": in_words(TOKENS)},
    }


def _contract_paths() -> Json:
    paths: Json = {}
    for each in CONTRACT_OPERATIONS:
        paths.setdefault(each.whole_path, {})[each.method.lower()] = _described(each)
    return paths


def _described(operation: Operation) -> Json:
    """The contract describes the operation; which kinds of credential it accepts is a ruling."""
    section = operation.section
    parameters = _paging(section) if operation.is_list else []
    if operation.has_identifier:
        parameters.append(_identifier(section, operation.path.split("/")[1][1:-1], tag(operation)[:-1]))
    if not operation.is_change:
        parameters.append(_min_revision())
    described: Json = {
        "operationId": operation_id(operation),
        "tags": [tag(operation)],
        "summary": operation.help,
        "description": operation.details,
        BASIS: {"method and path": in_words(contract(section)), "credentials": in_words(TOKENS)},
        "x-relaydeck-credentials": sorted(roles_with(operation.permission)),
    }
    if parameters:
        described["parameters"] = parameters
    if operation.request:
        described["requestBody"] = _body(*_REQUESTS[operation.name])
    return described | {"responses": _responses(operation)}


_REQUESTS: dict[str, tuple[str, dict[str, Json]]] = {
    "create_signer": ("SignerRequest", signer_requests()),
    "update_notification": ("NotificationUpdate", {"update": NOTIFICATION_UPDATE}),
    "relayer_rpc": ("RpcRequest", {"feeEstimate": FEE_REQUEST}),
}
_ANSWERS: dict[str, tuple[str, Json | None]] = {
    "list_signers": ("SignerListEnvelope", SIGNERS_LISTED),
    "create_signer": ("SignerEnvelope", SIGNER_CREATED),
    "update_notification": ("NotificationEnvelope", NOTIFICATION_UPDATED),
    "list_relayers": ("RelayerListEnvelope", RELAYERS_LISTED),
    "relayer_rpc": ("RpcResponse", None),
}


def _responses(operation: Operation) -> Json:
    answered = _success(*_ANSWERS[operation.name])
    if operation.name == "relayer_rpc":
        answered["content"]["application/json"]["examples"] = _as_examples(FEE_ANSWERS)
        answered["description"] = "The result of the method, or the error object."
    if operation.is_change:
        answered["headers"] |= _headers("Relaydeck-Revision")
    traits: list[Trait] = [operation.name]  # type: ignore[list-item]  # a list is none, and no error has it
    traits += ["limited"] if operation.limited else []
    traits += ["body"] if operation.request else []
    responses = {str(operation.status): answered} | _refusals(*traits)
    return _limited(responses) if operation.limited else _aged(responses)


def _paging(section: str) -> list[Json]:
    whole: Json = {"type": "integer", "minimum": 0}
    page = "Number of the page, from 1. 0 is the same as leaving it out."
    per_page = (
        "Items on a page. 0 is the same as leaving it out. A number above the maximum (a setting, 1000 by default) "
        "is reduced to it."
    )
    basis = shown(section).but(value=contract(section) + PAGE_ZERO)
    limited = basis.but(value=basis.value + LARGEST_PAGE)
    return [
        _parameter("query", "page", page, whole | {"default": 1}, basis),
        _parameter("query", "per_page", per_page, whole | {"default": DEFAULT_PER_PAGE}, limited),
    ]


def _identifier(section: str, name: str, record: str) -> Json:
    basis = shown(section).but(value=IDENTIFIER_FORM)
    text = (
        f"Identifier of the {record}. Percent-encoded where a path requires it; 1 to 255 characters, none a control "
        "character."
    )
    return _parameter("path", name, text, msgspec.json.schema(Identifier), basis) | {
        "required": True,
        "example": PATH_IDS[name],
    }


def _min_revision() -> Json:
    whole: Json = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 10**18 - 1}
    text = "The `Relaydeck-Revision` of a write: the response of any replica includes that write."
    ours = REVISIONS
    return _parameter("header", "Relaydeck-Min-Revision", text, whole, Basis(ours, ours, ours, ours))


def _parameter(place: str, name: str, text: str, schema: Json, basis: Basis) -> Json:
    return {"name": name, "in": place, "description": text, BASIS: basis.parts(), "schema": schema}


def _body(name: str, shown: dict[str, Json]) -> Json:
    content = {"schema": reference(name), "examples": _as_examples(shown)}
    return {"required": True, "content": {"application/json": content}}


def _as_examples(shown: dict[str, Json]) -> Json:
    return {name: {"value": value} for name, value in shown.items()}


def _success(name: str, example: Json | None) -> Json:
    content: Json = {"schema": reference(name)}
    if example is not None:
        content["example"] = example
    return {
        "description": "Success.",
        BASIS: {"status": in_words(STATUSES)},
        "headers": _headers("X-Request-Id"),
        "content": {"application/json": content},
    }


def _refusals(*traits: Trait) -> Json:
    return {str(error.status): _failure(error) for error in errors_of(*traits)}


def _failure(error: type[RequestError]) -> Json:
    reason = () if error.status >= 500 else ("Relaydeck-Reason",)
    unknown = error in (UnknownPath, WrongMethod)
    words = {"value": in_words(UNKNOWN_PATHS if unknown else contract("7"))}
    example = failure(error.example or error.message)
    return {
        "description": error.description,
        BASIS: {"status": in_words(UNKNOWN_PATHS if unknown else STATUSES)},
        MESSAGE: _message(error) | {BASIS: words},
        "headers": _headers("X-Request-Id", *reason, *error.described_headers),
        "content": {"application/json": {"schema": reference("ErrorEnvelope"), "example": example}},
    }


def message_pattern(error: type[RequestError]) -> str:
    """A regular expression for the messages of an error."""
    return "^" + re.sub(r"<[^>]+>", lambda _: r"[\s\S]+", error.message) + "$"


def _message(error: type[RequestError]) -> Json:
    return {"type": "string", **({"pattern": message_pattern(error)} if error.example else {"const": error.message})}


def _headers(*names: str) -> Json:
    return {name: _header(name, required=True) for name in names}


def _header(name: str, *, required: bool) -> Json:
    kind = "integer" if name in _NUMBERS else "string"
    text, words = HEADERS[name]
    return {"description": text, BASIS: {"header": in_words(words)}, "required": required, "schema": {"type": kind}}


def _limited(responses: Json) -> Json:
    """The credential is checked before its allowance: only a 401 has no such headers."""
    for status, response in responses.items():
        if status != "401":
            response["headers"] |= {name: _header(name, required=False) for name in _LIMIT_HEADERS}
    return _aged(responses)


def _aged(responses: Json) -> Json:
    for response in responses.values():
        response["headers"]["Relaydeck-Stale"] = _header("Relaydeck-Stale", required=False)
    return responses


def _service_paths() -> Json:
    ready = _text("The service is ready; the text says so if it serves from memory, without its database.")
    failing, stuck = (
        _text("The reason why it cannot serve."),
        _text("A worker does not respond, or does not end its start."),
    )
    writing, not_writing = _text("Every worker can write to the database."), _text("The reason why one cannot.")
    document = _response("application/json", "OpenAPI 3.1.", "object")
    page = _response("text/html", "One page without external resources.")
    return {
        "/healthz": _service_path("healthz", "Liveness", _text("The process is alive."), {"503": stuck}),
        "/readyz": _service_path("readyz", "Readiness", ready, {"503": failing}),
        "/writez": _service_path("writez", "Whether writes work", writing, {"503": not_writing}),
        "/metrics": _service_path("metrics", "Metrics", _text("Metrics in the Prometheus text format.")),
        "/openapi.json": _service_path("openapi", "This document", document),
        "/docs": _service_path("docs", "This document as a web page", page),
    }


def _service_path(name: str, summary: str, answer: Json, more: dict[str, Json] | None = None) -> Json:
    return {
        "get": {
            "operationId": name,
            "tags": ["service"],
            "summary": summary,
            BASIS: {"method and path": in_words(OTHER_OPERATIONS)},
            "security": [],
            "responses": {"200": answer, **(more or {})},
        }
    }


def _text(text: str) -> Json:
    return _response("text/plain", text)


def _response(media_type: str, text: str, kind: str = "string") -> Json:
    return {
        "description": text,
        BASIS: {"status": in_words(OTHER_OPERATIONS)},
        "headers": _headers("X-Request-Id"),
        "content": {media_type: {"schema": {"type": kind}}},
    }
