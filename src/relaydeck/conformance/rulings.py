"""What the contract leaves open: what this server does, beside what Relaydeck does. A difference is not a failure."""

import uuid
from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, ruling
from relaydeck.conformance.probe import Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    TYPES,
    call,
    config,
    create,
    created,
    created_without_id,
    fee_estimate,
    find,
    is_rpc,
    notification_path,
    page,
    post_signer,
    rpc_call,
    rpc_path,
    scratch_url,
    signer_id,
    some_relayer,
    unknown_method,
    update,
)
from relaydeck.conformance.section_4 import BAD_REQUEST, two_pages
from relaydeck.conformance.section_5_to_9 import UNAUTHORIZED
from relaydeck.conformance.shapes import (
    Answer,
    DidNotOccur,
    Differs,
    NotChecked,
    field,
    objects,
)

_LARGE_PAGE = 1_000_000_000
_MOST_ITEMS = 1000  # of a list that is asked for as one page


def _answered(answer: Answer, status: int, message: str = "") -> str:
    """For an open item: the report shows what was seen in either case."""
    text = field(answer.json, "message")
    if answer.status != status or (message and text != message):
        raise Differs(f"{status} {message}".strip(), f"{answer.status} {text if isinstance(text, str) else ''}".strip())
    return message or str(status)


# Section 2


@ruling("2.1", "error on success")
def check_error_value(probe: Probe) -> str:
    shapes.equal(shapes.success(probe.signers, "a list").get("error"), "", "error")
    return '""'


@ruling("2.1", "metadata on success")
def check_metadata_present(probe: Probe) -> str:
    if not isinstance(field(shapes.success(probe.signers, "a list"), "metadata"), dict):
        raise Differs("always present", "none")
    return "always present"


@ruling("2.1", "items of metadata.traces")
def check_traces(probe: Probe) -> str:
    shapes.equal(field(shapes.success(probe.signers, "a list"), "metadata", "traces"), [], "traces")
    return "always []"


@ruling("2.1", "levels of a log entry", looks_back=True)
def check_log_levels(probe: Probe) -> str:
    logs = [entry for answer in probe.answers for entry in objects(field(answer.json, "metadata", "logs"))]
    levels = sorted({str(entry.get("level")) for entry in logs})
    if not levels:
        raise DidNotOccur("no answer had a log entry")
    shapes.equal(levels, ["log"], "levels")
    return "log"


@ruling("2.1", "how the integers of pagination are written")
def check_integers(probe: Probe) -> str:
    found = shapes.success(probe.signers, "a list").get("pagination")
    if not isinstance(found, dict) or not all(isinstance(each, int) for each in found.values()):
        raise Differs("without fraction or exponent", repr(found))
    return "without fraction or exponent"


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
    seen = field(shapes.one(created(probe, kind), "a create"), "config")
    if seen != shown:  # names only: the values may be secret
        raise Differs(f"config with {sorted(shown)}", repr(sorted(seen) if isinstance(seen, dict) else type(seen)))
    return f"{sorted(shown)}"


for each in TYPES:
    if each != "plain":
        add("2.2", "ruling", f"type-of-{each}", f"response type of {each}", partial(_same_type, kind=each))
    add("2.2", "ruling", f"config-of-{each}", f"response config of {each}", partial(_shown_config, kind=each))


@ruling("2.2", "what the two objects of provider_b_kms hold")
def check_nested_config(probe: Probe) -> str:
    shapes.one(created(probe, "provider_b_kms"), "a create with any two objects")
    return "anything"


def _not_echoed(probe: Probe, kind: str, name: str) -> str:
    shown = field(shapes.one(created(probe, kind), "a create"), "config")
    if field(shown, name) is not None:
        raise Differs("never returned", "returned")
    return "never returned"


