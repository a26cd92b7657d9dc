"""What the contract leaves open: what this server does, beside what Relaydeck does. A difference is not a failure."""

import re
import uuid
from collections.abc import Callable
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.probe import (
    RELAYERS,
    SIGNERS,
    TYPES,
    Probe,
    add,
    add_each,
    config,
    is_rpc,
    notification_path,
    rpc_call,
    rpc_path,
    ruling,
    scratch_url,
)
from relaydeck.conformance.shapes import Answer, DidNotOccur, Differs, Json, NotChecked, equal, field, holds, objects

_DECIMAL = re.compile(r"(0|[1-9]\d*)(\.\d*[1-9])?")
_LARGE_PAGE = 1_000_000_000
_LARGE_BODY = 2**20 + 2**10
_MOST_ITEMS = 1000  # of a list that is asked for as one page
# Of a relayer, always present.
_FIELDS = ["address", "custom_rpc_urls", "id", "name", "network", "network_type", "paused", "policies", "signer_id"]
_FIELDS += ["system_disabled"]
Request = Callable[[Probe], Answer]


# Requests, each with the status of its answer, or with status and message


def _answered(answer: Answer, expected: str) -> str:
    """The report shows what was seen in either case."""
    text = field(answer.json, "message")
    status, _, message = expected.partition(" ")
    seen = f"{answer.status} {text if isinstance(text, str) else ''}".strip()
    return holds(str(answer.status) == status and message in ("", text), expected, seen, message or status)


def _is_answered(request: Request, expected: str, probe: Probe) -> str:
    return _answered(request(probe), expected)


def _get(path: str) -> Request:
    """`{}` stands for a name that nothing has."""
    return lambda probe: probe.ask("GET", path.format(probe.name))


def _new(**more: Any) -> Request:
    return lambda probe: probe.create("plain", **more)


def _call(body: Any, **more: Any) -> Request:
    return lambda probe: probe.call(body, **more)


def _with_basic(probe: Probe) -> Answer:
    return probe.ask("GET", SIGNERS, token="", headers={"Authorization": f"Basic {probe.target.token}"})


def _list_readonly(probe: Probe) -> Answer:
    return probe.ask("GET", RELAYERS, token=_readonly(probe))


def _call_readonly(probe: Probe) -> Answer:
    return probe.call(rpc_call(), token=_readonly(probe))


def _readonly(probe: Probe) -> str:
    if not probe.target.readonly_token:
        raise NotChecked.without("--readonly-token-file FILE")
    return probe.target.readonly_token


def _create_again(probe: Probe) -> Answer:
    probe.created("plain")
    return probe.create("plain", id=probe.signer_id("plain"))


def _call_nobody(probe: Probe) -> Answer:
    return probe.ask("POST", rpc_path(f"{probe.name}-nobody"), rpc_call())


def _update_nobody(probe: Probe) -> Answer:
    return probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {})


def _put(probe: Probe) -> Answer:
    return probe.write("PUT", SIGNERS, b"{")  # which no server can act on


