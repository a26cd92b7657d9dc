"""Section 4: the five operations."""

from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Answer, Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    create,
    created,
    fee_estimate,
    notification_path,
    rpc_call,
    rpc_path,
    signer_id,
    unknown_method,
)
from relaydeck.conformance.shapes import is_text, is_whole
from relaydeck.conformance.verdicts import Differs, NotChecked

BAD_REQUEST = "Bad Request"
_URL = "https://hooks.example.com/conform"


# 4.1


def _refuses(probe: Probe, body: Any) -> None:
    shapes.require_message(probe.write("POST", SIGNERS, body), BAD_REQUEST)


add("4.1", "contract", "create-malformed", "a body that is no JSON is a Bad Request", partial(_refuses, body=b"{"))
add("4.1", "contract", "create-no-object", "a body that is no object is a Bad Request", partial(_refuses, body=[]))
add(
    "4.1",
    "contract",
    "create-without-type",
    "type is required",
    partial(_refuses, body={"config": {"key": "00" * 32}}),
)
add("4.1", "contract", "create-without-config", "config is required", partial(_refuses, body={"type": "plain"}))
add(
    "4.1",
    "contract",
    "create-unknown-type",
    "a type that is not listed is a Bad Request",
    partial(_refuses, body={"type": "provider_z", "config": {"key": "k"}}),
)
add(
    "4.1",
    "contract",
    "create-wrong-config-type",
    "a config field of another type is a Bad Request",
    partial(_refuses, body={"type": "plain", "config": {"key": 1}}),
)
add(
    "4.1",
    "contract",
    "create-id-no-string",
    "an id that is no string is a Bad Request",
    partial(_refuses, body={"id": 1, "type": "plain", "config": {"key": "k"}}),
)


@contract("4.1", "a created signer is in the list, as it was answered")
def check_create_is_listed(probe: Probe) -> None:
    signer = shapes.one(created(probe, "provider_c"), "a create")
    found = [each for each in _newest(probe) if each.get("id") == signer.get("id")]
    shapes.equal(found, [signer], "the listed signer")


@contract("4.1", 'a taken id is answered "Signer with this ID already exists"')
def check_create_duplicate(probe: Probe) -> None:
    created(probe, "plain")
    again = create(probe, "plain", id=signer_id(probe, "plain"))
    shapes.require_message(again, "Signer with this ID already exists")


@contract("4.1", "a refused duplicate leaves the signer as it was")
def check_duplicate_changes_nothing(probe: Probe) -> None:
    signer = shapes.one(created(probe, "plain"), "a create")
    create(probe, "provider_a_kms", id=signer_id(probe, "plain"))
    found = [each for each in _newest(probe) if each.get("id") == signer.get("id")]
    shapes.equal(found, [signer], "the listed signer")


