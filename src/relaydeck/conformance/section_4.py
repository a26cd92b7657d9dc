"""Section 4: the five operations."""

import secrets
from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    call,
    create,
    created,
    estimate_call,
    fee_estimate,
    find,
    is_rpc,
    notification_path,
    page,
    rpc_call,
    rpc_path,
    scratch_url,
    signer_id,
    unknown_method,
    update,
)
from relaydeck.conformance.shapes import Answer, DidNotOccur, Differs, NotChecked, field, is_text, is_whole

BAD_REQUEST = "Bad Request"


# 4.1


def _refuses(probe: Probe, body: Any) -> None:
    shapes.require_message(probe.write("POST", SIGNERS, body), BAD_REQUEST)


for name, claim, sent, *sentences in (
    ("create-malformed", "a body that is not JSON: Bad Request", b"{", "4.1-bad-request", "4-json"),
    ("create-no-object", "a body that is no object: Bad Request", [], "4.1-bad-request"),
    ("create-without-type", "type is required", {"config": {"key": "00" * 32}}, "4.1-required"),
    ("create-without-config", "config is required", {"type": "plain"}, "4.1-required"),
    (
        "create-unknown-type",
        "a type that is not listed: Bad Request",
        {"type": "provider_z", "config": {"key": "k"}},
        "2.2-types",
    ),
    (
        "create-wrong-config-type",
        "a config field of another type: Bad Request",
        {"type": "plain", "config": {"key": 1}},
        "4.1-bad-request",
    ),
    (
        "create-id-no-string",
        "an id that is no string: Bad Request",
        {"id": 1, "type": "plain", "config": {"key": "11" * 32}},
        "4.1-bad-request",
    ),
):
    add("4.1", "contract", name, claim, partial(_refuses, body=sent), *map(str, sentences))


def _listed(probe: Probe, kind: str) -> None:
    signer = shapes.one(created(probe, kind), "a create")
    found = find(probe, SIGNERS, str(signer.get("id")))
    if found is None:
        raise Differs("the created signer in the list", "no item with its id")
    shapes.equal(found.get("type"), signer.get("type"), "the type in the list")


@contract("4.1", "a created signer is in the list, with its type", "4.1-create")
def check_create_is_listed(probe: Probe) -> None:
    _listed(probe, "provider_c")


@contract("4.1", 'a taken id: "Signer with this ID already exists"', "4.1-duplicate")
def check_create_duplicate(probe: Probe) -> None:
    created(probe, "plain")
    again = create(probe, "plain", id=signer_id(probe, "plain"))
    shapes.require_message(again, "Signer with this ID already exists")


@contract("4.1", "a refused duplicate leaves the signer as it was", "4.1-duplicate")
def check_duplicate_changes_nothing(probe: Probe) -> None:
    created(probe, "plain")
    create(probe, "provider_a_kms", id=signer_id(probe, "plain"))
    _listed(probe, "plain")


# 4.2 and 4.4


def _default_page(probe: Probe, path: str) -> None:
    for query in ("", "?page=1"):
        at = shapes.pagination(probe.ask("GET", f"{path}{query}"), path)
        shapes.equal(at["per_page"], 10, "per_page without per_page")


def _default_items(probe: Probe, path: str) -> None:
    answer = probe.ask("GET", f"{path}?page=1")
    total = shapes.pagination(answer, path)["total_items"]
    shapes.equal(len(shapes.many(answer, path)), min(10, total), "items of a first page")


def _first_page(probe: Probe, path: str) -> None:
    answer = page(probe, path, 1, 1)
    at = shapes.pagination(answer, path)
    shapes.equal(at["current_page"], 1, "current_page with page=1")
    shapes.equal(len(shapes.many(answer, path)), min(1, at["total_items"]), "items of page 1")