_BAD, _REFUSED = "400 Bad Request", "401 Unauthorized"
_BATCH, _AS_TEXT = _call([rpc_call()]), _call(rpc_call(), headers={"Content-Type": "text/plain"})
_OLD, _FLAG, _MORE = _call(rpc_call(jsonrpc="1.0")), _call(rpc_call(id=True)), _call(rpc_call(colour="blue"))
_TWICE, _NEGATIVE = _get(f"{SIGNERS}?page=1&page=1"), _get(f"{SIGNERS}?page=-1")
for section, name, claim, sentence, request, expected in (
    ("2.2", "empty-identifier", "an empty identifier", "2.2-identifiers", _new(id=""), _BAD),
    ("2.2", "unknown-field", "an unknown field in a body", "2.2-unknown-fields", _new(colour="blue"), _BAD),
    ("2.2", "null-id", "null for an optional field", "2.2-unknown-fields", _new(id=None), _BAD),
    ("4.2", "repeated-parameter", "a parameter given twice", "4.2-not-decimal", _TWICE, _BAD),
    ("4", "other-content-type", "a body with another content type", "4-content-type", _AS_TEXT, _BAD),
    ("4", "other-operation", "reading one signer", "4-operations", _get(SIGNERS + "/{}"), "404"),
    ("4.5", "rpc-batch", "a batch", "4.5-failures", _BATCH, _BAD),
    ("4.5", "rpc-other-version", "jsonrpc other than 2.0 in a request", "4.5-version", _OLD, _BAD),
    ("4.5", "rpc-boolean-id", "a request id that is a boolean", "4.5-id-types", _FLAG, _BAD),
    ("4.5", "rpc-unknown-member", "an unknown member", "2.2-unknown-fields", _MORE, _BAD),
    ("5", "other-scheme", "the token with another scheme than Bearer", "5-tokens", _with_basic, _REFUSED),
    ("5", "readonly-lists", "a readonly token may list", "5-tokens", _list_readonly, "200"),
    ("5", "readonly-refused", "a readonly token on any other operation", "5-tokens", _call_readonly, _REFUSED),
    ("7", "status-list", "status of a list", "7-statuses", attrgetter("signers"), "200"),
    ("7", "status-create", "status of a create", "7-statuses", methodcaller("created", "plain"), "201"),
    ("7", "status-bad-request", "status of Bad Request", "7-statuses", _NEGATIVE, "400"),
    ("7", "status-no-relayer", "status of an unknown relayer", "7-statuses", _call_nobody, "404"),
    ("7", "status-no-notification", "status of an unknown notification", "7-statuses", _update_nobody, "404"),
    ("7", "status-duplicate", "status of a taken id", "7-statuses", _create_again, "409"),
    ("7", "unknown-path", "an unknown path", "4-operations-unknown", _get("/api/v1/{}"), "404"),
    ("7", "wrong-method", "a method that a path does not take", "4-operations-unknown", _put, "405"),
    ("9", "other-prefix", "a path without /api/v1", "4-operations-unknown", _get("/{}/signers"), "404"),
):
    add("ruling", section, name, claim, sentence, partial(_is_answered, request, expected))


# Values in answers


def _list(probe: Probe) -> Json:
    return shapes.success(probe.signers, "a list")


def _value(record: Callable[[Probe], Json], place: str, expected: Any, told: str, probe: Probe) -> str:
    *_, last = path = place.split(".")
    return equal(field(record(probe), *path), expected, last, told)


def _signer(kind: str) -> Callable[[Probe], Json]:
    return lambda probe: probe.signer(kind)


def _page(query: str) -> Callable[[Probe], Json]:
    return lambda probe: shapes.success(probe.ask("GET", f"{SIGNERS}?{query}"), f"a list with {query}")


def _unknown_method(probe: Probe) -> Any:
    return probe.unknown_method.json


_FIRST, _TEN = _page("page=0"), _page("per_page=0")
for section, name, claim, sentence, record, place, value, told in (
    ("2.1", "error-value", "error on success", "2.1-error-value", _list, "error", "", '""'),
    ("2.1", "traces", "items of metadata.traces", "2.1-trace-items", _list, "metadata.traces", [], "always []"),
    ("2.2", "plain-type", "response type of a plain signer", "2.2-other-types", _signer("plain"), "type", "local", ""),
    ("4.2", "default-page", "the page without page", "4.2-zero", _list, "pagination.current_page", 1, ""),
    ("4.2", "page-0-means", "what page=0 means", "4.2-zero", _FIRST, "pagination.current_page", 1, "current_page 1"),
    ("4.2", "per-page-0-means", "what per_page=0 means", "4.2-zero", _TEN, "pagination.per_page", 10, "per_page 10"),
    ("4.5", "rpc-version-value", "the jsonrpc of a response", "4.5-version", _unknown_method, "jsonrpc", "2.0", ""),
):
    add("ruling", section, name, claim, sentence, partial(_value, record, place, value, told))
for kind in TYPES[1:]:
    run = partial(_value, _signer(kind), "type", kind, kind)
    add("ruling", "2.2", f"type-of-{kind}", f"response type of {kind}", "2.2-other-types", run)


# Section 2


