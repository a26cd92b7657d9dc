"""The checks of what the contract shows, section by section.

The envelope, the resources and their states, the five operations, credentials, errors, limits.
"""

import secrets
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.probe import (
    BAD_REQUEST,
    RELAYERS,
    SIGNERS,
    TYPES,
    WITH_SECRETS,
    Probe,
    add,
    add_each,
    config,
    contract,
    is_rpc,
    notification_path,
    rpc_call,
    rpc_path,
    scratch_url,
)
from relaydeck.conformance.shapes import INTEGER, TEXT, Answer, DidNotOccur, Differs, NotChecked, field

Send = Callable[[Probe, Any], Answer]
Steps = tuple[tuple[shapes.Json, shapes.Json], ...]  # an update, and fields of the answer to it
_SIGNER = {"id": TEXT, "type": TEXT, "config": shapes.OBJECT}
_RELAYER = dict.fromkeys(("id", "name", "network", "network_type", "address", "signer_id", "notification_id"), TEXT)
_POLICIES = {
    "eip1559_pricing": shapes.FLAG,
    "gas_limit_estimation": shapes.FLAG,
    "gas_price_cap": shapes.NUMBER,
    "min_balance": shapes.NUMBER,
    "private_transactions": shapes.FLAG,
    "whitelist_receivers": shapes.TEXTS,
}


# 2.1


def _success_flag(answer: Answer, _: str) -> None:
    shapes.equal(field(answer.json, "success"), True, "success")


def _error_field(answer: Answer, what: str) -> None:
    if not shapes.require_types(shapes.success(answer, what), {"error": TEXT}, "the envelope"):
        raise DidNotOccur("the envelope has no error")


def _metadata(answer: Answer, what: str) -> None:
    body = shapes.success(answer, what)
    if not shapes.require_types(body, {"metadata": shapes.OBJECT}, "the envelope"):
        raise DidNotOccur("the envelope has no metadata")
    shapes.require_fields(body["metadata"], {"logs": shapes.ARRAY, "traces": shapes.ARRAY}, "metadata")


def _list(require: Any, noun: str, probe: Probe) -> None:
    require(getattr(probe, noun), f"the list of {noun}")


for noun, section in (("signers", "4.2"), ("relayers", "4.4")):
    for name, claim, sentences, require in (
        ("success", "success is true", "2.1-success 5-bearer", _success_flag),
        ("data", "data is an array", f"2.1-data {section}-list", shapes.many),
        ("error-field", "error is a string", "2.1-error", _error_field),
        ("metadata", "metadata holds arrays: logs, traces", "2.1-metadata", _metadata),
        ("pagination", "pagination holds three integers", f"2.1-pagination {section}-list", shapes.pagination),
    ):
        add("contract", "2.1", f"{noun}-{name}", f"list {noun}: {claim}", sentences, partial(_list, require, noun))


@contract("2.1", "each log entry has level and message, both strings", "2.1-logs", looks_back=True)
def check_log_entries(probe: Probe) -> str:
    logs = [field(answer.json, "metadata", "logs") for answer in probe.answers]
    entries = [entry for each in logs if isinstance(each, list) for entry in each]
    fields = {"level": TEXT, "message": TEXT}
    return shapes.each_has(entries, fields, "a log entry", none="no answer had a log entry", counted="entries")


# 2.2


def _signers(probe: Probe) -> list[shapes.Json]:
    """Those of a first page. One of the type whose config is shown is among them if the caller allows writing."""
    made = [probe.signer("provider_c")] if probe.target.allow_writes else []
    listed = shapes.many(probe.page(SIGNERS, 1, 10), "the list of signers")
    if not listed:
        raise NotChecked("the server lists no signer: needs --allow-writes", "--allow-writes")
    return listed + made


@contract("2.2", "a signer has id, type and config", "2.2-signer")
def check_signer_fields(probe: Probe) -> None:
    for signer in _signers(probe):
        shapes.require_fields(signer, _SIGNER, "signer")


