"""What the contract leaves open: what this server does, beside what Relaydeck does. A difference is not a failure."""

import re
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
    listed_relayer,
    notification_path,
    page,
    rpc_call,
    rpc_path,
    scratch_url,
    signer_id,
    unknown_method,
    update,
)
from relaydeck.conformance.section_4 import BAD_REQUEST, estimate, two_pages
from relaydeck.conformance.shapes import (
    UNAUTHORIZED,
    Answer,
    DidNotOccur,
    Differs,
    NotChecked,
    field,
    objects,
)

_DECIMAL = re.compile(r"(0|[1-9]\d*)(\.\d*[1-9])?")
_LARGE_PAGE = 1_000_000_000
_LARGE_BODY = 2**20 + 2**10
_MOST_ITEMS = 1000  # of a list that is asked for as one page


def _answered(answer: Answer, status: int, message: str = "") -> str:
    """For an open item: the report shows what was seen in either case."""
    text = field(answer.json, "message")
    if answer.status != status or (message and text != message):
        raise Differs(f"{status} {message}".strip(), f"{answer.status} {text if isinstance(text, str) else ''}".strip())
    return message or str(status)


# Section 2


@ruling("2.1", "error on success", "2.1-error-value")
def check_error_value(probe: Probe) -> str:
    shapes.equal(shapes.success(probe.signers, "a list").get("error"), "", "error")
    return '""'


@ruling("2.1", "metadata on success", "2.1-metadata-presence")
def check_metadata_present(probe: Probe) -> str:
    if not isinstance(field(shapes.success(probe.signers, "a list"), "metadata"), dict):
        raise Differs("always present", "none")
    return "always present"


@ruling("2.1", "items of metadata.traces", "2.1-trace-items")
def check_traces(probe: Probe) -> str:
    shapes.equal(field(shapes.success(probe.signers, "a list"), "metadata", "traces"), [], "traces")
    return "always []"


@ruling("2.1", "levels of a log entry", "2.1-log-levels", looks_back=True)
def check_log_levels(probe: Probe) -> str:
    logs = [entry for answer in probe.answers for entry in objects(field(answer.json, "metadata", "logs"))]
    levels = sorted({str(entry.get("level")) for entry in logs})
    if not levels:
        raise DidNotOccur("no answer had a log entry")
    shapes.equal(levels, ["log"], "levels")
    return "log"


@ruling("2.1", "how the integers of pagination are written", "2.1-integers")
def check_integers(probe: Probe) -> str:
    found = shapes.success(probe.signers, "a list").get("pagination")
    if not isinstance(found, dict) or not all(isinstance(each, int) for each in found.values()):
        raise Differs("without fraction or exponent", repr(found))
    return "without fraction or exponent"


@ruling("2.2", "response type of a plain signer", "2.2-other-types")
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
        add(
            "2.2",
            "ruling",
            f"type-of-{each}",
            f"response type of {each}",
            partial(_same_type, kind=each),
            "2.2-other-types",
        )
    run = partial(_shown_config, kind=each)
    add("2.2", "ruling", f"config-of-{each}", f"response config of {each}", run, "2.2-other-configs")


@ruling("2.2", "what the two objects of provider_b_kms hold", "2.2-nested-objects")
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
        "2.2-other-configs" if name == "role_id" else "2.2-nested-objects",
    )


@ruling("2.2", "version of a generated UUID", "2.2-uuid-version")
def check_uuid_version(probe: Probe) -> str:
    name = str(shapes.one(created_without_id(probe), "a create").get("id"))
    try:
        shapes.equal(uuid.UUID(name).version, 7, "version")
    except ValueError:
        raise Differs("a UUID of version 7", repr(name)) from None
    return "7"


@ruling("2.2", "an identifier with a slash, a blank and an emoji", "2.2-identifiers")
def check_odd_identifier(probe: Probe) -> str:
    name = f"{probe.name} a/b 🚀"
    shapes.equal(shapes.one(create(probe, "plain", id=name), "a create").get("id"), name, "id")
    return "kept as it is"


@ruling("2.2", "an empty identifier", "2.2-identifiers")
def check_empty_identifier(probe: Probe) -> str:
    return _answered(create(probe, "plain", id=""), 400, BAD_REQUEST)


@ruling("2.2", "an unknown field in a body", "2.2-unknown-fields")
def check_unknown_field(probe: Probe) -> str:
    return _answered(create(probe, "plain", colour="blue"), 400, BAD_REQUEST)


@ruling("2.2", "null for an optional field", "2.2-unknown-fields")
def check_null_id(probe: Probe) -> str:
    return _answered(create(probe, "plain", id=None), 400, BAD_REQUEST)