def _newest(probe: Probe) -> list[shapes.Json]:
    """The last signers, wherever they are in the order: the ends of the list."""
    total = shapes.pagination(probe.ask("GET", f"{SIGNERS}?per_page=1"), "the list of signers")["total_items"]
    last = max(1, -(-total // 100))
    pages = dict.fromkeys((1, max(1, last - 1), last))
    answers = [probe.ask("GET", f"{SIGNERS}?per_page=100&page={page}") for page in pages]
    return [each for answer in answers for each in shapes.many(answer, "the list of signers")]


# 4.2 and 4.4


def _default_page(probe: Probe, path: str) -> None:
    at = shapes.pagination(probe.ask("GET", path), path)
    shapes.equal(at["per_page"], 10, "per_page without per_page")


def _default_items(probe: Probe, path: str) -> None:
    answer = probe.ask("GET", path)
    shapes.equal(
        len(shapes.many(answer, path)), min(10, shapes.pagination(answer, path)["total_items"]), "items of a first page"
    )


def _first_page(probe: Probe, path: str) -> None:
    default, first = probe.ask("GET", path), probe.ask("GET", f"{path}?page=1")
    shapes.equal(shapes.pagination(default, path)["current_page"], 1, "current_page without page")
    shapes.equal(shapes.many(first, path), shapes.many(default, path), "page 1 is the page without page")


def _page_size(probe: Probe, path: str) -> None:
    answer = probe.ask("GET", f"{path}?per_page=1")
    at = shapes.pagination(answer, path)
    shapes.equal(at["per_page"], 1, "per_page with per_page=1")
    shapes.equal(len(shapes.many(answer, path)), min(1, at["total_items"]), "items with per_page=1")


def _second_page(probe: Probe, path: str) -> None:
    whole = shapes.many(probe.ask("GET", f"{path}?per_page=2"), path)
    if len(whole) < 2:
        raise NotChecked("fewer than two items are listed")
    answer = probe.ask("GET", f"{path}?per_page=1&page=2")
    shapes.equal(shapes.pagination(answer, path)["current_page"], 2, "current_page with page=2")
    shapes.equal(shapes.many(answer, path), whole[1:], "page 2 of pages of one")


def _accepted(probe: Probe, path: str, query: str) -> None:
    shapes.many(probe.ask("GET", f"{path}?{query}"), f"{path}?{query}")


def _refused(probe: Probe, path: str, query: str) -> None:
    shapes.require_message(probe.ask("GET", f"{path}?{query}"), BAD_REQUEST)


def _total(probe: Probe, path: str) -> None:
    """Walks at most 20 pages: the total is the number of items there are."""
    counted, page, total = 0, 1, 0
    while page <= 20:
        answer = probe.ask("GET", f"{path}?per_page=100&page={page}")
        items, total = shapes.many(answer, path), shapes.pagination(answer, path)["total_items"]
        counted, page = counted + len(items), page + 1
        if not items:
            shapes.equal(counted, total, "items on all pages")
            return
    if counted > total:
        raise Differs(f"at most total_items ({total}) items", str(counted))


for section, noun, target in (("4.2", "signers", SIGNERS), ("4.4", "relayers", RELAYERS)):
    for name, claim, run in (
        ("default-per-page", "per_page defaults to 10", _default_page),
        ("default-items", "a first page holds ten items, or all", _default_items),
        ("first-page", "page numbers start at 1", _first_page),
        ("per-page", "per_page is the size of a page", _page_size),
        ("second-page", "page 2 follows page 1", _second_page),
        ("total-items", "total_items counts all items", _total),
    ):
        add(section, "contract", f"{noun}-{name}", claim, partial(run, path=target))
    for name, query in (("page-0", "page=0"), ("per-page-0", "per_page=0")):
        add(section, "contract", f"{noun}-{name}", f"{query} is accepted", partial(_accepted, path=target, query=query))
    for name, query in (("page-negative", "page=-1"), ("per-page-negative", "per_page=-1"), ("page-text", "page=x")):
        add(section, "contract", f"{noun}-{name}", f"{query}: Bad Request", partial(_refused, path=target, query=query))


# 4.3


def _update(probe: Probe, body: Any) -> Answer:
    return probe.write("PATCH", notification_path(probe.own_notification), body)


def _updated(probe: Probe, body: Any) -> shapes.Json:
    return shapes.one(_update(probe, body), f"an update with {sorted(body)}")


@contract("4.3", "an empty object is allowed and changes nothing")
def check_update_empty(probe: Probe) -> None:
    path = notification_path(probe.notification)
    before = shapes.one(probe.write("PATCH", path, {}), "an empty update")
    shapes.equal(shapes.one(probe.write("PATCH", path, {}), "an empty update"), before, "the notification")


@contract("4.3", "type webhook is accepted")
def check_update_type(probe: Probe) -> None:
    found = shapes.one(
        probe.write("PATCH", notification_path(probe.notification), {"type": "webhook"}), "an update of type"
    )
    shapes.equal(found.get("type"), "webhook", "type")


@contract("4.3", "url is changed")
def check_update_url(probe: Probe) -> None:
    shapes.equal(_updated(probe, {"url": f"{_URL}/one"}).get("url"), f"{_URL}/one", "url")
    shapes.equal(_updated(probe, {"url": f"{_URL}/two"}).get("url"), f"{_URL}/two", "url")
    shapes.equal(_updated(probe, {}).get("url"), f"{_URL}/two", "url at the next request")


@contract("4.3", "a non-empty signing_key sets the key")
def check_key_set(probe: Probe) -> None:
    _updated(probe, {"signing_key": ""})
    shapes.equal(_updated(probe, {"signing_key": "conform"}).get("has_signing_key"), True, "has_signing_key")


@contract("4.3", 'signing_key "" removes the key')
def check_key_removed(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    shapes.equal(_updated(probe, {"signing_key": ""}).get("has_signing_key"), False, "has_signing_key")
    shapes.equal(_updated(probe, {}).get("has_signing_key"), False, "has_signing_key at the next request")


@contract("4.3", "without signing_key the key stays")
def check_key_absent(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    shapes.equal(_updated(probe, {"url": _URL}).get("has_signing_key"), True, "has_signing_key")


@contract("4.3", "signing_key null leaves the key as it is")
def check_key_null(probe: Probe) -> None:
    _updated(probe, {"signing_key": "conform"})
    shapes.equal(_updated(probe, {"signing_key": None}).get("has_signing_key"), True, "has_signing_key")
    _updated(probe, {"signing_key": ""})
    shapes.equal(_updated(probe, {"signing_key": None}).get("has_signing_key"), False, "has_signing_key")


@contract("4.3", "the signing key is not returned")
def check_key_hidden(probe: Probe) -> None:
    answer = _update(probe, {"signing_key": "conform-key-value"})
    if b"conform-key-value" in answer.body:
        raise Differs("no signing key in the response", answer.shown)


def _refuses_update(probe: Probe, body: Any) -> None:
    shapes.require_message(probe.write("PATCH", notification_path(probe.notification), body), BAD_REQUEST)


for name, claim, sent in (
    ("update-malformed", "a body that is no JSON is a Bad Request", b"{"),
    ("update-no-object", "a body that is no object is a Bad Request", []),
    ("update-other-type", "a type other than webhook is a Bad Request", {"type": "email"}),
    ("update-key-no-string", "a signing_key that is no string is a Bad Request", {"signing_key": 1}),
    ("update-url-no-string", "a url that is no string is a Bad Request", {"url": 1}),
):
    add("4.3", "contract", name, claim, partial(_refuses_update, body=sent))


@contract("4.3", 'an unknown identifier is answered "Notification not found"')
def check_update_unknown(probe: Probe) -> None:
    answer = probe.write("PATCH", notification_path(f"{probe.name}-nobody"), {})
    shapes.require_message(answer, "Notification not found")


# 4.5


@contract("4.5", "the response has JSON-RPC's shape, not the envelope's")
def check_rpc_shape(probe: Probe) -> None:
    answer = unknown_method(probe)
    body = answer.json
    if not isinstance(body, dict) or "success" in body or "data" in body or not ("result" in body or "error" in body):
        raise Differs("jsonrpc, id, and result or error", answer.shown)


@contract("4.5", 'jsonrpc is "2.0"')
def check_rpc_version(probe: Probe) -> None:
    shapes.equal(_rpc_body(unknown_method(probe)).get("jsonrpc"), "2.0", "jsonrpc")


@contract("4.5", "the response id is a string")
def check_rpc_id(probe: Probe) -> None:
    shapes.require_fields(_rpc_body(unknown_method(probe)), {"id": is_text}, "the response", all_of=True)


@contract("4.5", "a failing method is reported in an error object with code, message and description")
def check_rpc_error(probe: Probe) -> None:
    error = _rpc_body(unknown_method(probe)).get("error")
    if not isinstance(error, dict):
        raise Differs("an error object for a method that does not exist", unknown_method(probe).shown)
    fields = {"code": is_whole, "message": is_text, "description": is_text}
    shapes.require_fields(error, fields, "error", all_of=True)


@contract("4.5", "feeEstimate returns conversion_rate, estimated_fee and method as strings")
def check_fee_estimate(probe: Probe) -> str:
    answer = fee_estimate(probe)
    body = _rpc_body(answer)
    if not isinstance(body.get("result"), dict):
        error = body.get("error")
        if not isinstance(error, dict):
            raise Differs("a result or an error object", answer.shown)
        raise NotChecked(f"no estimate: {error.get('message')}; give --transaction and --fee-token")
    fields = dict.fromkeys(("conversion_rate", "estimated_fee", "method"), is_text)
    shapes.require_fields(body["result"], fields, "result", all_of=True)
    shapes.equal(body["result"]["method"], "feeEstimate", "method")
    return f"estimated_fee {body['result']['estimated_fee']}"


def _rpc_accepts(probe: Probe, body: Any) -> None:
    answer = probe.ask("POST", rpc_path(probe.relayer["id"]), body)
    if "jsonrpc" not in _rpc_body(answer):
        raise Differs("a JSON-RPC response", answer.shown)


_WITHOUT_ID = {name: value for name, value in rpc_call().items() if name != "id"}
add("4.5", "contract", "rpc-without-id", "id is optional", partial(_rpc_accepts, body=_WITHOUT_ID))
add("4.5", "contract", "rpc-null-id", "id may be null", partial(_rpc_accepts, body=rpc_call(id=None)))


def _rpc_refuses(probe: Probe, body: Any) -> None:
    shapes.require_message(probe.ask("POST", rpc_path(probe.relayer["id"]), body), BAD_REQUEST)


for name, claim, call in (
    ("rpc-malformed", "a body that is no JSON is a Bad Request", b"{"),
    ("rpc-no-object", "a body that is no object is a Bad Request", "x"),
    ("rpc-method-no-string", "a method that is no string is a Bad Request", rpc_call(method=1)),
    ("rpc-params-no-object", "params that are no object are a Bad Request", rpc_call(params="x")),
):
    add("4.5", "contract", name, claim, partial(_rpc_refuses, body=call))


@contract("4.5", 'an unknown relayer is answered "Relayer with ID <relayer_id> not found"')
def check_rpc_unknown_relayer(probe: Probe) -> None:
    name = f"{probe.name}-nobody"
    shapes.require_message(probe.ask("POST", rpc_path(name), rpc_call()), f"Relayer with ID {name} not found")


def _rpc_body(answer: Answer) -> shapes.Json:
    body = answer.json
    if not isinstance(body, dict):
        raise Differs("a JSON-RPC response", answer.shown)
    return body