@contract("2.2", "the shown config fields are strings", "2.2-response-config")
def check_signer_config(probe: Probe) -> str:
    shown = dict.fromkeys(("address", "key_name", "mount_point", "namespace"), TEXT)
    return _counted("signer config", [signer.get("config") for signer in _signers(probe)], shown)


def _counted(what: str, records: list[Any], fields: shapes.Fields) -> str:
    """The types of these fields, where they have a value. None at all is not evidence."""
    count = sum(shapes.require_types(record, fields, what) for record in records if record is not None)
    if not count:
        raise DidNotOccur(f"no {what} has one of these fields: {', '.join(fields)}")
    return f"{count} values"


def _accepts(kind: str, probe: Probe) -> None:
    shapes.require_fields(shapes.one(probe.created(kind), f"a create of type {kind}"), _SIGNER, "signer")


def _hides(kind: str, probe: Probe) -> None:
    answer = probe.created(kind)
    shapes.one(answer, f"a create of type {kind}")
    leaked = [secret for secret in probe.secrets if secret.encode() in answer.body]
    shapes.holds(not leaked, "no secret of the request in the response", f"{len(leaked)} of its secrets")


def _requires(kind: str, probe: Probe) -> str:
    chosen, _ = config(kind)
    required = [name for name in chosen if name not in ("mount_point", "namespace")]
    for missing in required:
        less = {name: value for name, value in chosen.items() if name != missing}
        shapes.require_message(probe.write("POST", SIGNERS, {"type": kind, "config": less}), BAD_REQUEST)
    return f"{len(required)} fields"


# What the two objects of provider_b_kms hold is not shown, so no config of it can be said to be right.
_SHOWN = [each for each in TYPES if each != "provider_b_kms"]
for kinds, name, claim, sentences, run in (
    (_SHOWN, "signer-type-{}", "{} is accepted with its config", "2.2-types 4.1-create", _accepts),
    (WITH_SECRETS, "secrets-{}", "{}: no secret is echoed", "2.2-no-secrets", _hides),
    (TYPES, "config-{}", "{} without a required field: Bad Request", "2.2-config-{}", _requires),
):
    add_each("contract", "2.2", kinds, name, claim, sentences, run)


@contract("2.2", "no later answer holds a secret", "2.2-no-secrets", looks_back=True)
def check_secrets_later(probe: Probe) -> str:
    if not probe.target.allow_writes:
        raise NotChecked.without("--allow-writes")
    if not probe.created_ids:
        raise NotChecked("no signer was created")
    for answer in probe.answers:
        if any(secret.encode() in answer.body for secret in probe.secrets):
            raise Differs("no secret of an earlier request", f"one in the answer to {answer.request}")
    return f"{len(probe.secrets)} secrets in {len(probe.answers)} answers"


@contract("2.2", "mount_point and namespace are optional", "2.2-config-provider_c")
def check_optional_config_fields(probe: Probe) -> None:
    chosen, hidden = config("provider_c")
    del chosen["mount_point"], chosen["namespace"]
    probe.secrets += hidden
    answer = probe.create("provider_c", id=probe.signer_id("optional"), config=chosen)
    shapes.one(answer, "a create without them")


@contract("2.2", "the caller's id is the signer's", "2.2-id-given")
def check_signer_id(probe: Probe) -> None:
    shapes.equal(probe.signer("plain").get("id"), probe.signer_id("plain"), "id")


@contract("2.2", "without an id a UUID is generated", "2.2-id-generated 4.1-required")
def check_signer_uuid(probe: Probe) -> None:
    signer = shapes.one(probe.created_without_id, "a create without id")
    try:
        uuid.UUID(str(signer.get("id")))
    except ValueError:
        raise Differs("id is a UUID", repr(signer.get("id"))) from None


# 2.3 and 2.4


