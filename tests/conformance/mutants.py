"""Servers that are wrong in one way each, by the check that has to find it."""

import json
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from tests.conformance.mutating_proxy import Asked, Mutation, answer_json
from tests.support.running import Answer

SIGNERS, RELAYERS = "/api/v1/signers", "/api/v1/relayers"
PATHS = {"signers": SIGNERS, "relayers": RELAYERS}
BAD_REQUEST = answer_json(400, {"data": None, "message": "Bad Request", "success": False})
Where = Callable[[Asked], bool]
MUTANTS: dict[str, Mutation] = {}


# Where


def creates(asked: Asked) -> bool:
    return (asked.method, asked.path) == ("POST", SIGNERS)


def updates(asked: Asked) -> bool:
    return asked.method == "PATCH"


def calls(asked: Asked) -> bool:
    return asked.path.endswith("/rpc")


def lists(noun: str) -> Where:
    return lambda asked: (asked.method, asked.path) == ("GET", PATHS[noun])


def queried(noun: str, name: str, value: str | None = None) -> Where:
    """A list with that parameter, with any value or the one given."""

    def where(asked: Asked) -> bool:
        given = parse_qs(asked.query).get(name, [""])[0]
        return lists(noun)(asked) and bool(given) and value in (None, given)

    return where


def unqueried(noun: str) -> Where:
    return lambda asked: lists(noun)(asked) and not asked.query


def creates_type(kind: str) -> Where:
    return lambda asked: creates(asked) and isinstance(asked.json, dict) and asked.json.get("type") == kind


def updates_with(name: str, *values: Any) -> Where:
    return lambda asked: updates(asked) and isinstance(asked.json, dict) and asked.json.get(name, ...) in values


# How


def edit(where: Where, change: Callable[[Any], Any]) -> Mutation:
    """Changes the body of a successful answer."""

    def after(asked: Asked, answer: Answer) -> Answer:
        if not where(asked) or answer.status >= 300:
            return answer
        body = json.loads(answer.body)
        changed = change(body)
        return answer._replace(body=json.dumps(body if changed is None else changed).encode())

    return Mutation(after=after)


def put(where: Where, *path: Any, value: Any = ...) -> Mutation:
    """Puts a value at a place of the answer's body, or removes what is there. `*` is every item of an array."""

    def change(body: Any) -> None:
        _put(body, path, value)

    return edit(where, change)


def _put(body: Any, path: tuple[Any, ...], value: Any) -> None:
    first, *rest = path
    for key in range(len(body)) if first == "*" else [first]:
        if rest:
            _put(body[key], tuple(rest), value)
        elif value is ...:
            body.pop(key, None)
        else:
            body[key] = value


def refuse(where: Where, answer: Answer = BAD_REQUEST) -> Mutation:
    return Mutation(before=lambda asked: answer if where(asked) else asked)


def rewrite(where: Where, change: Callable[[Any], Any]) -> Mutation:
    """Changes the body of a request before the service sees it."""
    return Mutation(before=lambda asked: asked.with_json(change(asked.json)) if where(asked) else asked)


def requery(where: Where, query: str) -> Mutation:
    return Mutation(before=lambda asked: asked._replace(query=query) if where(asked) else asked)


def accept(where: Where, body: Any) -> Mutation:
    return refuse(where, answer_json(200, body))


ENVELOPE = {"error": "", "metadata": {"logs": [], "traces": []}, "success": True}
A_SIGNER = {"data": {"id": "s", "type": "local", "config": {}}, **ENVELOPE}
A_NOTIFICATION = {"data": {"id": "scratch", "type": "webhook", "url": "u", "has_signing_key": True}, **ENVELOPE}
AN_EMPTY_LIST = {"data": [], "pagination": {"current_page": 1, "per_page": 10, "total_items": 0}, **ENVELOPE}
AN_RPC_ERROR = {"jsonrpc": "2.0", "id": "7", "error": {"code": -32700, "message": "m", "description": "d"}}


def is_malformed(asked: Asked) -> bool:
    return asked.body == b"{"