@ruling("2.1", "metadata on success", "2.1-metadata-presence")
def check_metadata_present(probe: Probe) -> str:
    return holds(isinstance(_list(probe).get("metadata"), dict), "always present", "none")


@ruling("2.1", "levels of a log entry", "2.1-log-levels", looks_back=True)
def check_log_levels(probe: Probe) -> str:
    logs = [entry for answer in probe.answers for entry in objects(field(answer.json, "metadata", "logs"))]
    return _only("log", [entry.get("level", "None") for entry in logs], "levels", "no answer had a log entry")


def _only(expected: str, found: list[Any], what: str, none: str) -> str:
    values = sorted({str(each) for each in found if each is not None})
    if not values:
        raise DidNotOccur(none)
    return equal(values, [expected], what, expected)


@ruling("2.1", "how the integers of pagination are written", "2.1-integers")
def check_integers(probe: Probe) -> str:
    found = _list(probe).get("pagination")
    are_integers = isinstance(found, dict) and all(isinstance(each, int) for each in found.values())
    return holds(are_integers, "without fraction or exponent", repr(found))


def _shown_config(kind: str, probe: Probe) -> str:
    sent, _ = config(kind)
    shown = {name: sent[name] for name in ("address", "key_name", "mount_point", "namespace") if name in sent}
    seen = probe.signer(kind).get("config")
    names = repr(sorted(seen) if isinstance(seen, dict) else type(seen))  # the values may be secret
    return holds(seen == shown, f"config with {sorted(shown)}", names, f"{sorted(shown)}")


add_each("ruling", "2.2", TYPES, "config-of-{}", "response config of {}", "2.2-other-configs", _shown_config)


@ruling("2.2", "what the two objects of provider_b_kms hold", "2.2-nested-objects")
def check_nested_config(probe: Probe) -> str:
    shapes.one(probe.created("provider_b_kms"), "a create with any two objects")
    return "anything"


def _not_echoed(name: str, kind: str, probe: Probe) -> str:
    return holds(field(probe.signer(kind), "config", name) is None, "never returned", "returned")


for name, kinds, sentence in (
    ("role_id", ["provider_c", "provider_c_transit"], "2.2-other-configs"),
    ("key", ["provider_b_kms"], "2.2-nested-objects"),
    ("service_account", ["provider_b_kms"], "2.2-nested-objects"),
):
    run = partial(_not_echoed, name)
    add_each("ruling", "2.2", kinds, f"{{}}-{name}", f"{name} of {{}} in a response", sentence, run)


@ruling("2.2", "version of a generated UUID", "2.2-uuid-version")
def check_uuid_version(probe: Probe) -> str:
    name = str(shapes.one(probe.created_without_id, "a create").get("id"))
    try:
        return equal(uuid.UUID(name).version, 7, "version")
    except ValueError:
        raise Differs("a UUID of version 7", repr(name)) from None


@ruling("2.2", "an identifier with a slash, a blank and an emoji", "2.2-identifiers")
def check_odd_identifier(probe: Probe) -> str:
    name = f"{probe.name} a/b 🚀"
    return equal(shapes.one(probe.create("plain", id=name), "a create").get("id"), name, "id", "kept as it is")


@ruling("2.2", "a value of the right type that cannot work", "2.2-unusable-values")
def check_unusable_key(probe: Probe) -> str:
    answer = probe.create("plain", id=probe.signer_id("unusable"), config={"key": "not a key"})
    hints = field(shapes.success(answer, "a create with an unusable key"), "metadata", "logs")
    expected = "accepted, with a hint in metadata.logs"
    return holds(bool(hints), expected, "accepted without a hint", "accepted, with a hint")


@ruling("2.3", "a url that is no absolute http(s) URL", "2.3-url-form")
def check_bad_url(probe: Probe) -> str:
    return _answered(probe.update({"url": "nowhere"}), _BAD)


@ruling("4.3", "url after an update without it", "4.3-fields-kept")
def check_url_absent(probe: Probe) -> str:
    shapes.one(probe.update({"url": scratch_url("kept")}), "an update")
    return equal(probe.updated({}).get("url"), scratch_url("kept"), "url", "as it was")