@contract("2.3", "a notification has id, type, url, has_signing_key", "2.3-fields 2.3-type")
def check_notification_fields(probe: Probe) -> None:
    found = shapes.one(probe.update({}), "an empty update")
    fields = {"id": TEXT, "type": TEXT, "url": TEXT, "has_signing_key": shapes.FLAG}
    shapes.require_fields(found, fields, "notification")
    shapes.equal(found["type"], "webhook", "type")
    shapes.equal(found["id"], probe.target.notification, "id")


@contract("2.4", "the relayer's text fields are strings", "2.4-strings")
def check_relayer_fields(probe: Probe) -> str:
    return _counted("relayer", probe.hundred_relayers, _RELAYER)


@contract("2.4", "paused and system_disabled are booleans", "2.4-flags 3-indicators")
def check_relayer_flags(probe: Probe) -> str:
    return _counted("relayer", probe.hundred_relayers, {"paused": shapes.FLAG, "system_disabled": shapes.FLAG})


@contract("2.4", "custom_rpc_urls are objects with url and weight", "2.4-rpc-urls")
def check_relayer_rpc_urls(probe: Probe) -> str:
    urls = []
    for relayer in probe.hundred_relayers:
        if shapes.require_types(relayer, {"custom_rpc_urls": shapes.ARRAY}, "relayer"):
            urls += relayer["custom_rpc_urls"]
    fields, none = {"url": TEXT, "weight": INTEGER}, "no listed relayer has a custom RPC URL"
    return shapes.each_has(urls, fields, "an item of custom_rpc_urls", none=none, counted="URLs")


@contract("2.4", "disabled_reason has type and details, both strings", "2.4-disabled-reason 3-indicators")
def check_relayer_disabled_reason(probe: Probe) -> str:
    found = [each["disabled_reason"] for each in probe.hundred_relayers if each.get("disabled_reason") is not None]
    fields, none = {"type": TEXT, "details": TEXT}, "no listed relayer has a disabled_reason"
    return shapes.each_has(found, fields, "disabled_reason", none=none, counted="reasons")


@contract("2.4", "policies have the shown types", "2.4-policies")
def check_relayer_policies(probe: Probe) -> str:
    return _counted("policies", [relayer.get("policies") for relayer in probe.hundred_relayers], _POLICIES)


# 3


def _no_state(records: list[shapes.Json], what: str) -> None:
    for record in records:
        found = {"state", "status", "paused", "system_disabled", "disabled_reason"} & set(record)
        shapes.holds(not found, f"{what} without a field for a state", f"{sorted(found)}")


@contract("3", "a signer has no state", "3-no-state")
def check_signer_state(probe: Probe) -> None:
    _no_state(_signers(probe), "a signer")


@contract("3", "a notification has no state", "3-no-state")
def check_notification_state(probe: Probe) -> None:
    _no_state([shapes.one(probe.update({}), "an empty update")], "a notification")


# 4


def _add_refused(section: str, sentences: str, send: Send, *bodies: tuple[str, str, Any]) -> None:
    for name, claim, body in bodies:
        add("contract", section, name, claim, sentences, partial(_is_bad_request, send, body))


def _is_bad_request(send: Send, body: Any, probe: Probe) -> None:
    shapes.require_message(send(probe, body), BAD_REQUEST)


# 4.1


def _create(probe: Probe, body: Any) -> Answer:
    return probe.write("POST", SIGNERS, body)


_CONFIG = {"key": "11" * 32}
_NUMBER = {"type": "plain", "config": {"key": 1}}
_UNKNOWN = {"type": "provider_z", "config": {"key": "k"}}
_add_refused(
    "4.1",
    "4.1-bad-request",
    _create,
    ("create-no-object", "a body that is no object: Bad Request", []),
    ("create-wrong-config-type", "a config field of another type: Bad Request", _NUMBER),
    ("create-id-no-string", "an id that is no string: Bad Request", {"id": 1, "type": "plain", "config": _CONFIG}),
)
_add_refused(
    "4.1", "4.1-bad-request 4-json", _create, ("create-malformed", "a body that is not JSON: Bad Request", b"{")
)
_add_refused("4.1", "4.1-required", _create, ("create-without-type", "type is required", {"config": _CONFIG}))
_add_refused("4.1", "4.1-required", _create, ("create-without-config", "config is required", {"type": "plain"}))
_add_refused("4.1", "2.2-types", _create, ("create-unknown-type", "a type that is not listed: Bad Request", _UNKNOWN))