# Section 2.1

for noun in PATHS:
    MUTANTS |= {
        f"{noun}-success": put(lists(noun), "success", value="true"),
        f"{noun}-data": edit(lists(noun), lambda body: body | {"data": {"items": body["data"]}}),
        f"{noun}-error-field": put(lists(noun), "error", value=0),
        f"{noun}-metadata": put(lists(noun), "metadata", "traces", value={}),
        f"{noun}-pagination": put(lists(noun), "pagination", "total_items", value="12"),
    }
MUTANTS["log-entries"] = put(lists("signers"), "metadata", "logs", value=[{"level": "log"}])

# Section 2.2

MUTANTS |= {
    "signer-fields": put(lists("signers"), "data", "*", "config"),
    "signer-config": put(lists("signers"), "data", "*", "config", "key_name", value=7),
    "optional-config-fields": refuse(
        lambda asked: creates_type("provider_c")(asked) and "mount_point" not in asked.json["config"]
    ),
    "signer-id": edit(creates, lambda body: body["data"].update(id=body["data"]["id"].upper())),
    "signer-uuid": put(lambda asked: creates(asked) and "id" not in asked.json, "data", "id", value="signer-1"),
}
_REQUIRED = {
    "plain": ("key", "00" * 32),
    "provider_a_kms": ("region", "eu"),
    "provider_b_kms": ("service_account", {}),
    "provider_c": ("role_id", "r"),
    "provider_c_transit": ("pubkey", "p"),
    "provider_d": ("organization_id", "o"),
    "provider_e": ("wallet_secret", "w"),
}


def _with_default(field: str, value: Any) -> Callable[[Any], Any]:
    return lambda body: body | {"config": {field: value} | body.get("config", {})}


def _echoing(kind: str) -> Mutation:
    """Answers with the config as it was sent."""

    def after(asked: Asked, answer: Answer) -> Answer:
        if not creates_type(kind)(asked) or answer.status != 201:
            return answer
        body = json.loads(answer.body)
        body["data"]["config"] = asked.json["config"]
        return answer._replace(body=json.dumps(body).encode())

    return Mutation(after=after)


for kind, (field, value) in _REQUIRED.items():
    MUTANTS[f"config-{kind}"] = rewrite(creates_type(kind), _with_default(field, value))
    if kind != "provider_b_kms":  # what its config holds is not shown
        MUTANTS[f"signer-type-{kind}"] = refuse(creates_type(kind))
    if kind not in ("provider_a_kms", "provider_b_kms"):  # no config field of theirs is known to be secret
        MUTANTS[f"secrets-{kind}"] = _echoing(kind)


def _shown_later() -> Mutation:
    """Lists signers with the secrets that their creation hid."""
    keys = []

    def after(asked: Asked, answer: Answer) -> Answer:
        if creates_type("provider_c")(asked) and answer.status == 201:
            keys.append(asked.json["config"]["secret_id"])
        return lists_with_keys.after(asked, answer)

    lists_with_keys = edit(lists("signers"), lambda body: body | {"keys": keys})
    return Mutation(after=after)


MUTANTS["secrets-later"] = _shown_later()

# Sections 2.3 and 2.4

MUTANTS |= {
    "notification-fields": put(updates, "data", "has_signing_key"),
    "relayer-fields": put(lists("relayers"), "data", "*", "signer_id", value=1),
    "relayer-flags": put(lists("relayers"), "data", "*", "paused", value=0),
    "relayer-rpc-urls": put(lists("relayers"), "data", "*", "custom_rpc_urls", value=[{"url": "http://x"}]),
    "relayer-disabled-reason": put(lists("relayers"), "data", "*", "disabled_reason", value={"type": "X"}),
    "relayer-policies": put(lists("relayers"), "data", "*", "policies", "min_balance", value="0"),
}

# Section 3

MUTANTS |= {
    "signer-state": put(lists("signers"), "data", "*", "status", value="active"),
    "notification-state": put(updates, "data", "paused", value=False),
}

# Section 4.1