def _page_size(probe: Probe, path: str) -> None:
    answer = probe.ask("GET", f"{path}?per_page=1")
    at = shapes.pagination(answer, path)
    shapes.equal(at["per_page"], 1, "per_page with per_page=1")
    shapes.equal(len(shapes.many(answer, path)), min(1, at["total_items"]), "items with per_page=1")


def two_pages(probe: Probe, path: str) -> tuple[Answer, Answer]:
    """The first two pages of one item each."""
    if path == SIGNERS and probe.target.allow_writes:
        created(probe, "plain")
        created(probe, "provider_c")
    first = page(probe, path, 1, 1)
    if shapes.pagination(first, path)["total_items"] < 2:
        if path == SIGNERS and not probe.target.allow_writes:
            raise NotChecked("the server lists fewer than two signers: needs --allow-writes", "--allow-writes")
        raise NotChecked(f"{path} lists fewer than two items; it needs two")
    return first, page(probe, path, 2, 1)


def _second_page(probe: Probe, path: str) -> None:
    first, second = two_pages(probe, path)
    shapes.equal(shapes.pagination(second, path)["current_page"], 2, "current_page with page=2")
    names = [each.get("id") for answer in (first, second) for each in shapes.many(answer, path)]
    if len(names) != 2 or (names[0] == names[1] and names[0] is not None):
        raise Differs("another item on page 2 than on page 1", repr(names))


def _accepted(probe: Probe, path: str, query: str) -> None:
    shapes.many(probe.ask("GET", f"{path}?{query}"), f"{path}?{query}")


def _refused(probe: Probe, path: str, query: str) -> None:
    shapes.require_message(probe.ask("GET", f"{path}?{query}"), BAD_REQUEST)


def _total(probe: Probe, path: str) -> str:
    """Of pages of one item, as many have an item as there are items."""
    total = shapes.pagination(page(probe, path, 1, 1), path)["total_items"]
    if total:
        shapes.equal(len(shapes.many(page(probe, path, total, 1), path)), 1, f"items on page {total} of one each")
    beyond = page(probe, path, total + 1, 1)  # its answer is open, but it has no item
    if field(beyond.json, "data"):
        raise Differs(f"no item beyond total_items ({total})", beyond.shown)
    return f"{total} items"


for section, noun, target in (("4.2", "signers", SIGNERS), ("4.4", "relayers", RELAYERS)):
    for name, claim, run, sentence in (
        ("default-per-page", "per_page defaults to 10", _default_page, "per-page"),
        ("default-items", "a first page holds ten items, or all", _default_items, "per-page"),
        ("first-page", "page numbers start at 1", _first_page, "page"),
        ("per-page", "per_page is the size of a page", _page_size, "per-page"),
        ("second-page", "page 2 follows page 1", _second_page, "page"),
        ("total-items", "total_items counts all items", _total, "list"),
        ("page-0", "page=0 is accepted", partial(_accepted, query="page=0"), "page"),
        ("per-page-0", "per_page=0 is accepted", partial(_accepted, query="per_page=0"), "per-page"),
        ("page-negative", "page=-1: Bad Request", partial(_refused, query="page=-1"), "bad-request"),
        ("per-page-negative", "per_page=-1: Bad Request", partial(_refused, query="per_page=-1"), "bad-request"),
        ("page-text", "page=x: Bad Request", partial(_refused, query="page=x"), "bad-request"),
    ):
        add(section, "contract", f"{noun}-{name}", claim, partial(run, path=target), f"{section}-{sentence}")


# 4.3


def _updated(probe: Probe, body: shapes.Json) -> shapes.Json:
    answer = update(probe, body, changes_key=body.get("signing_key") is not None)
    return shapes.one(answer, f"an update with {sorted(body)}")


def _has_key(probe: Probe, body: shapes.Json, expected: bool) -> None:
    shapes.equal(_updated(probe, body).get("has_signing_key"), expected, f"has_signing_key after {sorted(body)}")