def _listed(probe: Probe, kind: str) -> None:
    signer = probe.signer(kind)
    found = probe.find(SIGNERS, str(signer.get("id")))
    if found is None:
        raise Differs("the created signer in the list", "no item with its id")
    shapes.equal(found.get("type"), signer.get("type"), "the type in the list")


@contract("4.1", "a created signer is in the list, with its type", "4.1-create")
def check_create_is_listed(probe: Probe) -> None:
    _listed(probe, "provider_c")


@contract("4.1", 'a taken id: "Signer with this ID already exists"', "4.1-duplicate")
def check_create_duplicate(probe: Probe) -> None:
    probe.created("plain")
    again = probe.create("plain", id=probe.signer_id("plain"))
    shapes.require_message(again, "Signer with this ID already exists")


@contract("4.1", "a refused duplicate leaves the signer as it was", "4.1-duplicate")
def check_duplicate_changes_nothing(probe: Probe) -> None:
    probe.created("plain")
    probe.create("provider_a_kms", id=probe.signer_id("plain"))
    _listed(probe, "plain")


# 4.2 and 4.4


def _lists(queries: tuple[str, ...], name: str, value: int, most_items: int, path: str, probe: Probe) -> None:
    """The effective value of a parameter, and how many items there are on a first page; 0: that is not looked at."""
    shown = "current_page" if name == "page" else name
    for query in queries:
        answer = probe.ask("GET", f"{path}?{query}" if query else path)
        at = shapes.pagination(answer, path)
        shapes.equal(at[shown], value, f"{shown} {f'with {query}' if name in query else f'without {name}'}")
        if most_items:
            found = len(shapes.many(answer, path))
            shapes.equal(found, min(most_items, at["total_items"]), f"items with {query}")


def _default_items(path: str, probe: Probe) -> None:
    answer = probe.ask("GET", f"{path}?page=1")
    total = shapes.pagination(answer, path)["total_items"]
    shapes.equal(len(shapes.many(answer, path)), min(10, total), "items of a first page")


def _second_page(path: str, probe: Probe) -> None:
    first, second = probe.two_pages(path)
    shapes.equal(shapes.pagination(second, path)["current_page"], 2, "current_page with page=2")
    names = [each.get("id") for answer in (first, second) for each in shapes.many(answer, path)]
    if len(names) != 2 or (names[0] == names[1] and names[0] is not None):
        raise Differs("another item on page 2 than on page 1", repr(names))


def _total(path: str, probe: Probe) -> str:
    """Of pages of one item, as many have an item as there are items."""
    total = shapes.pagination(probe.page(path, 1, 1), path)["total_items"]
    if total:
        shapes.equal(len(shapes.many(probe.page(path, total, 1), path)), 1, f"items on page {total} of one each")
    beyond = probe.page(path, total + 1, 1)  # its answer is open, but it has no item
    return shapes.holds(
        not field(beyond.json, "data"), f"no item beyond total_items ({total})", beyond.shown, f"{total} items"
    )


def _takes(query: str, path: str, probe: Probe) -> None:
    shapes.many(probe.ask("GET", f"{path}?{query}"), f"{path}?{query}")


def _refuses_query(query: str, path: str, probe: Probe) -> None:
    shapes.require_message(probe.ask("GET", f"{path}?{query}"), BAD_REQUEST)