MUTANTS |= {
    "create-malformed": accept(lambda asked: creates(asked) and is_malformed(asked), A_SIGNER),
    "create-no-object": accept(lambda asked: creates(asked) and asked.json == [], A_SIGNER),
    "create-without-type": rewrite(
        lambda asked: creates(asked) and isinstance(asked.json, dict), lambda body: {"type": "plain"} | body
    ),
    "create-without-config": rewrite(
        lambda asked: creates(asked) and isinstance(asked.json, dict), lambda body: {"config": {"key": "k"}} | body
    ),
    "create-unknown-type": rewrite(creates_type("provider_z"), lambda body: body | {"type": "plain"}),
    "create-wrong-config-type": rewrite(
        creates_type("plain"), lambda body: body | {"config": {"key": str((body.get("config") or {}).get("key"))}}
    ),
    "create-id-no-string": rewrite(
        lambda asked: creates(asked) and isinstance(asked.json, dict) and isinstance(asked.json.get("id"), int),
        lambda body: {name: value for name, value in body.items() if name != "id"},
    ),
    "create-is-listed": edit(
        lists("signers"),
        lambda body: body | {"data": [each for each in body["data"] if each["type"] != "provider_c"]},
    ),
    "create-duplicate": Mutation(
        after=lambda asked, answer: answer._replace(body=answer.body.replace(b"Signer with this ID", b"Signer"))
    ),
    "duplicate-changes-nothing": edit(
        lists("signers"),
        lambda body: (
            body
            | {
                "data": [
                    each | {"type": "other"} if each["id"].startswith("conform") else each for each in body["data"]
                ]
            }
        ),
    ),
}

# Sections 4.2 and 4.4


def _fewer(body: Any) -> Any:
    return body | {"data": body["data"][:-1]}


def _page_as_total(body: Any) -> None:
    body["pagination"]["total_items"] = len(body["data"])


def _counting_from_0(noun: str) -> Mutation:
    def before(asked: Asked) -> Asked:
        given = parse_qs(asked.query)
        if not lists(noun)(asked) or not given.get("page", [""])[0].isdecimal():
            return asked
        page, size = int(given["page"][0]) + 1, given.get("per_page", ["10"])[0]
        return asked._replace(query=f"page={page}&per_page={size}")

    return Mutation(before=before)


for noun in PATHS:
    MUTANTS |= {
        f"{noun}-default-per-page": requery(unqueried(noun), "per_page=20"),
        f"{noun}-default-items": edit(lists(noun), _fewer),
        f"{noun}-first-page": _counting_from_0(noun),
        f"{noun}-per-page": requery(queried(noun, "per_page"), ""),
        f"{noun}-second-page": requery(queried(noun, "page", "2"), "per_page=1"),
        f"{noun}-total-items": edit(lists(noun), _page_as_total),
        f"{noun}-page-0": refuse(queried(noun, "page", "0")),
        f"{noun}-per-page-0": refuse(queried(noun, "per_page", "0")),
        f"{noun}-page-negative": requery(queried(noun, "page", "-1"), ""),
        f"{noun}-per-page-negative": requery(queried(noun, "per_page", "-1"), ""),
        f"{noun}-page-text": requery(queried(noun, "page", "x"), ""),
    }

# Section 4.3


def _with_key(asked: Asked, answer: Answer) -> Answer:
    """Answers with the signing key that was sent."""
    if answer.status != 200 or not isinstance(asked.json, dict):
        return answer
    body = json.loads(answer.body)
    body["data"]["signing_key"] = asked.json.get("signing_key")
    return answer._replace(body=json.dumps(body).encode())