@ruling("2.2", "a value of the right type that cannot work", "2.2-unusable-values")
def check_unusable_key(probe: Probe) -> str:
    body = {"id": signer_id(probe, "unusable"), "type": "plain", "config": {"key": "not a key"}}
    answer = probe.write("POST", SIGNERS, body)
    if not field(shapes.success(answer, "a create with an unusable key"), "metadata", "logs"):
        raise Differs("accepted, with a hint in metadata.logs", "accepted without a hint")
    return "accepted, with a hint"


@ruling("2.3", "a url that is no absolute http(s) URL", "2.3-url-form")
def check_bad_url(probe: Probe) -> str:
    return _answered(update(probe, {"url": "nowhere"}), 400, BAD_REQUEST)


@ruling("4.3", "url after an update without it", "4.3-fields-kept")
def check_url_absent(probe: Probe) -> str:
    shapes.one(update(probe, {"url": scratch_url("kept")}), "an update")
    shapes.equal(field(shapes.one(update(probe, {}), "an empty update"), "url"), scratch_url("kept"), "url")
    return "as it was"


@ruling("2.4", "relayer fields that are always present", "2.4-presence")
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
    found = listed_relayer(probe)
    if required - set(found) or set(found) - required - optional:
        raise Differs(f"all of {sorted(required)}", f"{sorted(found)}")
    return "all but notification_id and disabled_reason"


@ruling("2.4", "a field of a relayer that has no value", "2.4-presence")
def check_unset_fields(probe: Probe) -> str:
    null = [name for name, value in listed_relayer(probe).items() if value is None]
    if null:
        raise Differs("left out", f"null: {sorted(null)}")
    return "left out"


def _values(probe: Probe, *path: str) -> list[str]:
    found = [field(each, *path) for each in shapes.many(probe.relayers, "the list of relayers")]
    return sorted({str(each) for each in found if each is not None})


@ruling("2.4", "values of network_type", "2.4-network-types")
def check_network_types(probe: Probe) -> str:
    if not (found := _values(probe, "network_type")):
        raise DidNotOccur("no listed relayer has a network_type")
    shapes.equal(found, ["evm"], "values")
    return "evm"


@ruling("2.4", "values of disabled_reason.type", "2.4-disabled-reasons")
def check_disabled_reasons(probe: Probe) -> str:
    if not (found := _values(probe, "disabled_reason", "type")):
        raise DidNotOccur("no listed relayer has a disabled_reason")
    shapes.equal(found, ["NonceSyncFailed"], "values")
    return "NonceSyncFailed"


@ruling("2.4", "how gas_price_cap and min_balance are written", "2.4-units")
def check_amounts(probe: Probe) -> str:
    policies = field(listed_relayer(probe), "policies")
    amounts = [field(policies, name) for name in ("gas_price_cap", "min_balance")]
    given = [each for each in amounts if each is not None]
    if not given:
        raise DidNotOccur("the relayer has neither")
    if not all(isinstance(each, int) for each in given):
        raise Differs("integers, without fraction or exponent", repr(given))
    return "integers, without fraction or exponent"


# Section 4


@ruling("4.1", "a listed signer and the answer to its creation", "2.2-other-configs")
def check_listed_as_answered(probe: Probe) -> str:
    signer = shapes.one(created(probe, "provider_c"), "a create")
    shapes.equal(find(probe, SIGNERS, str(signer.get("id"))), signer, "the listed signer")
    return "the same"


@ruling("4.2", "the page without page", "4.2-zero")
def check_default_page(probe: Probe) -> str:
    shapes.equal(shapes.pagination(probe.signers, "a list")["current_page"], 1, "current_page")
    return "1"


def _in_order(probe: Probe, path: str) -> str:
    pages = [item for answer in two_pages(probe, path) for item in shapes.many(answer, path)]
    shapes.equal(pages, shapes.many(page(probe, path, 1, 2), path), "two pages of one item each")
    return "the same order on every page size"


for each, section, path in (("signers", "4.2", SIGNERS), ("relayers", "4.4", RELAYERS)):
    add(
        section,
        "ruling",
        f"{each}-order-of-pages",
        "order between requests",
        partial(_in_order, path=path),
        "4.2-order",
    )


@ruling("4.2", "order of a list", "4.2-order")
def check_list_order(probe: Probe) -> str:
    created(probe, "plain")
    second = create(probe, "plain", id=f"{signer_id(probe, 'plain')}-later")
    name = shapes.one(second, "a create").get("id")
    total = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page=1"), "a list")["total_items"]
    last = shapes.many(probe.ask("GET", f"{SIGNERS}?per_page=1&page={total}"), "the last page")
    shapes.equal([each.get("id") for each in last], [name], "the last item is the newest")
    return "oldest first"