@contract("4.3", "an empty object is allowed", "4.3-empty", "5-bearer")
def check_update_empty(probe: Probe) -> None:
    _updated(probe, {})


@contract("4.3", "type webhook is accepted", "4.3-update")
def check_update_type(probe: Probe) -> None:
    shapes.equal(_updated(probe, {"type": "webhook"}).get("type"), "webhook", "type")


@contract("4.3", "url is changed", "4.3-update")
def check_update_url(probe: Probe) -> None:
    for url in (scratch_url("one"), scratch_url("two")):
        shapes.equal(_updated(probe, {"url": url}).get("url"), url, "url")


@contract("4.3", "a non-empty signing_key sets the key", "4.3-key-set", "2.3-has-signing-key")
def check_key_set(probe: Probe) -> None:
    _updated(probe, {"signing_key": ""})
    _has_key(probe, {"signing_key": "conform"}, True)


@contract("4.3", 'signing_key "" removes the key', "4.3-key-removed", "2.3-has-signing-key")
def check_key_removed(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    _has_key(probe, {"signing_key": ""}, False)
    _has_key(probe, {}, False)


@contract("4.3", "without signing_key the key stays", "4.3-key-kept")
def check_key_absent(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    _has_key(probe, {"url": scratch_url("three")}, True)
    _has_key(probe, {}, True)


@contract("4.3", "signing_key null leaves the key as it is", "4.3-key-kept")
def check_key_null(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    _has_key(probe, {"signing_key": None}, True)
    _updated(probe, {"signing_key": ""})
    _has_key(probe, {"signing_key": None}, False)


@contract("4.3", "the signing key is not returned", "2.3-key-not-returned")
def check_key_hidden(probe: Probe) -> None:
    key = secrets.token_hex(16)
    answer = update(probe, {"signing_key": key}, changes_key=True)
    shapes.one(answer, "an update with signing_key")
    if key.encode() in answer.body:
        raise Differs("no signing key in the response", "the key that was sent")


def _refuses_update(probe: Probe, body: Any, changes_key: bool = False) -> None:
    shapes.require_message(update(probe, body, changes_key=changes_key), BAD_REQUEST)


_REFUSED_UPDATES: tuple[tuple[str, str, Any], ...] = (
    ("update-malformed", "a body that is not JSON: Bad Request", b"{"),
    ("update-no-object", "a body that is no object: Bad Request", []),
    ("update-other-type", "a type other than webhook: Bad Request", {"type": "email"}),
    ("update-url-no-string", "a url that is no string: Bad Request", {"url": 1}),
)
for name, claim, refused in _REFUSED_UPDATES:
    add("4.3", "contract", name, claim, partial(_refuses_update, body=refused), "4.3-bad-request")
add(
    "4.3",
    "contract",
    "update-key-no-string",
    "a signing_key that is no string: Bad Request",
    partial(_refuses_update, body={"signing_key": 1}, changes_key=True),
    "4.3-bad-request",
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
    for answer in (fee_estimate(probe), unknown_method(probe)):
        if is_rpc(answer):
            return answer
        shapes.require_error(answer)
    raise NotChecked("every call is answered with an error envelope: needs --transaction", "--transaction HEX")


@contract("4.5", "the response has JSON-RPC's shape, not the envelope's", "4.5-call", "5-bearer")
def check_rpc_shape(probe: Probe) -> None:
    answer = _response(probe)
    if field(answer.json, "result") is None and field(answer.json, "error") is None:
        raise Differs("a result or an error", answer.shown)


@contract("4.5", "jsonrpc is a string", "4.5-response")
def check_rpc_version(probe: Probe) -> None:
    shapes.require_fields(_response(probe).json, {"jsonrpc": is_text}, "the response")


@contract("4.5", "the response id to a numeric id is a string", "4.5-response", "4.5-id-optional")
def check_rpc_id(probe: Probe) -> None:
    shapes.require_fields(_response(probe).json, {"id": is_text}, "the response")


@contract("4.5", "an error has code, message and description", "4.5-error", "7-method-failures", looks_back=True)
def check_rpc_error(probe: Probe) -> str:
    errors = [field(each.json, "error") for each in probe.answers if each.request.endswith("/rpc") and is_rpc(each)]
    given = [each for each in errors if each is not None]
    if not given:
        raise DidNotOccur("no response had an error object")
    for error in given:
        shapes.require_fields(error, {"code": is_whole, "message": is_text, "description": is_text}, "error")
    return f"{len(given)} errors"


def estimate(probe: Probe) -> Any:
    """The result of an estimate; raises NotChecked with the server's reason when there is none."""
    answer = fee_estimate(probe)
    result = field(answer.json, "result")
    if result is not None:
        return result
    reason = _failure(answer)
    options = [] if probe.target.transaction else ["--transaction HEX", "--fee-token TOKEN"]
    if "unreachable" in reason.lower():  # no other transaction helps
        options = ["--relayer ID"]
    raise NotChecked(
        f"no estimate of {'the' if probe.target.transaction else 'a sample'} transaction: {reason}", *options
    )


def _failure(answer: Answer) -> str:
    """In the server's words."""
    if not is_rpc(answer):
        return str(shapes.require_error(answer)["message"])
    words = [field(answer.json, "error", name) for name in ("message", "description")]
    return shapes.without_paths(": ".join(each for each in words if isinstance(each, str) and each))


@contract("4.5", "feeEstimate returns conversion_rate, estimated_fee, method", "4.5-params", "4.5-result")
def check_fee_estimate(probe: Probe) -> str:
    result = estimate(probe)
    fields = dict.fromkeys(("conversion_rate", "estimated_fee", "method"), is_text)
    shapes.equal(shapes.require_fields(result, fields, "result")["method"], "feeEstimate", "method")
    return f"estimated_fee {result['estimated_fee']}"


def _takes(probe: Probe, **changed: Any) -> None:
    """A call with this id is not refused where one with a numeric id is not. What is answered is open."""
    _response(probe)
    body = rpc_call() if is_rpc(unknown_method(probe)) else estimate_call(probe, field(probe.relayer, "network"))
    answer = call(probe, {name: value for name, value in (body | changed).items() if value is not ...})
    if answer.body and not is_rpc(answer):
        raise Differs("a JSON-RPC response, or none", answer.shown)


add("4.5", "contract", "rpc-without-id", "id is optional", partial(_takes, id=...), "4.5-id-optional")
add("4.5", "contract", "rpc-null-id", "id may be null", partial(_takes, id=None), "4.5-id-optional")


def _rpc_refuses(probe: Probe, body: Any) -> None:
    shapes.require_message(call(probe, body), BAD_REQUEST)


_REFUSED_CALLS: tuple[tuple[str, str, Any], ...] = (
    ("rpc-malformed", "a body that is not JSON: Bad Request", b"{"),
    ("rpc-no-object", "a body that is no object: Bad Request", "x"),
    ("rpc-version-no-string", "a jsonrpc that is no string: Bad Request", rpc_call(jsonrpc=2)),
    ("rpc-method-no-string", "a method that is no string: Bad Request", rpc_call(method=1)),
    ("rpc-params-no-object", "params that are no object: Bad Request", rpc_call(params="x")),
)
for name, claim, refused in _REFUSED_CALLS:
    add("4.5", "contract", name, claim, partial(_rpc_refuses, body=refused), "4.5-bad-request", "4.5-request")


@contract("4.5", 'an unknown relayer: "Relayer with ID <relayer_id> not found"', "4.5-not-found")
def check_rpc_unknown_relayer(probe: Probe) -> None:
    name = f"{probe.name}-nobody"
    answer = probe.ask("POST", rpc_path(name), estimate_call(probe, "mainnet"))
    shapes.require_message(answer, f"Relayer with ID {name} not found")
