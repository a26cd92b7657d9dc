"""What the contract leaves open: what this server does, beside what Relaydeck does. A difference is not a failure."""

import uuid
from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, ruling
from relaydeck.conformance.probe import Answer, Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    TYPES,
    config,
    create,
    created,
    notification_path,
    rpc_call,
    rpc_path,
    signer_id,
    unknown_method,
)
from relaydeck.conformance.verdicts import Differs, NotChecked

_BAD_REQUEST = "Bad Request"


def _answered(answer: Answer, status: int, message: str = "") -> None:
    """For an open item: the report shows what was seen in either case."""
    seen = str(answer.status)
    body = answer.json
    text = str(body.get("message", "")) if isinstance(body, dict) else ""
    if answer.status != status or (message and text != message):
        raise Differs(f"{status} {message}".strip(), f"{seen} {text}".strip())


# Section 2


@ruling("2.1", "error on success")
def check_error_value(probe: Probe) -> str:
    shapes.equal(shapes.success(probe.signers, "a list").get("error"), "", "error")
    return '""'


@ruling("2.1", "items of metadata.traces")
def check_traces(probe: Probe) -> str:
    shapes.equal(shapes.success(probe.signers, "a list").get("metadata", {}).get("traces"), [], "traces")
    return "always []"


@ruling("2.1", "levels of a log entry")
def check_log_levels(probe: Probe) -> str:
    bodies = [answer.json for answer in probe.answers if isinstance(answer.json, dict)]
    logs = [entry for body in bodies for entry in (body.get("metadata") or {}).get("logs") or []]
    levels = sorted({str(entry.get("level")) for entry in logs if isinstance(entry, dict)})
    if not levels:
        raise NotChecked("no answer had a log entry")
    shapes.equal(levels, ["log"], "levels")
    return "log"


@ruling("2.2", "response type of a plain signer")
def check_plain_type(probe: Probe) -> str:
    shapes.equal(shapes.one(created(probe, "plain"), "a create").get("type"), "local", "type")
    return "local"


def _same_type(probe: Probe, kind: str) -> str:
    shapes.equal(shapes.one(created(probe, kind), "a create").get("type"), kind, "type")
    return kind


def _shown_config(probe: Probe, kind: str) -> str:
    sent, _ = config(kind)
    shown = {name: sent[name] for name in ("address", "key_name", "mount_point", "namespace") if name in sent}
    shapes.equal(shapes.one(created(probe, kind), "a create").get("config"), shown, "config")
    return f"{sorted(shown)}"


for each in TYPES:
    if each != "plain":
        add("2.2", "ruling", f"type-of-{each}", f"response type of {each}", partial(_same_type, kind=each))
    add("2.2", "ruling", f"config-of-{each}", f"response config of {each}", partial(_shown_config, kind=each))


@ruling("2.2", "version of a generated UUID")
def check_uuid_version(probe: Probe) -> str:
    name = str(shapes.one(create(probe, "plain"), "a create").get("id"))
    try:
        shapes.equal(uuid.UUID(name).version, 7, "version")
    except ValueError:
        raise Differs("a UUID of version 7", repr(name)) from None
    return "7"


@ruling("2.2", "an identifier with a slash, a blank and an emoji")
def check_odd_identifier(probe: Probe) -> str:
    name = f"{probe.name} a/b 🚀"
    shapes.equal(shapes.one(create(probe, "plain", id=name), "a create").get("id"), name, "id")
    return "kept as it is"