def _effective(probe: Probe, query: str, name: str, expected: int) -> str:
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?{query}"), f"a list with {query}")
    shapes.equal(at[name], expected, f"{name} with {query}")
    return f"{name} {expected}"


add(
    "4.2",
    "ruling",
    "page-0-means",
    "what page=0 means",
    partial(_effective, query="page=0", name="current_page", expected=1),
    "4.2-zero",
)
add(
    "4.2",
    "ruling",
    "per-page-0-means",
    "what per_page=0 means",
    partial(_effective, query="per_page=0", name="per_page", expected=10),
    "4.2-zero",
)


@ruling("4.2", "a page past the end", "4.2-past-the-end")
def check_past_the_end(probe: Probe) -> str:
    answer = page(probe, SIGNERS, 999_999, 10)
    shapes.equal(shapes.many(answer, "a page past the end"), [], "items")
    total = shapes.pagination(probe.signers, "a list")["total_items"]
    if shapes.pagination(answer, "a page past the end")["total_items"] < total:
        raise Differs("the true total", answer.shown)
    return "empty, with the true total"


@ruling("4.2", "a parameter given twice", "4.2-not-decimal")
def check_repeated_parameter(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"{SIGNERS}?page=1&page=1"), 400, BAD_REQUEST)


@ruling("4.2", "an unknown query name", "4.2-unknown-names")
def check_unknown_query(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?colour=blue"), 200)
    return "ignored"


@ruling("4", "a body with another content type", "4-content-type")
def check_other_content_type(probe: Probe) -> str:
    return _answered(call(probe, rpc_call(), headers={"Content-Type": "text/plain"}), 400, BAD_REQUEST)


@ruling("4.5", "a method that does not exist", "4.5-methods", "7-rpc-codes")
def check_unknown_method(probe: Probe) -> str:
    answer = unknown_method(probe)
    _answered(answer, 200)
    shapes.equal(field(answer.json, "error", "code"), -32601, "code")
    return "200 with code -32601"


@ruling("4.5", "params that do not fit", "4.5-failures", "7-rpc-codes")
def check_wrong_params(probe: Probe) -> str:
    answer = call(probe, rpc_call("feeEstimate"))
    _answered(answer, 200)
    shapes.equal(field(answer.json, "error", "code"), -32602, "code")
    return "200 with code -32602"


@ruling("4.5", "result and error in one response", "4.5-failures")
def check_result_or_error(probe: Probe) -> str:
    bodies = [each.json for each in (fee_estimate(probe), unknown_method(probe)) if is_rpc(each)]
    if not bodies:
        raise NotChecked("no call got a JSON-RPC response")
    for body in bodies:
        shapes.equal(len({"result", "error"} & set(body)), 1, "how many of result and error")
    return "exactly one"


@ruling("4.5", "the jsonrpc of a response", "4.5-version")
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
        "4.5-id-types",
    )


def _rpc_answered(probe: Probe, body: Any) -> str:
    return _answered(call(probe, body), 400, BAD_REQUEST)


for name, claim, sent, sentence in (
    ("rpc-batch", "a batch", [rpc_call()], "4.5-failures"),
    ("rpc-other-version", "jsonrpc other than 2.0 in a request", rpc_call(jsonrpc="1.0"), "4.5-version"),
    ("rpc-boolean-id", "a request id that is a boolean", rpc_call(id=True), "4.5-id-types"),
    ("rpc-unknown-member", "an unknown member", rpc_call(colour="blue"), "2.2-unknown-fields"),
):
    add("4.5", "ruling", name, claim, partial(_rpc_answered, body=sent), sentence)


@ruling("4.5", "how amounts of an estimate are written", "4.5-meaning")
def check_estimate_amounts(probe: Probe) -> str:
    result = estimate(probe)
    for name in ("conversion_rate", "estimated_fee"):
        if not _DECIMAL.fullmatch(str(field(result, name))):
            raise Differs("decimals without exponent and trailing zeros", repr(field(result, name)))
    return "decimals without exponent and trailing zeros"


# Sections 5 to 9


@ruling("5", "the token with another scheme than Bearer", "5-tokens")
def check_other_scheme(probe: Probe) -> str:
    headers = {"Authorization": f"Basic {probe.target.token}"}
    return _answered(probe.ask("GET", SIGNERS, token="", headers=headers), 401, UNAUTHORIZED)


@ruling("5", "a readonly token may list", "5-tokens")
def check_readonly_lists(probe: Probe) -> str:
    return _answered(probe.ask("GET", RELAYERS, token=_readonly(probe)), 200)