MUTANTS |= {
    "update-empty": refuse(lambda asked: updates(asked) and asked.json == {}),
    "update-type": refuse(updates_with("type", "webhook")),
    "update-url": rewrite(
        lambda asked: updates(asked) and isinstance(asked.json, dict) and isinstance(asked.json.get("url"), str),
        lambda body: {name: value for name, value in body.items() if name != "url"},
    ),
    "key-set": put(updates, "data", "has_signing_key", value=False),
    "key-removed": rewrite(updates_with("signing_key", ""), lambda body: {}),
    "key-absent": rewrite(
        lambda asked: updates(asked) and isinstance(asked.json, dict) and "signing_key" not in asked.json,
        lambda body: body | {"signing_key": ""},
    ),
    "key-null": rewrite(updates_with("signing_key", None), lambda body: body | {"signing_key": ""}),
    "key-hidden": Mutation(after=lambda asked, answer: _with_key(asked, answer) if updates(asked) else answer),
    "update-malformed": accept(lambda asked: updates(asked) and is_malformed(asked), A_NOTIFICATION),
    "update-no-object": accept(lambda asked: updates(asked) and asked.json == [], A_NOTIFICATION),
    "update-other-type": accept(updates_with("type", "email"), A_NOTIFICATION),
    "update-key-no-string": accept(updates_with("signing_key", 1), A_NOTIFICATION),
    "update-url-no-string": accept(updates_with("url", 1), A_NOTIFICATION),
    "update-unknown": Mutation(
        after=lambda asked, answer: answer._replace(body=answer.body.replace(b"Notification not found", b"Not Found"))
    ),
}

# Section 4.5

MUTANTS |= {
    "rpc-shape": edit(calls, lambda body: {"data": body, **ENVELOPE}),
    "rpc-version": put(calls, "jsonrpc", value=2.0),
    "rpc-version-no-string": accept(
        lambda asked: calls(asked) and isinstance(asked.json, dict) and asked.json.get("jsonrpc") == 2, AN_RPC_ERROR
    ),
    "rpc-id": put(calls, "id", value=7),
    "rpc-error": edit(calls, lambda body: body | {"error": {"code": "-32601", "message": "m", "description": "d"}}),
    "fee-estimate": edit(
        lambda asked: calls(asked) and b"feeEstimate" in asked.body,
        lambda body: body["result"].update(estimated_fee=0.1),
    ),
    "rpc-without-id": refuse(lambda asked: calls(asked) and isinstance(asked.json, dict) and "id" not in asked.json),
    "rpc-null-id": refuse(
        lambda asked: calls(asked) and isinstance(asked.json, dict) and asked.json.get("id", 0) is None
    ),
    "rpc-malformed": accept(lambda asked: calls(asked) and is_malformed(asked), AN_RPC_ERROR),
    "rpc-no-object": accept(lambda asked: calls(asked) and asked.json == "x", AN_RPC_ERROR),
    "rpc-method-no-string": accept(
        lambda asked: calls(asked) and isinstance(asked.json, dict) and asked.json.get("method") == 1, AN_RPC_ERROR
    ),
    "rpc-params-no-object": accept(
        lambda asked: calls(asked) and isinstance(asked.json, dict) and asked.json.get("params") == "x", AN_RPC_ERROR
    ),
    "rpc-unknown-relayer": Mutation(
        after=lambda asked, answer: (
            answer_json(404, {"data": None, "message": "Relayer not found", "success": False})
            if answer.status == 404
            else answer
        )
    ),
}

# Sections 5 to 9

_OPERATIONS: dict[str, tuple[Where, Any]] = {
    "create-signer": (creates, A_SIGNER),
    "list-signers": (lists("signers"), AN_EMPTY_LIST),
    "update-notification": (updates, A_NOTIFICATION),
    "list-relayers": (lists("relayers"), AN_EMPTY_LIST),
    "rpc": (calls, AN_RPC_ERROR),
}


def _let_in(where: Where, body: Any, *, credential: bool) -> Mutation:
    """Answers those who have no credential, or a wrong one."""

    def before(asked: Asked) -> Asked | Answer:
        given = asked.headers.get("authorization", "")
        wrong = given.endswith("-wrong") if credential else not given
        return answer_json(200, body) if where(asked) and wrong else asked

    return Mutation(before=before)


for operation, (where, body) in _OPERATIONS.items():
    MUTANTS[f"{operation}-no-token"] = _let_in(where, body, credential=False)
    MUTANTS[f"{operation}-wrong-token"] = _let_in(where, body, credential=True)


