"""The OpenAPI 3.1 document: the five operations, their responses, and the service's own paths at the root."""

import msgspec

from relaydeck import __version__
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
from relaydeck.contract import examples, wording
from relaydeck.contract.routes import NOTIFICATIONS, RELAYERS, SIGNERS
from relaydeck.contract.schemas import Json, reference, schemas
from relaydeck.credentials.kinds import Permission, describe_kinds, kinds_with
from relaydeck.errors import RequestError, Trait, UnknownPath, WrongMethod, errors_of, message_pattern
from relaydeck.fields import BASIS
from relaydeck.http.paging import DEFAULT_PER_PAGE
from relaydeck.identifiers import Identifier

_LIMIT_HEADERS = ("RateLimit", "RateLimit-Policy")
_NUMBERS = ("Retry-After", "Relaydeck-Revision", "Relaydeck-Stale")


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Relaydeck", "version": __version__, "description": wording.INTRODUCTION},
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
        f"{describe_kinds('`')}.",
        BASIS: {"header": in_words(contract("5")), "tokens": in_words(TOKENS)},
    }


def _contract_paths() -> Json:
    return {
        SIGNERS: {"get": _list_signers(), "post": _create_signer()},
        NOTIFICATIONS + "/{notification_id}": {"patch": _update_notification()},
        RELAYERS: {"get": _list_relayers()},
        RELAYERS + "/{relayer_id}/rpc": {"post": _relayer_rpc()},
    }


def _list_signers() -> Json:
    return {
        "operationId": "listSigners",
        "tags": ["signers"],
        "summary": "List signers",
        "description": "Signers in the order they were created, oldest first.",
        **_described("4.2", "list"),
        "parameters": [*_paging("4.2"), _min_revision()],
        "responses": _aged(
            {
                "200": _success("SignerListEnvelope", examples.SIGNERS_LISTED),
                **_refusals(),
            }
        ),
    }


def _create_signer() -> Json:
    return {
        "operationId": "createSigner",
        "tags": ["signers"],
        "summary": "Create a signer",
        "description": "Stores a signer. The response is sent when the signer is on disk, with its secrets "
        "encrypted. A value of the right type that cannot work is stored too, with a hint in `metadata.logs`.",
        **_described("4.1", "call"),
        "requestBody": _body("SignerRequest", examples.signer_requests()),
        "responses": _aged(
            {
                "201": _written(_success("SignerEnvelope", examples.SIGNER_CREATED)),
                **_refusals("create_signer", "body"),
            }
        ),
    }


def _update_notification() -> Json:
    return {
        "operationId": "updateNotification",
        "tags": ["notifications"],
        "summary": "Update a notification",
        "description": "Changes the fields in the body and leaves the others as they are.",
        **_described("4.3", "call"),
        "parameters": [_identifier("4.3", "notification_id", "Identifier of the notification.")],
        "requestBody": _body("NotificationUpdate", {"update": examples.NOTIFICATION_UPDATE}),
        "responses": _aged(
            {
                "200": _written(_success("NotificationEnvelope", examples.NOTIFICATION_UPDATED)),
                **_refusals("update_notification", "body"),
            }
        ),
    }


def _list_relayers() -> Json:
    return {
        "operationId": "listRelayers",
        "tags": ["relayers"],
        "summary": "List relayers",
        "description": "Relayers in the order they were created, oldest first. Rate-limited.",
        **_described("4.4", "list"),
        "parameters": [*_paging("4.4"), _min_revision()],
        "responses": _limited(
            {
                "200": _success("RelayerListEnvelope", examples.RELAYERS_LISTED),
                **_refusals("limited"),
            }
        ),
    }


def _relayer_rpc() -> Json:
    answered = _success("RpcResponse", None)
    answered["content"]["application/json"]["examples"] = _as_examples(examples.FEE_ANSWERS)
    answered["description"] = "The result of the method, or the error object."
    return {
        "operationId": "relayerRpc",
        "tags": ["relayers"],
        "summary": "Run a JSON-RPC call through a relayer",
        "description": "`feeEstimate` is the only method. A body that is not a JSON-RPC request is a Bad Request. A "
        "failure of a valid request is in the `error` object of the response, with status 200. Rate-limited, with the "
        "same allowance as the list of relayers.",
        **_described("4.5", "call"),
        "parameters": [_identifier("4.5", "relayer_id", "Identifier of the relayer."), _min_revision()],
        "requestBody": _body("RpcRequest", {"feeEstimate": examples.FEE_REQUEST}),
        "responses": _limited(
            {
                "200": answered,
                **_refusals("relayer_rpc", "limited", "body"),
            }
        ),
    }


def _described(section: str, permission: Permission) -> Json:
    """The contract describes the operation; which kinds of credential it accepts is a ruling."""
    basis = {"method and path": in_words(contract(section)), "credentials": in_words(TOKENS)}
    return {BASIS: basis, "x-relaydeck-credentials": kinds_with(permission)}


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


def _identifier(section: str, name: str, text: str) -> Json:
    basis = shown(section).but(value=IDENTIFIER_FORM)
    limits = " Percent-encoded where a path requires it; 1 to 255 characters, none a control character."
    return _parameter("path", name, text + limits, msgspec.json.schema(Identifier), basis) | {
        "required": True,
        "example": examples.PATH_IDS[name],
    }


def _min_revision() -> Json:
    whole: Json = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    text = "The `Relaydeck-Revision` of a write: the response of any replica includes that write."
    ours = wording.REVISIONS
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
    schema = {"allOf": [reference("ErrorEnvelope"), {"properties": {"message": _message(error) | {BASIS: words}}}]}
    example = examples.failure(error.example or error.message)
    return {
        "description": error.description,
        BASIS: {"status": in_words(UNKNOWN_PATHS if unknown else STATUSES)},
        "headers": _headers("X-Request-Id", *reason, *error.described_headers),
        "content": {"application/json": {"schema": schema, "example": example}},
    }


def _message(error: type[RequestError]) -> Json:
    return {"pattern": message_pattern(error)} if error.example else {"const": error.message}


def _headers(*names: str) -> Json:
    return {name: _header(name, required=True) for name in names}


def _header(name: str, *, required: bool) -> Json:
    kind = "integer" if name in _NUMBERS else "string"
    text, words = wording.HEADERS[name]
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


def _written(response: Json) -> Json:
    response["headers"] |= _headers("Relaydeck-Revision")
    return response


def _service_paths() -> Json:
    ready = _text("The service is ready; the text says so if it serves from memory, without its database.")
    failing, stuck = (
        _text("The reason why it cannot serve."),
        _text("A worker does not respond, or does not end its start."),
    )
    document = _response("application/json", "OpenAPI 3.1.", "object")
    page = _response("text/html", "One page without external resources.")
    return {
        "/healthz": _service_path("healthz", "Liveness", _text("The process is alive."), {"503": stuck}),
        "/readyz": _service_path("readyz", "Readiness", ready, {"503": failing}),
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