for each, name in (
    ("provider_c", "role_id"),
    ("provider_c_transit", "role_id"),
    ("provider_b_kms", "key"),
    ("provider_b_kms", "service_account"),
):
    add(
        "2.2",
        "ruling",
        f"{each}-{name}",
        f"{name} of {each} in a response",
        partial(_not_echoed, kind=each, name=name),
    )


@ruling("2.2", "version of a generated UUID")
def check_uuid_version(probe: Probe) -> str:
    name = str(shapes.one(created_without_id(probe), "a create").get("id"))
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
    return _answered(create(probe, "plain", id=""), 400, BAD_REQUEST)


@ruling("2.2", "an unknown field in a body")
def check_unknown_field(probe: Probe) -> str:
    return _answered(create(probe, "plain", colour="blue"), 400, BAD_REQUEST)


@ruling("2.2", "null for an optional field")
def check_null_id(probe: Probe) -> str:
    return _answered(create(probe, "plain", id=None), 400, BAD_REQUEST)


@ruling("2.2", "a value of the right type that cannot work")
def check_unusable_key(probe: Probe) -> str:
    body = {"id": signer_id(probe, "unusable"), "type": "plain", "config": {"key": "not a key"}}
    answer = post_signer(probe, body)
    if not field(shapes.success(answer, "a create with an unusable key"), "metadata", "logs"):
        raise Differs("accepted, with a hint in metadata.logs", "accepted without a hint")
    return "accepted, with a hint"


@ruling("2.3", "a url that is no absolute http(s) URL")
def check_bad_url(probe: Probe) -> str:
    return _answered(update(probe, {"url": "nowhere"}), 400, BAD_REQUEST)


@ruling("4.3", "url after an update without it")
def check_url_absent(probe: Probe) -> str:
    shapes.one(update(probe, {"url": scratch_url("kept")}), "an update")
    shapes.equal(field(shapes.one(update(probe, {}), "an empty update"), "url"), scratch_url("kept"), "url")
    return "as it was"


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
    found = some_relayer(probe)
    if required - set(found) or set(found) - required - optional:
        raise Differs(f"all of {sorted(required)}", f"{sorted(found)}")
    return "all but notification_id and disabled_reason"


@ruling("2.4", "a field of a relayer that has no value")
def check_unset_fields(probe: Probe) -> str:
    null = [name for name, value in some_relayer(probe).items() if value is None]
    if null:
        raise Differs("left out", f"null: {sorted(null)}")
    return "left out"


@ruling("2.4", "how gas_price_cap and min_balance are written")
def check_amounts(probe: Probe) -> str:
    policies = field(some_relayer(probe), "policies")
    amounts = [field(policies, name) for name in ("gas_price_cap", "min_balance")]
    given = [each for each in amounts if each is not None]
    if not given:
        raise DidNotOccur("the relayer has neither")
    if not all(isinstance(each, int) for each in given):
        raise Differs("integers, without fraction or exponent", repr(given))
    return "integers, without fraction or exponent"


# Section 4


@ruling("4.1", "a listed signer and the answer to its creation")
def check_listed_as_answered(probe: Probe) -> str:
    signer = shapes.one(created(probe, "provider_c"), "a create")
    shapes.equal(find(probe, SIGNERS, str(signer.get("id"))), signer, "the listed signer")
    return "the same"


@ruling("4.2", "the page without page")
def check_default_page(probe: Probe) -> str:
    shapes.equal(shapes.pagination(probe.signers, "a list")["current_page"], 1, "current_page")
    return "1"


def _in_order(probe: Probe, path: str) -> str:
    pages = [item for answer in two_pages(probe, path) for item in shapes.many(answer, path)]
    shapes.equal(pages, shapes.many(page(probe, path, 1, 2), path), "two pages of one item each")
    return "the same order on every page size"