@ruling("2.2", "an empty identifier")
def check_empty_identifier(probe: Probe) -> str:
    _answered(create(probe, "plain", id=""), 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("2.2", "an unknown field in a body")
def check_unknown_field(probe: Probe) -> str:
    _answered(create(probe, "plain", colour="blue"), 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("2.2", "null for an optional field")
def check_null_id(probe: Probe) -> str:
    _answered(create(probe, "plain", id=None), 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("2.2", "a value of the right type that cannot work")
def check_unusable_key(probe: Probe) -> str:
    body = {"type": "plain", "config": {"key": "not a key"}}
    answer = probe.write("POST", SIGNERS, body)
    logs = shapes.success(answer, "a create with an unusable key").get("metadata", {}).get("logs")
    if not logs:
        raise Differs("accepted, with a hint in metadata.logs", "accepted without a hint")
    return "accepted, with a hint"


@ruling("2.3", "a url that is no absolute http(s) URL")
def check_bad_url(probe: Probe) -> str:
    answer = probe.write("PATCH", notification_path(probe.own_notification), {"url": "nowhere"})
    _answered(answer, 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("2.4", "relayer fields that are always present")
def check_relayer_presence(probe: Probe) -> str:
    optional = {"notification_id", "disabled_reason"}
    required = {
        "id",
        "name",
        "network",
        "network_type",
        "address",
        "signer_id",
        "paused",
        "system_disabled",
        "custom_rpc_urls",
        "policies",
    }
    missing = required - set(probe.relayer)
    if missing or set(probe.relayer) - required - optional:
        raise Differs(f"all of {sorted(required)}", f"{sorted(probe.relayer)}")
    return "all but notification_id and disabled_reason"


# Section 4


@ruling("4.2", "order of a list")
def check_list_order(probe: Probe) -> str:
    created(probe, "plain")
    second = create(probe, "plain", id=f"{signer_id(probe, 'plain')}-later")
    name = shapes.one(second, "a create").get("id")
    total = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page=1"), "a list")["total_items"]
    last = shapes.many(probe.ask("GET", f"{SIGNERS}?per_page=1&page={total}"), "the last page")
    shapes.equal([each.get("id") for each in last], [name], "the last item is the newest")
    return "oldest first"


def _effective(probe: Probe, query: str, field: str, expected: int) -> str:
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?{query}"), f"a list with {query}")
    shapes.equal(at[field], expected, f"{field} with {query}")
    return f"{field} {expected}"


add(
    "4.2",
    "ruling",
    "page-0-means",
    "what page=0 means",
    partial(_effective, query="page=0", field="current_page", expected=1),
)
add(
    "4.2",
    "ruling",
    "per-page-0-means",
    "what per_page=0 means",
    partial(_effective, query="per_page=0", field="per_page", expected=10),
)


@ruling("4.2", "a page past the end")
def check_past_the_end(probe: Probe) -> str:
    answer = probe.ask("GET", f"{SIGNERS}?page=999999")
    shapes.equal(shapes.many(answer, "a page past the end"), [], "items")
    total = shapes.pagination(probe.signers, "a list")["total_items"]
    if shapes.pagination(answer, "a page past the end")["total_items"] < total:
        raise Differs("the true total", answer.shown)
    return "empty, with the true total"


@ruling("4.2", "a parameter given twice")
def check_repeated_parameter(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?page=1&page=1"), 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("4.2", "an unknown query name")
def check_unknown_query(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?colour=blue"), 200)
    return "ignored"


@ruling("4", "a body with another content type")
def check_other_content_type(probe: Probe) -> str:
    answer = probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call(), headers={"Content-Type": "text/plain"})
    _answered(answer, 400, _BAD_REQUEST)
    return "Bad Request"


@ruling("4.5", "a method that does not exist")
def check_unknown_method(probe: Probe) -> str:
    answer = unknown_method(probe)
    _answered(answer, 200)
    shapes.equal((answer.json.get("error") or {}).get("code"), -32601, "code")
    return "200 with code -32601"


@ruling("4.5", "params that do not fit")
def check_wrong_params(probe: Probe) -> str:
    answer = probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call("feeEstimate"))
    _answered(answer, 200)
    shapes.equal((answer.json.get("error") or {}).get("code"), -32602, "code")
    return "200 with code -32602"


@ruling("4.5", "result and error in one response")
def check_result_or_error(probe: Probe) -> str:
    body = unknown_method(probe).json
    shapes.equal(sorted(set(body) & {"result", "error"}), ["error"], "of result and error")
    return "exactly one"


def _id_text(probe: Probe, sent: Any, expected: str | None) -> str:
    answer = probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call(id=sent))
    shapes.equal((answer.json or {}).get("id"), expected, f"id for {sent!r}")
    return repr(expected)


for name, given, text in (("number", 7, "7"), ("string", "a-b", "a-b"), ("null", None, None)):
    add(
        "4.5",
        "ruling",
        f"rpc-id-{name}",
        f"response id for a request id that is a {name}",
        partial(_id_text, sent=given, expected=text),
    )


def _rpc_answered(probe: Probe, body: Any) -> str:
    _answered(probe.ask("POST", rpc_path(probe.relayer["id"]), body), 400, _BAD_REQUEST)
    return "Bad Request"


add("4.5", "ruling", "rpc-batch", "a batch", partial(_rpc_answered, body=[rpc_call()]))
add(
    "4.5", "ruling", "rpc-other-version", "jsonrpc other than 2.0", partial(_rpc_answered, body=rpc_call(jsonrpc="1.0"))
)
add("4.5", "ruling", "rpc-boolean-id", "a request id that is a boolean", partial(_rpc_answered, body=rpc_call(id=True)))
add("4.5", "ruling", "rpc-unknown-member", "an unknown member", partial(_rpc_answered, body=rpc_call(colour="blue")))


# Sections 5 to 9


@ruling("5", "a readonly token may list")
def check_readonly_lists(probe: Probe) -> str:
    _answered(probe.ask("GET", RELAYERS, token=_readonly(probe)), 200)
    return "200"


@ruling("5", "a readonly token on any other operation")
def check_readonly_refused(probe: Probe) -> str:
    answer = probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call(), token=_readonly(probe))
    _answered(answer, 401, "Unauthorized")
    return "Unauthorized"


def _readonly(probe: Probe) -> str:
    if not probe.target.readonly_token:
        raise NotChecked("needs --readonly-token")
    return probe.target.readonly_token


@ruling("7", "status of a list")
def check_status_list(probe: Probe) -> str:
    _answered(probe.signers, 200)
    return "200"


@ruling("7", "status of a create")
def check_status_create(probe: Probe) -> str:
    _answered(created(probe, "plain"), 201)
    return "201"


@ruling("7", "status of Bad Request")
def check_status_bad_request(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?page=-1"), 400)
    return "400"


@ruling("7", "status of Unauthorized")
def check_status_unauthorized(probe: Probe) -> str:
    answer = probe.ask("GET", SIGNERS, token="")
    _answered(answer, 401)
    shapes.equal(answer.headers.get("www-authenticate"), "Bearer", "WWW-Authenticate")
    return "401, WWW-Authenticate: Bearer"


@ruling("7", "status of an unknown relayer")
def check_status_no_relayer(probe: Probe) -> str:
    _answered(probe.ask("POST", rpc_path(f"{probe.name}-nobody"), rpc_call()), 404)
    return "404"


@ruling("7", "status of an unknown notification")
def check_status_no_notification(probe: Probe) -> str:
    _answered(probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {}), 404)
    return "404"


@ruling("7", "status of a taken id")
def check_status_duplicate(probe: Probe) -> str:
    created(probe, "plain")
    _answered(create(probe, "plain", id=signer_id(probe, "plain")), 409)
    return "409"


@ruling("7", "an unknown path")
def check_unknown_path(probe: Probe) -> str:
    _answered(probe.ask("GET", f"/api/v1/{probe.name}"), 404)
    return "404"


@ruling("7", "a method that a path does not take")
def check_wrong_method(probe: Probe) -> str:
    _answered(probe.write("DELETE", SIGNERS, b""), 405)
    return "405"


@ruling("7", "where the reason of a Bad Request is given")
def check_reason(probe: Probe) -> str:
    answer = probe.ask("GET", f"{SIGNERS}?page=-1")
    if not answer.headers.get("relaydeck-reason"):
        raise Differs("header Relaydeck-Reason", "no such header")
    return "header Relaydeck-Reason"


@ruling("8", "a per_page that is very large")
def check_large_page(probe: Probe) -> str:
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page=1000000000"), "a list with a very large per_page")
    if at["per_page"] >= 1_000_000_000:
        raise Differs("reduced to a largest page", f"per_page {at['per_page']}")
    return f"reduced to {at['per_page']}"


@ruling("8", "headers that tell the rate limit")
def check_limit_headers(probe: Probe) -> str:
    if "ratelimit" not in probe.relayers.headers:
        raise Differs("RateLimit and RateLimit-Policy", "none")
    return f"RateLimit-Policy {probe.relayers.headers.get('ratelimit-policy')}"
