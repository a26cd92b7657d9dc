"""The OpenAPI 3.1 document of `/admin/v1`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from pages.openapi.admin_schemas import Json, envelope, examples, for_tools, reference, schemas
from pages.openapi.names import RECORDS, operation_id, schema_name, tag
from relaydeck import __version__
from relaydeck.api.list_filters import Parameter
from relaydeck.api.operation import Operation
from relaydeck.api.operations import IDEMPOTENCY_KEY, OPERATIONS
from relaydeck.api.records import Proposal, Signer
from relaydeck.errors import RequestError, Trait, request_errors
from relaydeck.http.envelope import problem_of
from relaydeck.identifiers import Identifier
from relaydeck.roles import describe_roles, roles_with

_INTRODUCTION = """\
Manages networks, signers, notifications, relayers and tokens, and shows events, their deliveries and the audit log. \
Every operation requires a bearer credential with one of the roles that it names; another role gets a 403.

A POST may have an `Idempotency-Key`: for 24 hours, the same request with the same key gets the same response and has \
no further effect; with another path or body it gets a 422. The response for a single record has an `ETag`. A PATCH or \
DELETE with `If-Match` gets a 412 when the record has changed.

Every error has problem details (RFC 9457) as its body: `detail` states what exactly was wrong. HEAD is accepted \
wherever GET is."""


def errors_of(*traits: Trait) -> list[type[RequestError]]:
    """The errors that an operation with these traits can answer with, by status."""
    found = [error for error in request_errors() if error.traits & {"any", *traits}]
    return sorted(found, key=lambda error: error.status)


LICENSE = {"name": "Apache 2.0", "identifier": "Apache-2.0"}
_TAGS = {
    "networks": "Chains: their nodes, and the tokens that can pay a fee.",
    "signers": "Configurations that hold a key. A signer cannot be changed, and its secrets are never shown.",
    "notifications": "Webhooks that receive the events of relayers.",
    "relayers": "An address on a network, with its signer and its policies.",
    "provisioning": "All records at once, from and to an apply file. The body of `apply` has a limit of its own,"
    " `RELAYDECK_APPLY_MAX_BODY_BYTES` (32 MiB by default).",
    "tokens": "Access tokens.",
    "events": "Events and their deliveries.",
    "audit": "The audit log: every change and who made it.",
    "problems": "What is wrong now, by cause, and who takes care of it.",
    "protections": "What is protected: its changes need approval.",
    "proposals": "Changes that need approval, and who decided.",
    "doctor": "The checks of `relaydeck doctor`: files, database, sealed values, nodes, signers and the fleet.",
}


def document() -> Json:
    paths: Json = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.whole_path, {})[operation.method.lower()] = _described(operation)
    bearer = {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token: `relaydeck token create NAME --role owner`."
        f" Its role, the field `kind`, is {describe_roles('`')}.",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Relaydeck admin", "version": __version__, "license": LICENSE, "description": _INTRODUCTION},
        "servers": [{"url": "/", "description": "The service that returned this document."}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"bearer": bearer}},
    }


def _schemas() -> dict[str, Json]:
    found = schemas()
    for operation in OPERATIONS:
        found[_envelope_name(operation)] = envelope(
            _data(operation), paged=operation.is_paged, is_list=operation.is_list
        )
    return {name: for_tools(schema) for name, schema in sorted(found.items())}


def _envelope_name(operation: Operation) -> str:
    return f"{schema_name(operation.response) or 'Empty'}{'List' if operation.is_list else ''}Envelope"


def _data(operation: Operation) -> Json:
    if operation.response is None:
        return {"type": "null", "description": "Always null."}
    item = reference(schema_name(operation.response))
    return {"type": "array", "items": item, "description": "The records."} if operation.is_list else item


def _request_name(operation: Operation) -> str:
    name = schema_name(operation.request)
    return f"{name}{'Patch' if operation.method == 'PATCH' else 'Request'}" if operation.request in RECORDS else name


def _described(operation: Operation) -> Json:
    found: Json = {
        "operationId": operation_id(operation),
        "tags": [tag(operation)],
        "summary": operation.help,
        "x-relaydeck-credentials": sorted(roles_with(operation.permission)),
        "parameters": _parameters(operation),
        "responses": {str(operation.status): _answered(operation), **_proposed(operation), **_refusals(operation)},
    }
    if operation.request:
        name = _request_name(operation)
        content = {"schema": reference(name), "example": examples()[name]}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _parameters(operation: Operation) -> list[Json]:
    found = [_query_parameter(each) for each in operation.query]
    text = {"type": "string"}
    if operation.has_identifier:
        meaning = "Identifier of the record, percent-encoded where a path requires it."
        which = _parameter("path", "id", meaning, msgspec.json.schema(Identifier))
        found.append(which | {"required": True, "example": "sepolia-1"})
    if operation.is_repeatable:
        key = {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY}$"}
        found.append(_parameter("header", "Idempotency-Key", "Makes it safe to repeat the request for 24 hours.", key))
    if operation.conditional:
        pinned = "The `revision` of the plan that was reviewed."
        kept = "The `ETag` that the record must still have."
        found.append(_parameter("header", "If-Match", pinned if operation.name == "apply" else kept, text))
    return found


def _query_parameter(declared: Parameter) -> Json:
    """A value that is empty, as a form sends it, is left out; a number of a page is not, and may have any length."""
    is_page = declared.name in ("page", "per_page")
    schema: Json = {"type": "string"}
    if declared.is_integer:
        schema = {"type": "integer", "minimum": 0} | ({} if is_page else {"format": "int64", "maximum": 10**18 - 1})
    elif declared.choices:
        schema = {"type": "string", "enum": list(declared.choices)}
    found = _parameter("query", declared.name, declared.description, schema | dict(declared.schema))
    if declared.example:
        found["example"] = int(declared.example) if declared.is_integer else declared.example
    return found if is_page else found | {"allowEmptyValue": True}


def _parameter(place: str, name: str, text: str, schema: Json) -> Json:
    return {"name": name, "in": place, "description": text, "schema": schema}


def _answered(operation: Operation) -> Json:
    content = {"schema": reference(_envelope_name(operation))}
    if (example := examples().get(schema_name(operation.response))) is not None:
        metadata: Json = {"logs": [], "traces": []}
        content["example"] = {"data": example, "error": "", "metadata": metadata, "success": True}
    single = operation.response in (*RECORDS, Signer) and not operation.is_list
    headers = {"ETag": "Changes with the record."} if single else {}
    if operation.is_change:
        headers["Relaydeck-Revision"] = "The revision of this write, for `Relaydeck-Min-Revision` on `/api/v1`."
    return _response("Success.", content, headers)


def _proposed(operation: Operation) -> Json:
    if not operation.may_need_two:
        return {}
    text = "Nothing has changed: a record is protected, and the change waits for the approval of another."
    return {"202": _response(text, {"schema": reference(f"{Proposal.__name__}Envelope")}, {})}


def _refusals(operation: Operation) -> Json:
    by_status: dict[int, list[type[RequestError]]] = {}
    for error in errors_of(*_traits(operation)):
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _refusal(errors) for status, errors in by_status.items()}


def _traits(operation: Operation) -> Iterator[Trait]:
    yield "admin"
    if operation.has_identifier:
        yield "identifier"
    if operation.is_change:
        yield "change"
    if operation.conditional and operation.name != "apply":
        yield "conditional"
    if operation.request:
        yield "body"
    if operation.name in ("apply", "approve_proposal", "force_proposal"):
        yield "apply"
    if operation.is_repeatable:
        yield "repeatable"


def _refusal(errors: list[type[RequestError]]) -> Json:
    text = " ".join(error.description for error in errors)
    example = msgspec.to_builtins(problem_of(errors[0], "5f0c8a1e9b7d-2a"))
    found = _response(text, {"schema": reference("Problem"), "example": example}, {})
    return found | {"content": {"application/problem+json": found["content"]["application/json"]}}


def _response(text: str, content: Json, headers: dict[str, str]) -> Json:
    described: dict[str, Any] = {
        name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in headers.items()
    }
    return {"description": text, "headers": described, "content": {"application/json": content}}