@ruling("2.4", "relayer fields that are always present", "2.4-presence")
def check_relayer_presence(probe: Probe) -> str:
    found = set(probe.listed_relayer) - {"notification_id", "disabled_reason"}
    told = "all but notification_id and disabled_reason"
    return holds(found == set(_FIELDS), f"all of {_FIELDS}", f"{sorted(probe.listed_relayer)}", told)


@ruling("2.4", "a field of a relayer that has no value", "2.4-presence")
def check_unset_fields(probe: Probe) -> str:
    null = [name for name, value in probe.listed_relayer.items() if value is None]
    return holds(not null, "left out", f"null: {sorted(null)}")


def _values(probe: Probe, *path: str) -> list[Any]:
    return [field(each, *path) for each in shapes.many(probe.relayers, "the list of relayers")]


@ruling("2.4", "values of network_type", "2.4-network-types")
def check_network_types(probe: Probe) -> str:
    return _only("evm", _values(probe, "network_type"), "values", "no listed relayer has a network_type")


@ruling("2.4", "values of disabled_reason.type", "2.4-disabled-reasons")
def check_disabled_reasons(probe: Probe) -> str:
    found, none = _values(probe, "disabled_reason", "type"), "no listed relayer has a disabled_reason"
    return _only("NonceSyncFailed", found, "values", none)


@ruling("2.4", "how gas_price_cap and min_balance are written", "2.4-units")
def check_amounts(probe: Probe) -> str:
    amounts = [field(probe.listed_relayer, "policies", name) for name in ("gas_price_cap", "min_balance")]
    given = [each for each in amounts if each is not None]
    if not given:
        raise DidNotOccur("the relayer has neither")
    are_integers = all(isinstance(each, int) for each in given)
    return holds(are_integers, "integers, without fraction or exponent", repr(given))


# Section 4


@ruling("4.1", "a listed signer and the answer to its creation", "2.2-other-configs")
def check_listed_as_answered(probe: Probe) -> str:
    signer = probe.signer("provider_c")
    return equal(probe.find(SIGNERS, str(signer.get("id"))), signer, "the listed signer", "the same")


def _in_order(path: str, probe: Probe) -> str:
    pages = [item for answer in probe.two_pages(path) for item in shapes.many(answer, path)]
    both, told = shapes.many(probe.page(path, 1, 2), path), "the same order on every page size"
    return equal(pages, both, "two pages of one item each", told)


for noun, section, path in (("signers", "4.2", SIGNERS), ("relayers", "4.4", RELAYERS)):
    run = partial(_in_order, path)
    add("ruling", section, f"{noun}-order-of-pages", "order between requests", "4.2-order", run)


@ruling("4.2", "order of a list", "4.2-order")
def check_list_order(probe: Probe) -> str:
    probe.created("plain")
    name = shapes.one(probe.create("plain", id=f"{probe.signer_id('plain')}-later"), "a create").get("id")
    total = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page=1"), "a list")["total_items"]
    last = shapes.many(probe.page(SIGNERS, total, 1), "the last page")
    return equal([each.get("id") for each in last], [name], "the last item is the newest", "oldest first")


@ruling("4.2", "a page past the end", "4.2-past-the-end")
def check_past_the_end(probe: Probe) -> str:
    answer = probe.page(SIGNERS, 999_999, 10)
    equal(shapes.many(answer, "a page past the end"), [], "items")
    total = shapes.pagination(probe.signers, "a list")["total_items"]
    is_true = shapes.pagination(answer, "a page past the end")["total_items"] >= total
    return holds(is_true, "the true total", answer.shown, "empty, with the true total")


@ruling("4.2", "an unknown query name", "4.2-unknown-names")
def check_unknown_query(probe: Probe) -> str:
    _answered(probe.ask("GET", f"{SIGNERS}?colour=blue"), "200")
    return "ignored"


def _code(answer: Answer, code: int) -> str:
    _answered(answer, "200")
    return equal(field(answer.json, "error", "code"), code, "code", f"200 with code {code}")


@ruling("4.5", "a method that does not exist", "4.5-methods 7-rpc-codes")
def check_unknown_method(probe: Probe) -> str:
    return _code(probe.unknown_method, -32601)