for each, section, path in (("signers", "4.2", SIGNERS), ("relayers", "4.4", RELAYERS)):
    add(section, "ruling", f"{each}-order-of-pages", "order between requests", partial(_in_order, path=path))


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
    answer = page(probe, SIGNERS, 999_999, 10)
    shapes.equal(shapes.many(answer, "a page past the end"), [], "items")
    total = shapes.pagination(probe.signers, "a list")["total_items"]
    if shapes.pagination(answer, "a page past the end")["total_items"] < total:
        raise Differs("the true total", answer.shown)
    return "empty, with the true total"


@ruling("4.2", "a parameter given twice")
def check_repeated_parameter(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"{SIGNERS}?page=1&page=1"), 400, BAD_REQUEST)


@ruling("4.2", "an unknown query name")
def check_unknown_query(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?colour=blue"), 200)
    return "ignored"


@ruling("4", "a body with another content type")
def check_other_content_type(probe: Probe) -> str:
    return _answered(call(probe, rpc_call(), headers={"Content-Type": "text/plain"}), 400, BAD_REQUEST)


@ruling("4.5", "a method that does not exist")
def check_unknown_method(probe: Probe) -> str:
    answer = unknown_method(probe)
    _answered(answer, 200)
    shapes.equal(field(answer.json, "error", "code"), -32601, "code")
    return "200 with code -32601"


@ruling("4.5", "params that do not fit")
def check_wrong_params(probe: Probe) -> str:
    answer = call(probe, rpc_call("feeEstimate"))
    _answered(answer, 200)
    shapes.equal(field(answer.json, "error", "code"), -32602, "code")
    return "200 with code -32602"


@ruling("4.5", "result and error in one response")
def check_result_or_error(probe: Probe) -> str:
    bodies = [each.json for each in (fee_estimate(probe), unknown_method(probe)) if is_rpc(each)]
    if not bodies:
        raise NotChecked("no call got a JSON-RPC response")
    for body in bodies:
        shapes.equal(len({"result", "error"} & set(body)), 1, "how many of result and error")
    return "exactly one"


@ruling("4.5", "the jsonrpc of a response")
def check_rpc_version_value(probe: Probe) -> str:
    shapes.equal(field(unknown_method(probe).json, "jsonrpc"), "2.0", "jsonrpc")
    return "2.0"


def _id_text(probe: Probe, sent: Any, expected: str | None) -> str:
    body = {name: value for name, value in rpc_call(id=sent).items() if value is not ...}
    answer = call(probe, body)
    if not isinstance(answer.json, dict) or answer.json.get("id", ...) != expected:
        raise Differs(f"id {expected!r}", repr(answer.json.get("id")) if is_rpc(answer) else answer.shown)
    return repr(expected)


for name, given, text in (("number", 7, "7"), ("string", "a-b", "a-b"), ("null", None, None), ("absent", ..., None)):
    add(
        "4.5",
        "ruling",
        f"rpc-id-{name}",
        f"response id, request id {name}",
        partial(_id_text, sent=given, expected=text),
    )


def _rpc_answered(probe: Probe, body: Any) -> str:
    return _answered(call(probe, body), 400, BAD_REQUEST)


for name, claim, sent in (
    ("rpc-batch", "a batch", [rpc_call()]),
    ("rpc-other-version", "jsonrpc other than 2.0 in a request", rpc_call(jsonrpc="1.0")),
    ("rpc-boolean-id", "a request id that is a boolean", rpc_call(id=True)),
    ("rpc-unknown-member", "an unknown member", rpc_call(colour="blue")),
):
    add("4.5", "ruling", name, claim, partial(_rpc_answered, body=sent))


# Sections 5 to 9


@ruling("5", "the token with another scheme than Bearer")
def check_other_scheme(probe: Probe) -> str:
    headers = {"Authorization": f"Basic {probe.target.token}"}
    return _answered(probe.ask("GET", SIGNERS, token="", headers=headers), 401, UNAUTHORIZED)


@ruling("5", "a readonly token may list")
def check_readonly_lists(probe: Probe) -> str:
    return _answered(probe.ask("GET", RELAYERS, token=_readonly(probe)), 200)


@ruling("5", "a readonly token on any other operation")
def check_readonly_refused(probe: Probe) -> str:
    return _answered(call(probe, rpc_call(), token=_readonly(probe)), 401, UNAUTHORIZED)


def _readonly(probe: Probe) -> str:
    if not probe.target.readonly_token:
        raise NotChecked.without("--readonly-token-file FILE")
    return probe.target.readonly_token


@ruling("7", "status of a list")
def check_status_list(probe: Probe) -> str:
    return _answered(probe.signers, 200)


@ruling("7", "status of a create")
def check_status_create(probe: Probe) -> str:
    return _answered(created(probe, "plain"), 201)


@ruling("7", "status of Bad Request")
def check_status_bad_request(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"{SIGNERS}?page=-1"), 400)