for section, noun, path in (("4.2", "signers", SIGNERS), ("4.4", "relayers", RELAYERS)):
    for name, claim, check, sentence in (
        ("default-per-page", "per_page defaults to 10", partial(_lists, ("", "page=1"), "per_page", 10, 0), "per-page"),
        ("default-items", "a first page holds ten items, or all", _default_items, "per-page"),
        ("first-page", "page numbers start at 1", partial(_lists, ("page=1&per_page=1",), "page", 1, 1), "page"),
        ("per-page", "per_page is the size of a page", partial(_lists, ("per_page=1",), "per_page", 1, 1), "per-page"),
        ("second-page", "page 2 follows page 1", _second_page, "page"),
        ("total-items", "total_items counts all items", _total, "list"),
        ("page-0", "page=0 is accepted", partial(_takes, "page=0"), "page"),
        ("per-page-0", "per_page=0 is accepted", partial(_takes, "per_page=0"), "per-page"),
        ("page-negative", "page=-1: Bad Request", partial(_refuses_query, "page=-1"), "bad-request"),
        ("per-page-negative", "per_page=-1: Bad Request", partial(_refuses_query, "per_page=-1"), "bad-request"),
        ("page-text", "page=x: Bad Request", partial(_refuses_query, "page=x"), "bad-request"),
    ):
        add("contract", section, f"{noun}-{name}", claim, f"{section}-{sentence}", partial(check, path))


# 4.3

_URLS = [{"url": scratch_url(each)} for each in ("one", "two", "three")]
_WEBHOOK = {"type": "webhook"}
_SET, _REMOVE, _NULL = {"signing_key": "conform"}, {"signing_key": ""}, {"signing_key": None}
_KEY, _NO_KEY = {"has_signing_key": True}, {"has_signing_key": False}
_TO_SET: Steps = ((_REMOVE, {}), (_SET, _KEY))
_TO_REMOVE: Steps = ((_SET, {}), (_REMOVE, _NO_KEY), ({}, _NO_KEY))
_TO_KEEP: Steps = ((_SET, {}), (_URLS[2], _KEY), ({}, _KEY))
_TO_KEEP_WITH_NULL: Steps = ((_SET, {}), (_NULL, _KEY), (_REMOVE, {}), (_NULL, _NO_KEY))


def _updates(steps: Steps, probe: Probe) -> None:
    for body, expected in steps:
        found = probe.updated(body)
        for name, value in expected.items():
            shapes.equal(found.get(name), value, f"{name} after {sorted(body)}")


for name, claim, sentences, steps in (
    ("update-empty", "an empty object is allowed", "4.3-empty 5-bearer", (({}, {}),)),
    ("update-type", "type webhook is accepted", "4.3-update", ((_WEBHOOK, _WEBHOOK),)),
    ("update-url", "url is changed", "4.3-update", ((_URLS[0], _URLS[0]), (_URLS[1], _URLS[1]))),
    ("key-set", "a non-empty signing_key sets the key", "4.3-key-set 2.3-has-signing-key", _TO_SET),
    ("key-removed", 'signing_key "" removes the key', "4.3-key-removed 2.3-has-signing-key", _TO_REMOVE),
    ("key-absent", "without signing_key the key stays", "4.3-key-kept", _TO_KEEP),
    ("key-null", "signing_key null leaves the key as it is", "4.3-key-kept", _TO_KEEP_WITH_NULL),
):
    add("contract", "4.3", name, claim, sentences, partial(_updates, steps))


@contract("4.3", "the signing key is not returned", "2.3-key-not-returned")
def check_key_hidden(probe: Probe) -> None:
    key = secrets.token_hex(16)
    answer = probe.update({"signing_key": key})
    shapes.one(answer, "an update with signing_key")
    shapes.holds(key.encode() not in answer.body, "no signing key in the response", "the key that was sent")


_add_refused(
    "4.3",
    "4.3-bad-request",
    Probe.update,
    ("update-malformed", "a body that is not JSON: Bad Request", b"{"),
    ("update-no-object", "a body that is no object: Bad Request", []),
    ("update-other-type", "a type other than webhook: Bad Request", {"type": "email"}),
    ("update-url-no-string", "a url that is no string: Bad Request", {"url": 1}),
    ("update-key-no-string", "a signing_key that is no string: Bad Request", {"signing_key": 1}),
)