def _any_scheme(asked: Asked) -> Asked:
    given = asked.headers.get("authorization", "").replace("Basic ", "Bearer ")
    return asked._replace(headers=asked.headers | {"authorization": given}) if given else asked


def _error(change: Callable[[Any], Any]) -> Mutation:
    def after(asked: Asked, answer: Answer) -> Answer:
        if answer.status < 400:
            return answer
        return answer._replace(body=json.dumps(change(json.loads(answer.body))).encode())

    return Mutation(after=after)


MUTANTS |= {
    "error-body": _error(lambda body: {"message": body["message"], "success": False}),
    "messages": _error(lambda body: body | {"message": "Access denied"}),
    "no-server-error": _error(lambda body: body | {"message": "Internal Server Error"}),
    "too-many-requests": refuse(
        lists("signers"), answer_json(429, {"data": None, "message": "Slow down", "success": False})
    ),
    "prefix": refuse(lists("signers"), answer_json(404, {"data": None, "message": "Not Found", "success": False})),
}

# Rulings: a server that differs is not wrong, and the report says what it does.

RULINGS: dict[str, tuple[Mutation, str]] = {
    "other-scheme": (Mutation(before=_any_scheme), "200"),
    "error-fields": (_error(lambda body: body | {"code": 401}), '"code": 401'),
    "json-content-type": (
        Mutation(after=lambda _, answer: answer._replace(headers=answer.headers | {"content-type": "text/plain"})),
        "text/plain",
    ),
    "status-unauthorized": (
        Mutation(after=lambda _, answer: answer._replace(status=500) if answer.status == 401 else answer),
        "500 Unauthorized",
    ),
    "other-prefix": (
        Mutation(before=lambda asked: asked._replace(path=SIGNERS) if asked.path.startswith("/conform-") else asked),
        "200",
    ),
    "rpc-version-value": (put(calls, "jsonrpc", value="1.0"), "'1.0'"),
    "rpc-id-absent": (put(calls, "id", value="none"), "'none'"),
    "nested-config": (refuse(creates_type("provider_b_kms")), "Bad Request"),
    "provider_b_kms-service_account": (_echoing("provider_b_kms"), "returned"),
    "provider_c-role_id": (_echoing("provider_c"), "returned"),
    "signers-order-of-pages": (
        edit(queried("signers", "per_page", "2"), lambda body: body | {"data": body["data"][::-1]}),
        "id",
    ),
    "unset-fields": (put(lists("relayers"), "data", "*", "disabled_reason", value=None), "disabled_reason"),
    "amounts": (put(lists("relayers"), "data", "*", "policies", "min_balance", value=1.5), "1.5"),
    "metadata-present": (put(lists("signers"), "metadata"), "none"),
    "default-page": (put(unqueried("signers"), "pagination", "current_page", value=0), "0"),
    "listed-as-answered": (put(lists("signers"), "data", "*", "config", value={}), "{}"),
    "integers": (put(lists("signers"), "pagination", "total_items", value=2.0), "2.0"),
    "network-types": (put(lists("relayers"), "data", "*", "network_type", value="svm"), "'svm'"),
    "disabled-reasons": (
        put(lists("relayers"), "data", "*", "disabled_reason", value={"type": "Broken", "details": ""}),
        "'Broken'",
    ),
    "estimate-amounts": (
        edit(
            lambda asked: calls(asked) and b"feeEstimate" in asked.body,
            lambda body: body.get("result", {}).update(estimated_fee="1.20e-5"),
        ),
        "1.20e-5",
    ),
    "other-operation": (
        Mutation(before=lambda asked: asked._replace(path=SIGNERS) if "/signers/conform" in asked.path else asked),
        "200",
    ),
    "large-body": (refuse(lambda asked: calls(asked) and len(asked.body) > 2**20), "400 Bad Request"),
    "url-absent": (
        rewrite(lambda asked: updates(asked) and asked.json == {}, lambda body: {"url": "https://example.com"}),
        "'https://example.com'",
    ),
    "status-create": (
        Mutation(after=lambda _, answer: answer._replace(status=200) if answer.status == 201 else answer),
        "200",
    ),
    "plain-type": (put(creates_type("plain"), "data", "type", value="plain"), "'plain'"),
    "error-value": (put(lists("signers"), "error", value="none"), "'none'"),
    "list-order": (
        edit(lists("signers"), lambda body: body | {"data": [{"id": "first"} for _ in body["data"]]}),
        "['first']",
    ),
    "page-0-means": (put(queried("signers", "page", "0"), "pagination", "current_page", value=0), "0"),
    "past-the-end": (refuse(queried("signers", "page", "999999")), ""),
    "repeated-parameter": (requery(lambda asked: asked.query.count("page=") == 2, ""), "200"),
    "rpc-id-number": (put(calls, "id", value="07"), "'07'"),
    "rpc-batch": (accept(lambda asked: calls(asked) and isinstance(asked.json, list), [AN_RPC_ERROR]), "200"),
    "unknown-field": (
        rewrite(
            lambda asked: creates(asked) and isinstance(asked.json, dict),
            lambda body: {name: value for name, value in body.items() if name != "colour"},
        ),
        "201",
    ),
    "readonly-refused": (
        Mutation(before=lambda asked: answer_json(403, {"message": "Forbidden"}) if calls(asked) else asked),
        "403 Forbidden",
    ),
    "reason": (
        Mutation(after=lambda _, answer: answer._replace(headers={"content-type": "application/json"})),
        "no such header",
    ),
}