@ruling("7", "status of Unauthorized")
def check_status_unauthorized(probe: Probe) -> str:
    answer = probe.ask("GET", SIGNERS, token="")
    _answered(answer, 401)
    shapes.equal(answer.headers.get("www-authenticate"), "Bearer", "WWW-Authenticate")
    return "401, WWW-Authenticate: Bearer"


@ruling("7", "status of an unknown relayer")
def check_status_no_relayer(probe: Probe) -> str:
    return _answered(probe.ask("POST", rpc_path(f"{probe.name}-nobody"), rpc_call()), 404)


@ruling("7", "status of an unknown notification")
def check_status_no_notification(probe: Probe) -> str:
    return _answered(probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {}), 404)


@ruling("7", "status of a taken id")
def check_status_duplicate(probe: Probe) -> str:
    created(probe, "plain")
    return _answered(create(probe, "plain", id=signer_id(probe, "plain")), 409)


@ruling("7", "an unknown path")
def check_unknown_path(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"/api/v1/{probe.name}"), 404)


@ruling("9", "a path without /api/v1")
def check_other_prefix(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"/{probe.name}/signers"), 404)


@ruling("7", "fields beside data, message and success in an error", looks_back=True)
def check_error_fields(probe: Probe) -> str:
    for answer in probe.answers:
        if answer.error and set(answer.json) != {"data", "message", "success"}:
            raise Differs("none", answer.shown)
    return "none"


@ruling("7", "content type of a response")
def check_json_content_type(probe: Probe) -> str:
    for answer in (probe.signers, probe.relayers, probe.ask("GET", SIGNERS, token="")):
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        shapes.equal(kind, "application/json", "content type")
    return "application/json"


@ruling("7", "a method that a path does not take")
def check_wrong_method(probe: Probe) -> str:
    return _answered(probe.write("PUT", SIGNERS, b"{"), 405)  # which no server can act on


@ruling("7", "where the reason of a Bad Request is given")
def check_reason(probe: Probe) -> str:
    answer = probe.ask("GET", f"{SIGNERS}?page=-1")
    if not answer.headers.get("relaydeck-reason"):
        raise Differs("header Relaydeck-Reason", "no such header")
    return "header Relaydeck-Reason"


@ruling("8", "a per_page that is very large")
def check_large_page(probe: Probe) -> str:
    if shapes.pagination(probe.signers, "a list")["total_items"] > _MOST_ITEMS:
        raise NotChecked(f"the server lists more than {_MOST_ITEMS} signers")
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page={_LARGE_PAGE}"), "a list with a very large per_page")
    if at["per_page"] >= _LARGE_PAGE:
        raise Differs("reduced to a largest page", f"per_page {at['per_page']}")
    return f"reduced to {at['per_page']}"


@ruling("8", "headers that tell the rate limit")
def check_limit_headers(probe: Probe) -> str:
    if "ratelimit" not in probe.relayers.headers:
        raise Differs("RateLimit and RateLimit-Policy", "none")
    return f"RateLimit-Policy {probe.relayers.headers.get('ratelimit-policy')}"