@contract("4.3", 'an unknown identifier: "Notification not found"', "4.3-not-found")
def check_update_unknown(probe: Probe) -> None:
    answer = probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {})
    shapes.require_message(answer, "Notification not found")


# 4.5


def _response(probe: Probe) -> Answer:
    """A JSON-RPC response to a call with a numeric id.

    That an unknown method, or a transaction that cannot be estimated, gets one at all is open.
    """
    for answer in (probe.fee_estimate, probe.unknown_method):
        if is_rpc(answer):
            return answer
        shapes.require_error(answer)
    raise NotChecked("every call is answered with an error envelope: needs --transaction", "--transaction HEX")


@contract("4.5", "the response has JSON-RPC's shape, not the envelope's", "4.5-call 5-bearer")
def check_rpc_shape(probe: Probe) -> None:
    answer = _response(probe)
    if field(answer.json, "result") is None and field(answer.json, "error") is None:
        raise Differs("a result or an error", answer.shown)


@contract("4.5", "jsonrpc is a string", "4.5-response")
def check_rpc_version(probe: Probe) -> None:
    shapes.require_fields(_response(probe).json, {"jsonrpc": TEXT}, "the response")


@contract("4.5", "the response id to a numeric id is a string", "4.5-response 4.5-id-optional")
def check_rpc_id(probe: Probe) -> None:
    shapes.require_fields(_response(probe).json, {"id": TEXT}, "the response")


@contract("4.5", "an error has code, message and description", "4.5-error 7-method-failures", looks_back=True)
def check_rpc_error(probe: Probe) -> str:
    errors = [field(each.json, "error") for each in probe.answers if each.request.endswith("/rpc") and is_rpc(each)]
    fields = {"code": INTEGER, "message": TEXT, "description": TEXT}
    given = [each for each in errors if each is not None]
    return shapes.each_has(given, fields, "error", none="no response had an error object", counted="errors")


@contract("4.5", "feeEstimate returns conversion_rate, estimated_fee, method", "4.5-params 4.5-result")
def check_fee_estimate(probe: Probe) -> str:
    result = probe.estimate()
    fields = dict.fromkeys(("conversion_rate", "estimated_fee", "method"), TEXT)
    shapes.equal(shapes.require_fields(result, fields, "result")["method"], "feeEstimate", "method")
    return f"estimated_fee {result['estimated_fee']}"


def _takes_id(value: Any, probe: Probe) -> None:
    """A call with this id is not refused where one with a numeric id is not. What is answered is open."""
    _response(probe)
    network = probe.relayer.get("network")
    is_answered = is_rpc(probe.unknown_method)
    answer = probe.call(rpc_call(id=value) if is_answered else probe.estimate_call(network, id=value))
    if answer.body and not is_rpc(answer):
        raise Differs("a JSON-RPC response, or none", answer.shown)


add("contract", "4.5", "rpc-without-id", "id is optional", "4.5-id-optional", partial(_takes_id, ...))
add("contract", "4.5", "rpc-null-id", "id may be null", "4.5-id-optional", partial(_takes_id, None))
_add_refused(
    "4.5",
    "4.5-bad-request 4.5-request",
    Probe.call,
    ("rpc-malformed", "a body that is not JSON: Bad Request", b"{"),
    ("rpc-no-object", "a body that is no object: Bad Request", "x"),
    ("rpc-version-no-string", "a jsonrpc that is no string: Bad Request", rpc_call(jsonrpc=2)),
    ("rpc-method-no-string", "a method that is no string: Bad Request", rpc_call(method=1)),
    ("rpc-params-no-object", "params that are no object: Bad Request", rpc_call(params="x")),
)