# Whole servers that follow the contract and decide what it leaves open in another way: they conform.


def both(*mutations: Mutation) -> Mutation:
    def before(asked: Asked) -> Asked | Answer | None:
        for each in mutations:
            changed = each.before(asked)
            if not isinstance(changed, Asked):
                return changed
            asked = changed
        return asked

    def after(asked: Asked, answer: Answer) -> Answer:
        for each in mutations:
            answer = each.after(asked, answer)
        return answer

    return Mutation(before, after)


def _answering(change: Callable[[Asked, Any], Any]) -> Mutation:
    """Changes the body of every answer."""

    def after(asked: Asked, answer: Answer) -> Answer:
        body = json.loads(answer.body)
        return answer._replace(body=json.dumps(change(asked, body)).encode())

    return Mutation(after=after)


def _page_of(asked: Asked) -> tuple[int, int]:
    """The page and its size; zeros when the query is not plain."""
    given = {name: values[0] for name, values in parse_qs(asked.query).items()}
    texts = given.get("page", "1"), given.get("per_page", "10")
    page, size = (int(text) if text.isdecimal() else 0 for text in texts)
    return page, size


def _newest_first() -> Mutation:
    def is_plain(asked: Asked) -> bool:
        return lists("signers")(asked) and all(_page_of(asked))

    def after(asked: Asked, answer: Answer) -> Answer:
        if not is_plain(asked) or answer.status != 200:
            return answer
        body, (page, size) = json.loads(answer.body), _page_of(asked)
        body["data"] = body["data"][::-1][(page - 1) * size : page * size]
        body["pagination"] |= {"current_page": page, "per_page": size}
        return answer._replace(body=json.dumps(body).encode())

    return Mutation(requery(is_plain, "per_page=1000").before, after)


def _left_out(body: Any) -> None:
    del body["error"], body["metadata"]
    for relayer in body["data"]:
        for name in ("name", "network_type", "address", "signer_id", "paused", "policies"):
            relayer.pop(name, None)


def _with_more(asked: Asked, body: Any) -> Any:
    more = {"version": 1, "links": {"self": asked.path}}
    data = body.get("data")
    items = data if isinstance(data, list) else [data]
    for each in items:
        if isinstance(each, dict):
            each |= more
    return body | more


def _zero_is_zero(asked: Asked, body: Any) -> Any:
    given = parse_qs(asked.query)
    if asked.method == "GET" and "pagination" in body and given.get("page") == ["0"]:
        body["pagination"]["current_page"] = 0
    if asked.method == "GET" and "pagination" in body and given.get("per_page") == ["0"]:
        return body | {"data": [], "pagination": body["pagination"] | {"per_page": 0}}
    return body


