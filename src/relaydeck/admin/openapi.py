"""The OpenAPI 3.1 document of `/admin/v1`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from relaydeck import __version__
from relaydeck.admin.balances import BALANCE_PARAMETERS, FIRST_PARAMETERS, Parameter
from relaydeck.admin.filters import FILTERS, Filter
from relaydeck.admin.routes import ROOT
from relaydeck.admin.schemas import Json, envelope, examples, reference, schemas
from relaydeck.credentials.kinds import kinds_with
from relaydeck.errors import RequestError, Trait, errors_of
from relaydeck.http.error_body import problem_of

_INTRODUCTION = """\
Manages networks, signers, notifications, relayers and tokens, and shows events, their deliveries and the audit log. \
Every operation requires a bearer credential of kind `admin`; another kind gets a 403.

A POST may have an `Idempotency-Key`: for 24 hours, the same request with the same key gets the same response and has \
no further effect; with another path or body it gets a 422. The response for a single record has an `ETag`. A PATCH or \
DELETE with `If-Match` gets a 412 when the record has changed.

Every error has problem details (RFC 9457) as its body: `detail` states what exactly was wrong. HEAD is accepted \
wherever GET is."""

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
    "doctor": "The checks of `relaydeck doctor`: files, database, sealed values, nodes, signers and the fleet.",
}


class Operation(NamedTuple):
    method: str
    path: str
    name: str
    summary: str
    answer: str  # name of the schema of `data`; empty: null
    body: str = ""
    listed: bool = False
    paged: bool = False
    status: int = 200
    query: tuple[Parameter, ...] = ()  # besides the filters of a list
    changes: bool = True  # whether a POST changes something

    @property
    def is_change(self) -> bool:
        return self.method != "get" and self.changes

    @property
    def tag(self) -> str:
        first = self.path.split("/")[0]
        return {
            "deliveries": "events",
            "signer-drivers": "signers",
            "runways": "relayers",
            "apply": "provisioning",
            "export": "provisioning",
        }.get(first, first)


def _resource(plural: str, name: str, *, changeable: bool = True) -> list[Operation]:
    one, word = f"{plural}/{{id}}", name.lower()
    found = [
        Operation("get", plural, f"list{name}s", f"List {plural}", name, listed=True, paged=True),
        Operation("post", plural, f"create{name}", f"Create a {word}", name, f"{name}Request", status=201),
        Operation("get", one, f"get{name}", f"Read a {word}", name),
        Operation("delete", one, f"delete{name}", f"Delete a {word}", ""),
    ]
    if changeable:
        found.insert(3, Operation("patch", one, f"update{name}", f"Change a {word}", name, f"{name}Patch"))
    return found


OPERATIONS = [
    *_resource("networks", "Network"),
    *_resource("signers", "Signer", changeable=False),
    Operation("post", "signers/{id}/check", "checkSigner", "Check that a signer reaches its key", "SignerCheckReport"),
    Operation("get", "signer-drivers", "listSignerDrivers", "List the bound drivers", "SignerDriver", listed=True),
    *_resource("notifications", "Notification"),
    Operation("post", "notifications/{id}/test", "testNotification", "Send a test event", "Event", status=201),
    *_resource("relayers", "Relayer"),
    Operation("post", "relayers/{id}/pause", "pauseRelayer", "Pause a relayer", "Relayer"),
    Operation("post", "relayers/{id}/resume", "resumeRelayer", "Resume a relayer", "Relayer"),
    Operation(
        "get",
        "relayers/{id}/why",
        "explainRelayer",
        "Explain a relayer's state",
        "Explanation",
        query=(Parameter("probe", "Whether to call each node now: true (the default) or false.", "true"),),
    ),
    Operation(
        "get",
        "relayers/{id}/balances",
        "getRelayerBalances",
        "Read a relayer's balance history",
        "BalanceHistory",
        query=BALANCE_PARAMETERS,
    ),
    Operation(
        "post",
        "relayers/{id}/estimate",
        "explainEstimate",
        "Estimate a fee and show every step",
        "EstimateReport",
        "EstimateRequest",
        changes=False,
    ),
    Operation("get", "relayers/{id}/runway", "getRelayerRunway", "Forecast how long a balance lasts", "Runway"),
    Operation("get", "runways", "listRunways", "List what runs out first", "FirstRunways", query=FIRST_PARAMETERS),
    Operation("post", "apply", "apply", "Make the records match a document", "ApplyReport", "ApplyRequest"),
    Operation("get", "export", "export", "Write the records as an apply file", "ExportedFile"),
    Operation("get", "tokens", "listTokens", "List tokens", "Token", listed=True, paged=True),
    Operation("post", "tokens", "createToken", "Issue a token", "NewToken", "TokenRequest", status=201),
    Operation("delete", "tokens/{id}", "revokeToken", "Revoke a token", ""),
    Operation("get", "events", "listEvents", "List events", "Event", listed=True),
    Operation("get", "events/{id}", "getEvent", "Read an event", "Event"),
    Operation("get", "deliveries", "listDeliveries", "List deliveries", "Delivery", listed=True),
    Operation("get", "deliveries/{id}", "getDelivery", "Read a delivery with every attempt", "DeliveryWithAttempts"),
    Operation("post", "deliveries/{id}/replay", "replayDelivery", "Send a delivery again", "DeliveryWithAttempts"),
    Operation("post", "deliveries/replay", "replayDead", "Send every dead delivery again", "Replayed"),
    Operation("get", "audit", "listAudit", "List changes", "AuditEntry", listed=True, paged=True),
    Operation("get", "audit/head", "getAuditHead", "Read the head of the audit log", "AuditHead"),
    Operation(
        "get",
        "audit/verify",
        "verifyAudit",
        "Verify every link of the audit log",
        "AuditVerification",
        query=(Parameter("head", "An earlier head, which the log must contain.", "7:" + "c0ffee00" * 8),),
    ),
    Operation("get", "doctor", "runDoctor", "Check the service and what it depends on", "DoctorFinding", listed=True),
]


def document() -> Json:
    paths: Json = {}
    for operation in OPERATIONS:
        paths.setdefault(f"{ROOT}/{operation.path}", {})[operation.method] = _described(operation)
    bearer = {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token of kind `admin`: `relaydeck token create NAME --kind admin`.",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Relaydeck admin", "version": __version__, "description": _INTRODUCTION},
        "servers": [{"url": "/", "description": "The service that returned this document."}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"bearer": bearer}},
    }


def _schemas() -> dict[str, Json]:
    found = schemas()
    for operation in OPERATIONS:
        if operation.answer:
            found[_envelope_name(operation)] = envelope(_data(operation), paged=operation.paged)
    return dict(sorted(found.items()))


def _envelope_name(operation: Operation) -> str:
    return f"{operation.answer}{'List' if operation.listed else ''}Envelope"


def _data(operation: Operation) -> Json:
    item = reference(operation.answer)
    return {"type": "array", "items": item, "description": "The records."} if operation.listed else item


def _described(operation: Operation) -> Json:
    found: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "x-relaydeck-credentials": kinds_with("manage"),
        "parameters": _parameters(operation),
        "responses": {str(operation.status): _answered(operation), **_refusals(operation)},
    }
    if operation.body:
        content = {"schema": reference(operation.body), "example": examples()[operation.body]}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _parameters(operation: Operation) -> list[Json]:
    found = _list_parameters(operation) if operation.listed else []
    text = {"type": "string"}
    for each in operation.query:
        found.append(_parameter("query", each.name, each.description, text) | {"example": each.example})
    if "{id}" in operation.path:
        which = _parameter("path", "id", "Identifier of the record, percent-encoded where a path requires it.", text)
        found.append(which | {"required": True, "example": "sepolia-1"})
    if operation.method == "post" and operation.changes:
        found.append(_parameter("header", "Idempotency-Key", "Makes it safe to repeat the request for 24 hours.", text))
    if operation.method in ("patch", "delete") and operation.tag != "tokens":
        found.append(_parameter("header", "If-Match", "The `ETag` that the record must still have.", text))
    if operation.name == "apply":
        found.append(_parameter("header", "If-Match", "The `revision` of the plan that was reviewed.", text))
    return found


def _list_parameters(operation: Operation) -> list[Json]:
    whole: Json = {"type": "integer", "minimum": 0}
    found = [
        _parameter("query", each.name, each.description, _filter_schema(each))
        for each in FILTERS.get(operation.path, ())
    ]
    if operation.paged:
        found.append(_parameter("query", "page", "As on `/api/v1`.", whole))
    if operation.listed:
        order = {"type": "string", "enum": ["oldest", "newest"]}
        found.append(_parameter("query", "order", "`newest`: newest first.", order))
        found.append(_parameter("query", "per_page", "As on `/api/v1`.", whole))
    return found


def _filter_schema(declared: Filter) -> Json:
    if declared.whole:
        return {"type": "integer", "minimum": 0}
    return {"type": "string", "enum": list(declared.choices)} if declared.choices else {"type": "string"}


def _parameter(place: str, name: str, text: str, schema: Json) -> Json:
    return {"name": name, "in": place, "description": text, "schema": schema}


def _answered(operation: Operation) -> Json:
    null = envelope({"type": "null", "description": "Always null."})
    content = {"schema": reference(_envelope_name(operation)) if operation.answer else null}
    if (example := examples().get(operation.answer)) is not None:
        metadata: Json = {"logs": [], "traces": []}
        content["example"] = {"data": example, "error": "", "metadata": metadata, "success": True}
    single = operation.answer in ("Network", "Signer", "Notification", "Relayer") and not operation.listed
    headers = {"ETag": "Changes with the record."} if single else {}
    if operation.is_change:
        headers["Relaydeck-Revision"] = "The revision of this write, for `Relaydeck-Min-Revision` on `/api/v1`."
    return _response("Success.", content, headers)


def _refusals(operation: Operation) -> Json:
    by_status: dict[int, list[type[RequestError]]] = {}
    for error in errors_of(*_traits(operation)):
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _refusal(errors) for status, errors in by_status.items()}


def _traits(operation: Operation) -> Iterator[Trait]:
    yield "admin"
    if "{id}" in operation.path:
        yield "identifier"
    if operation.is_change:
        yield "change"
    if operation.method in ("patch", "delete") and operation.tag != "tokens":
        yield "conditional"
    if operation.body:
        yield "body"
    if operation.name == "apply":
        yield "apply"
    if operation.method == "post" and operation.changes:
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