@contract("4.5", 'an unknown relayer: "Relayer with ID <relayer_id> not found"', "4.5-not-found")
def check_rpc_unknown_relayer(probe: Probe) -> None:
    name = f"{probe.name}-nobody"
    answer = probe.ask("POST", rpc_path(name), probe.estimate_call("mainnet"))
    shapes.require_message(answer, f"Relayer with ID {name} not found")


# 5


def _refuses(token: str, operation: str, probe: Probe) -> None:
    """One request of each operation, with another credential than the caller's."""
    nobody = f"{probe.name}-nobody"
    sent: dict[str, tuple[Any, ...]] = {
        "create-signer": ("POST", SIGNERS, {"type": "plain", "config": config("plain")[0]}),
        "list-signers": ("GET", SIGNERS),
        "update-notification": ("PATCH", notification_path(probe.target.notification or nobody), {}),
        "list-relayers": ("GET", RELAYERS),
        "rpc": ("POST", rpc_path(_any_relayer(probe) or nobody), rpc_call()),
    }
    send = probe.write if operation in ("create-signer", "update-notification") else probe.ask
    shapes.require_message(send(*sent[operation], token=token), shapes.UNAUTHORIZED)


def _any_relayer(probe: Probe) -> str:
    """Without a credential an unknown relayer has to be refused, too."""
    try:
        return str(probe.relayer["id"])
    except (NotChecked, Differs):
        return ""


_OPERATIONS = ("create-signer", "list-signers", "update-notification", "list-relayers", "rpc")
for name, claim, token in (
    ("{}-no-token", "no credential: Unauthorized", ""),
    ("{}-wrong-token", "an invalid token: Unauthorized", f"{secrets.token_hex(32)}-wrong"),
):
    add_each("contract", "5", _OPERATIONS, name, claim, "5-unauthorized", partial(_refuses, token))


# 7 to 9


@contract("7", "an error has data null, message and success false", "2.1-failure 1-envelope")
def check_error_body(probe: Probe) -> None:
    shapes.require_error(probe.ask("GET", SIGNERS, token=""))


@contract("7", "a message is one of the seven", "7-messages", looks_back=True)
def check_messages(probe: Probe) -> str:
    """Of the answers to contract checks: the others ask for what the contract leaves open."""
    known = {BAD_REQUEST, shapes.UNAUTHORIZED, shapes.TOO_MANY_REQUESTS, "Internal Server Error"}
    known |= {"Signer with this ID already exists", "Notification not found"}
    errors = [answer for answer in probe.answers if answer.error and answer.basis == "contract"]
    for answer in errors:
        is_relayer = answer.error.startswith("Relayer with ID ") and answer.error.endswith(" not found")
        shapes.holds(answer.error in known or is_relayer, "one of the seven messages", answer.shown)
    return f"{len(errors)} error responses"


@contract("7", "every request was answered, and none made the server fail", "1-envelope", looks_back=True)
def check_no_server_error(probe: Probe) -> str:
    failed = [each for each in probe.answers if each.error == "Internal Server Error" or _is_broken(each)]
    if failed:
        raise Differs("no Internal Server Error", f"{len(failed)} responses, the first: {failed[0].shown}")
    if probe.unanswered:
        raise Differs("a response to every request", f"{probe.unanswered} of {probe.requests} without one")
    return f"{len(probe.answers)} responses"


def _is_broken(answer: Answer) -> bool:
    """Status codes are open, but a server error without any JSON is no answer of the interface."""
    return answer.status >= 500 and not isinstance(answer.json, dict)


@contract("8", 'over the limit: "Too Many Requests"', "8-limited", looks_back=True)
def check_too_many_requests(probe: Probe) -> str:
    limited = [answer for answer in probe.answers if answer.is_limited]
    if not limited:
        raise DidNotOccur("no request met the limit; the checks do not try to")
    for answer in limited:
        shapes.require_message(answer, shapes.TOO_MANY_REQUESTS)
    return f"{len(limited)} responses"


@contract("9", "the paths carry /api/v1", "9-prefix")
def check_prefix(probe: Probe) -> None:
    shapes.many(probe.signers, "GET /api/v1/signers")