@ruling("4.5", "params that do not fit", "4.5-failures 7-rpc-codes")
def check_wrong_params(probe: Probe) -> str:
    return _code(probe.call(rpc_call("feeEstimate")), -32602)


@ruling("4.5", "result and error in one response", "4.5-failures")
def check_result_or_error(probe: Probe) -> str:
    bodies = [each.json for each in (probe.fee_estimate, probe.unknown_method) if is_rpc(each)]
    if not bodies:
        raise NotChecked("no call got a JSON-RPC response")
    for body in bodies:
        equal(len({"result", "error"} & set(body)), 1, "how many of result and error")
    return "exactly one"


def _id_text(sent: Any, expected: str | None, probe: Probe) -> str:
    answer = probe.call(rpc_call(id=sent))
    found = answer.json if isinstance(answer.json, dict) else {}
    seen = repr(found.get("id")) if is_rpc(answer) else answer.shown
    return holds(found.get("id", ...) == expected, f"id {expected!r}", seen, repr(expected))


for name, given, text in (("number", 7, "7"), ("string", "a-b", "a-b"), ("null", None, None), ("absent", ..., None)):
    run, claim = partial(_id_text, given, text), f"response id, request id {name}"
    add("ruling", "4.5", f"rpc-id-{name}", claim, "4.5-id-types", run)


@ruling("4.5", "how amounts of an estimate are written", "4.5-meaning")
def check_estimate_amounts(probe: Probe) -> str:
    result, expected = probe.estimate(), "decimals without exponent and trailing zeros"
    for amount in (field(result, "conversion_rate"), field(result, "estimated_fee")):
        holds(_DECIMAL.fullmatch(str(amount)) is not None, expected, repr(amount))
    return expected


# Sections 7 and 8


@ruling("7", "status of Unauthorized", "7-statuses")
def check_status_unauthorized(probe: Probe) -> str:
    answer = probe.ask("GET", SIGNERS, token="")
    _answered(answer, "401")
    found = answer.headers.get("www-authenticate")
    return equal(found, "Bearer", "WWW-Authenticate", "401, WWW-Authenticate: Bearer")


@ruling("7", "fields beside data, message and success in an error", "7-reason", looks_back=True)
def check_error_fields(probe: Probe) -> str:
    for answer in probe.answers:
        holds(not answer.error or set(answer.json) == {"data", "message", "success"}, "none", answer.shown)
    return "none"


@ruling("7", "content type of a response", "4-content-type")
def check_json_content_type(probe: Probe) -> str:
    for answer in (probe.signers, probe.relayers, probe.ask("GET", SIGNERS, token="")):
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        equal(kind, "application/json", "content type")
    return "application/json"


@ruling("7", "where the reason of a Bad Request is given", "7-reason")
def check_reason(probe: Probe) -> str:
    return holds(bool(_NEGATIVE(probe).headers.get("relaydeck-reason")), "header Relaydeck-Reason", "no such header")


@ruling("8", "a per_page that is very large", "8-largest-page")
def check_large_page(probe: Probe) -> str:
    if shapes.pagination(probe.signers, "a list")["total_items"] > _MOST_ITEMS:
        raise NotChecked(f"the server lists more than {_MOST_ITEMS} signers")
    at = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page={_LARGE_PAGE}"), "a list with a very large per_page")
    size = at["per_page"]
    return holds(size < _LARGE_PAGE, "reduced to a largest page", f"per_page {size}", f"reduced to {size}")


@ruling("8", "headers that tell the rate limit", "8-rate")
def check_limit_headers(probe: Probe) -> str:
    headers = probe.relayers.headers
    told = f"RateLimit-Policy {headers.get('ratelimit-policy')}"
    return holds("ratelimit" in headers, "RateLimit and RateLimit-Policy", "none", told)


@ruling("8", "a body of more than 1 MiB", "8-request-size")
def check_large_body(probe: Probe) -> str:
    unanswered = probe.unanswered
    try:
        return _answered(probe.call(rpc_call(params={"text": "x" * _LARGE_BODY})), "413")
    except Differs:
        probe.unanswered = unanswered  # a server may close the connection before it has read everything
        raise