def _no_page_past_the_end(_: Asked, answer: Answer) -> Answer:
    at = json.loads(answer.body)
    return BAD_REQUEST if at.get("data") == [] and at["pagination"]["total_items"] else answer


def _only_known(asked: Asked, names: set[str]) -> Asked:
    if not isinstance(asked.json, dict):
        return asked
    return asked.with_json({k: v for k, v in asked.json.items() if k in names and (k, v) != ("id", None)})


def _unknown_ignored(asked: Asked) -> Asked:
    if creates(asked):
        return _only_known(asked, {"id", "type", "config"})
    return (
        _only_known(asked, {"jsonrpc", "method", "params", "id"}) if calls(asked) and b"colour" in asked.body else asked
    )


def _null_id(_: Asked, body: Any) -> Any:
    return body | {"id": ""} if "jsonrpc" in body and body.get("id", 0) is None else body


def _other_rpc_errors(_: Asked, body: Any) -> Any:
    own = {"code": 1, "message": "Nope.", "description": ""}
    return body | {"error": own, "result": None} if "jsonrpc" in body and "error" in body else body


def _null_for_unset(body: Any) -> Any:
    unset = {"notification_id": None, "disabled_reason": None}
    return body | {"error": None, "data": [unset | each for each in body["data"]]}


def _large_amounts(body: Any) -> None:
    for relayer in body["data"]:
        relayer["policies"] |= {"min_balance": 1e18, "gas_price_cap": 1.5e11}


def _plain_types(body: Any) -> None:
    for signer in body["data"]:
        signer["type"] = signer["type"].replace("local", "plain")


CONFORMING: dict[str, Mutation] = {
    "every status is 200": Mutation(after=lambda _, answer: answer._replace(status=200)),
    "amounts as 1e18": edit(lists("relayers"), _large_amounts),
    "integers with a fraction of zero": edit(
        lambda asked: asked.method == "GET",
        lambda body: body["pagination"].update({name: float(value) for name, value in body["pagination"].items()}),
    ),
    "jsonrpc 1.0": both(
        rewrite(
            lambda asked: calls(asked) and isinstance(asked.json, dict) and asked.json.get("jsonrpc") == "1.0",
            lambda body: body | {"jsonrpc": "2.0"},
        ),
        put(calls, "jsonrpc", value="1.0"),
    ),
    "an id for calls without one": _answering(_null_id),
    "no response to calls without id": Mutation(
        after=lambda asked, answer: (
            Answer(204, {}, b"")
            if calls(asked) and answer.status == 200 and "id" not in (asked.json or {"id": 0})
            else answer
        )
    ),
    "newest first": _newest_first(),
    "UUIDs of version 4": rewrite(
        lambda asked: creates(asked) and isinstance(asked.json, dict) and "id" not in asked.json,
        lambda body: body | {"id": str(uuid.uuid4())},
    ),
    "other headers": Mutation(
        after=lambda _, answer: answer._replace(headers={"content-type": "text/json", "x-request-id": "1"})
    ),
    "other JSON-RPC errors": _answering(_other_rpc_errors),
    "fields left out": edit(lists("relayers"), _left_out),
    "more fields": _answering(lambda asked, body: body if calls(asked) else _with_more(asked, body)),
    "an unknown method is a Bad Request": Mutation(
        after=lambda _, answer: BAD_REQUEST if b"-32601" in answer.body else answer
    ),
    "null for what is unset": edit(lists("relayers"), _null_for_unset),
    "zero is zero": _answering(_zero_is_zero),
    "no page past the end": Mutation(after=_no_page_past_the_end),
    "unknown fields ignored": Mutation(before=_unknown_ignored),
    "plain signers": both(
        put(creates_type("plain"), "data", "type", value="plain"),
        edit(lists("signers"), _plain_types),
    ),
    "any scheme": Mutation(before=_any_scheme),
}