@ruling("5", "a readonly token on any other operation", "5-tokens")
def check_readonly_refused(probe: Probe) -> str:
    return _answered(call(probe, rpc_call(), token=_readonly(probe)), 401, UNAUTHORIZED)


def _readonly(probe: Probe) -> str:
    if not probe.target.readonly_token:
        raise NotChecked.without("--readonly-token-file FILE")
    return probe.target.readonly_token


@ruling("7", "status of a list", "7-statuses")
def check_status_list(probe: Probe) -> str:
    return _answered(probe.signers, 200)


@ruling("7", "status of a create", "7-statuses")
def check_status_create(probe: Probe) -> str:
    return _answered(created(probe, "plain"), 201)


@ruling("7", "status of Bad Request", "7-statuses")
def check_status_bad_request(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"{SIGNERS}?page=-1"), 400)


@ruling("7", "status of Unauthorized", "7-statuses")
def check_status_unauthorized(probe: Probe) -> str:
    answer = probe.ask("GET", SIGNERS, token="")
    _answered(answer, 401)
    shapes.equal(answer.headers.get("www-authenticate"), "Bearer", "WWW-Authenticate")
    return "401, WWW-Authenticate: Bearer"


@ruling("7", "status of an unknown relayer", "7-statuses")
def check_status_no_relayer(probe: Probe) -> str:
    return _answered(probe.ask("POST", rpc_path(f"{probe.name}-nobody"), rpc_call()), 404)


@ruling("7", "status of an unknown notification", "7-statuses")
def check_status_no_notification(probe: Probe) -> str:
    return _answered(probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {}), 404)


@ruling("7", "status of a taken id", "7-statuses")
def check_status_duplicate(probe: Probe) -> str:
    created(probe, "plain")
    return _answered(create(probe, "plain", id=signer_id(probe, "plain")), 409)


@ruling("7", "an unknown path", "4-operations-unknown")
def check_unknown_path(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"/api/v1/{probe.name}"), 404)


@ruling("4", "reading one signer", "4-operations")
def check_other_operation(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"{SIGNERS}/{probe.name}"), 404)


@ruling("9", "a path without /api/v1", "4-operations-unknown")
def check_other_prefix(probe: Probe) -> str:
    return _answered(probe.ask("GET", f"/{probe.name}/signers"), 404)


@ruling("7", "fields beside data, message and success in an error", "7-reason", looks_back=True)
def check_error_fields(probe: Probe) -> str:
    for answer in probe.answers:
        if answer.error and set(answer.json) != {"data", "message", "success"}:
            raise Differs("none", answer.shown)
    return "none"


@ruling("7", "content type of a response", "4-content-type")
def check_json_content_type(probe: Probe) -> str:
    for answer in (probe.signers, probe.relayers, probe.ask("GET", SIGNERS, token="")):
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        shapes.equal(kind, "application/json", "content type")
    return "application/json"


@ruling("7", "a method that a path does not take", "4-operations-unknown")
def check_wrong_method(probe: Probe) -> str:
    return _answered(probe.write("PUT", SIGNERS, b"{"), 405)  # which no server can act on


@ruling("7", "where the reason of a Bad Request is given", "7-reason")
def check_reason(probe: Probe) -> str:
    answer = probe.ask("GET", f"{SIGNERS}?page=-1")
    if not answer.headers.get("relaydeck-reason"):
        raise Differs("header Relaydeck-Reason", "no such header")
    return "header Relaydeck-Reason"


@ruling("8", "a per_page that is very large", "8-largest-page")
def check_large_page(probe: Probe) -> str:
    if shapes.pagination(probe.signers, "a list")["total_items"] > _MOST_ITEMS:
        raise NotChecked(f"the server lists more than {_MOST_ITEMS} signers")
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page={_LARGE_PAGE}"), "a list with a very large per_page")
    if at["per_page"] >= _LARGE_PAGE:
        raise Differs("reduced to a largest page", f"per_page {at['per_page']}")
    return f"reduced to {at['per_page']}"


@ruling("8", "headers that tell the rate limit", "8-rate")
def check_limit_headers(probe: Probe) -> str:
    if "ratelimit" not in probe.relayers.headers:
        raise Differs("RateLimit and RateLimit-Policy", "none")
    return f"RateLimit-Policy {probe.relayers.headers.get('ratelimit-policy')}"


@ruling("8", "a body of more than 1 MiB", "8-request-size")
def check_large_body(probe: Probe) -> str:
    unanswered = probe.unanswered
    try:
        return _answered(call(probe, rpc_call(params={"text": "x" * _LARGE_BODY})), 413)
    except Differs:
        probe.unanswered = unanswered  # a server may close the connection before it has read everything
        raise
