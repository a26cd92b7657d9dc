"""Section 4 of the contract: the five operations."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from relaydeck.identifiers import new_identifier
from relaydeck.notifications.model import Notification
from relaydeck.notifications.notification_changes import TABLE, place
from relaydeck.secret import Secret
from tests.contract.conftest import RELAYERS_SHOWN
from tests.support import shapes
from tests.support.places import ENGINES
from tests.support.running import Answer, Running, in_path
from tests.support.seeding import WEBHOOK, fill, issue, opened
from tests.support.stored_rows import create_row

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
OPERATIONS = [
    ("POST", SIGNERS, shapes.request("plain")),
    ("GET", SIGNERS, None),
    ("PATCH", "/api/v1/notifications/pager", {}),
    ("GET", RELAYERS, None),
    ("POST", "/api/v1/relayers/full/rpc", {"jsonrpc": "2.0", "method": "none", "params": {}}),
]
NAMES = ["create", "list signers", "update", "list relayers", "rpc"]
WRITES = [OPERATIONS[0], OPERATIONS[2], OPERATIONS[4]]


# sentence: 5-bearer
@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS, ids=NAMES)
def test_4_every_endpoint_requires_the_authorization_header(
    contract: Running, method: str, path: str, body: Any
) -> None:
    answer = contract.ask(method, path, body, token="")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS, ids=NAMES)
def test_4_every_endpoint_answers_with_a_json_content_type(
    contract: Running, method: str, path: str, body: Any
) -> None:
    assert contract.ask(method, path, body).headers["content-type"] == "application/json"


# sentence: 4-json
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=["create", "update", "rpc"])
@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_4_request_bodies_are_sent_with_a_json_content_type(
    contract: Running, method: str, path: str, body: Any, kind: str
) -> None:
    assert contract.ask(method, path, body, headers={"Content-Type": kind}).status < 300


# sentence: 4-content-type
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=["create", "update", "rpc"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json"])
def test_4_another_content_type_is_a_bad_request(
    contract: Running, method: str, path: str, body: Any, kind: str
) -> None:
    answer = contract.ask(method, path, body, headers={"Content-Type": kind})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# 4.1 Create a signer


# sentence: 4.1-create 9-prefix
def test_4_1_post_signers_creates_a_signer(contract: Running) -> None:
    answer = contract.ask("POST", SIGNERS, shapes.request("provider_c", id="4.1"))
    assert (answer.status, answer.json) == (
        201,
        shapes.success({"id": "4.1", "type": "provider_c", "config": shapes.shown_config("provider_c")}),
    )


@pytest.mark.parametrize("kind", shapes.TYPES)
def test_4_1_a_created_signer_is_listed_as_it_was_answered(contract: Running, kind: str) -> None:
    created = contract.ask("POST", SIGNERS, shapes.request(kind, id=f"4.1 {kind}")).json["data"]
    listed = contract.ask("GET", f"{SIGNERS}?per_page=1000").json["data"]
    assert [signer for signer in listed if signer["id"] == f"4.1 {kind}"] == [created]


# sentence: 4.1-required
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_4_1_config_is_required(contract: Running, kind: str) -> None:
    answer = contract.ask("POST", SIGNERS, {"type": kind})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.1-required
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_4_1_type_is_required(contract: Running, kind: str) -> None:
    answer = contract.ask("POST", SIGNERS, {"config": shapes.CONFIGS[kind]})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.1-required
def test_4_1_id_is_optional(contract: Running) -> None:
    assert contract.ask("POST", SIGNERS, shapes.request("provider_a_kms")).status == 201


def test_4_1_the_order_of_the_fields_does_not_matter(contract: Running) -> None:
    body = b'{"config":{"region":"r","key_id":"k"},"id":"backwards","type":"provider_a_kms"}'
    assert contract.ask("POST", SIGNERS, body).json == shapes.success(
        {"id": "backwards", "type": "provider_a_kms", "config": {}}
    )


# sentence: 4.1-bad-request
def test_4_1_error_malformed_request_gives_bad_request(contract: Running) -> None:
    answer = contract.ask("POST", SIGNERS, b"{")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_4_1_error_invalid_credentials_give_unauthorized(contract: Running) -> None:
    answer = contract.ask("POST", SIGNERS, shapes.request("plain"), token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# sentence: 4.1-duplicate
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_4_1_error_an_id_that_exists_gives_signer_with_this_id_already_exists(contract: Running, kind: str) -> None:
    answer = contract.ask("POST", SIGNERS, shapes.request(kind, id="ops"))
    assert (answer.status, answer.json) == (409, shapes.EXISTS)


def test_4_1_error_an_id_that_exists_leaves_the_signer_as_it_is(contract: Running) -> None:
    contract.ask("POST", SIGNERS, shapes.request("plain", id="stays"))
    contract.ask("POST", SIGNERS, shapes.request("provider_c", id="stays"))
    listed = contract.ask("GET", f"{SIGNERS}?per_page=1000").json["data"]
    assert [signer for signer in listed if signer["id"] == "stays"] == [{"id": "stays", "type": "local", "config": {}}]


def test_4_1_ids_are_told_apart_by_case(contract: Running) -> None:
    contract.ask("POST", SIGNERS, shapes.request("plain", id="case"))
    assert contract.ask("POST", SIGNERS, shapes.request("plain", id="CASE")).status == 201


# 4.2 List signers


@pytest.fixture(scope="module", params=ENGINES)
def listed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """Twenty-five signers, to which no test adds; the largest page holds twenty."""
    home = put(tmp_path_factory.mktemp("listed") / "home", request.param)
    fill(home, signers=[f"s{number:02}" for number in range(25)])
    with Running(home, token=issue(home), max_per_page="20") as running:
        yield running


def signers(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": f"s{number:02}", "type": "local", "config": {}} for number in range(start, min(stop, 25))]


# sentence: 4.2-list 4.2-per-page 4.2-order
def test_4_2_get_signers_lists_the_first_ten_in_creation_order(listed: Running) -> None:
    answer = listed.ask("GET", SIGNERS)
    assert (answer.status, answer.json) == (200, shapes.page(signers(0, 10), 1, 10, 25))


# sentence: 4.2-page
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_4_2_page_numbers_start_at_1(listed: Running, number: int) -> None:
    answer = listed.ask("GET", f"{SIGNERS}?page={number}")
    assert answer.json == shapes.page(signers((number - 1) * 10, number * 10), number, 10, 25)


# sentence: 4.2-zero
def test_4_2_page_0_is_accepted(listed: Running) -> None:
    assert listed.ask("GET", f"{SIGNERS}?page=0").json == shapes.page(signers(0, 10), 1, 10, 25)


# sentence: 4.2-per-page
@pytest.mark.parametrize("size", [1, 7, 20])
def test_4_2_per_page_is_the_size_of_a_page(listed: Running, size: int) -> None:
    assert listed.ask("GET", f"{SIGNERS}?page=2&per_page={size}").json == shapes.page(
        signers(size, 2 * size), 2, size, 25
    )


# sentence: 4.2-zero
def test_4_2_per_page_0_is_accepted(listed: Running) -> None:
    assert listed.ask("GET", f"{SIGNERS}?per_page=0").json == shapes.page(signers(0, 10), 1, 10, 25)


# sentence: 8-largest-page
def test_4_2_per_page_larger_than_the_largest_page_is_reduced_and_says_so(listed: Running) -> None:
    assert listed.ask("GET", f"{SIGNERS}?per_page=21").json == shapes.page(
        signers(0, 20), 1, 20, 25, "per_page was reduced to the largest allowed, 20"
    )


# sentence: 4.2-past-the-end
def test_4_2_a_page_past_the_end_is_empty_with_true_totals(listed: Running) -> None:
    assert listed.ask("GET", f"{SIGNERS}?page=999").json == shapes.page([], 999, 10, 25)


# sentence: 4.2-unknown-names
def test_4_2_unknown_query_names_are_ignored(listed: Running) -> None:
    assert listed.ask("GET", f"{SIGNERS}?Page=2&cursor=x&").json == shapes.page(signers(0, 10), 1, 10, 25)


def test_4_2_a_created_signer_is_in_the_next_list(contract: Running) -> None:
    contract.ask("POST", SIGNERS, shapes.request("plain", id="the last one"))
    total = contract.ask("GET", SIGNERS).json["pagination"]["total_items"]
    last = contract.ask("GET", f"{SIGNERS}?per_page=1&page={total}").json
    assert last == shapes.page([{"id": "the last one", "type": "local", "config": {}}], total, 1, total)


# sentence: 4.2-bad-request 4.2-not-decimal
@pytest.mark.parametrize("query", ["page=-1", "per_page=-1", "page=x", "per_page=1.5", "page=", "page=1&page=1"])
def test_4_2_error_bad_request(listed: Running, query: str) -> None:
    answer = listed.ask("GET", f"{SIGNERS}?{query}")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_4_2_error_unauthorized(listed: Running) -> None:
    answer = listed.ask("GET", SIGNERS, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# 4.3 Update a notification


@pytest.fixture
def webhook(contract: Running, request: pytest.FixtureRequest) -> str:
    """The path of a notification of this test's own, with a signing key."""
    name = f"of {request.function.__name__} {new_identifier()}"
    with opened(contract.home) as store, store.database.transaction() as transaction:
        notification = Notification(name, "webhook", WEBHOOK, Secret("the first key"))
        create_row(TABLE, transaction, store.vault, notification)
    return f"/api/v1/notifications/{in_path(name)}"


def update(contract: Running, path: str, body: Any) -> Answer:
    answer = contract.ask("PATCH", path, body)
    assert answer.status == 200, answer
    return answer


def stored_key(contract: Running, path: str) -> bytes | None:
    """What the service would sign with."""
    name = unquote(path.rpartition("/")[2])
    with opened(contract.home) as store:
        ((sealed, version),) = store.database.read(
            "SELECT sealed_signing_key, secret_version FROM notifications WHERE id = :id", {"id": name}
        )
        return None if sealed is None else store.vault.open(sealed, place(name, version))


# sentence: 4.3-update
def test_4_3_patch_changes_the_notification_of_its_path(contract: Running, webhook: str) -> None:
    body = {"type": "webhook", "url": "https://other.example.com/x", "signing_key": "second"}
    assert update(contract, webhook, body).json["data"] == {
        "id": unquote(webhook.rpartition("/")[2]),
        "type": "webhook",
        "url": "https://other.example.com/x",
        "has_signing_key": True,
    }


def test_4_3_a_change_is_there_at_the_next_request(contract: Running, webhook: str) -> None:
    changed = update(contract, webhook, {"url": "http://other.example.com:81/?x"}).json
    assert update(contract, webhook, {}).json == changed


# sentence: 4.3-empty 4.3-fields-kept
def test_4_3_an_empty_object_is_allowed_and_changes_nothing(contract: Running, webhook: str) -> None:
    assert update(contract, webhook, {}).json["data"]["url"] == WEBHOOK


def test_4_3_type_webhook_is_accepted(contract: Running, webhook: str) -> None:
    assert update(contract, webhook, {"type": "webhook"}).json["data"]["type"] == "webhook"


def test_4_3_a_change_of_url_leaves_the_key(contract: Running, webhook: str) -> None:
    update(contract, webhook, {"url": "https://other.example.com/"})
    assert stored_key(contract, webhook) == b"the first key"


# sentence: 4.3-key-kept
def test_4_3_signing_key_rule_1_an_absent_field_leaves_the_key_unchanged(contract: Running, webhook: str) -> None:
    update(contract, webhook, {})
    assert stored_key(contract, webhook) == b"the first key"


# sentence: 4.3-key-kept
def test_4_3_signing_key_rule_1_null_leaves_the_key_unchanged(contract: Running, webhook: str) -> None:
    update(contract, webhook, {"signing_key": None})
    assert stored_key(contract, webhook) == b"the first key"


def test_4_3_signing_key_rule_1_null_leaves_no_key_where_there_is_none(contract: Running, webhook: str) -> None:
    update(contract, webhook, {"signing_key": ""})
    assert update(contract, webhook, {"signing_key": None}).json["data"]["has_signing_key"] is False


# sentence: 4.3-key-removed
def test_4_3_signing_key_rule_2_an_empty_string_removes_the_key(contract: Running, webhook: str) -> None:
    update(contract, webhook, {"signing_key": ""})
    assert stored_key(contract, webhook) is None


def test_4_3_signing_key_rule_2_an_empty_string_is_answered_without_key(contract: Running, webhook: str) -> None:
    assert update(contract, webhook, {"signing_key": ""}).json["data"]["has_signing_key"] is False


# sentence: 4.3-key-set
@pytest.mark.parametrize("key", ["k", " ", "whsec_MfKQ", "é💥\u0000"], ids=ascii)
def test_4_3_signing_key_rule_3_a_non_empty_string_sets_the_key(contract: Running, webhook: str, key: str) -> None:
    update(contract, webhook, {"signing_key": key})
    assert stored_key(contract, webhook) == key.encode()


def test_4_3_signing_key_rule_3_a_key_is_set_where_there_was_none(contract: Running, webhook: str) -> None:
    update(contract, webhook, {"signing_key": ""})
    assert update(contract, webhook, {"signing_key": "again"}).json["data"]["has_signing_key"] is True


# sentence: 2.3-url-form
@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "/path",
        "ftp://example.com/",
        "http://",
        "https:///path",
        "http://a b/",
        "http://h:99999/",
        "javascript:alert(1)",
        "http://[::1/",
        " https://example.com",
        "https://example.com\n",
    ],
    ids=ascii,
)
def test_4_3_error_url_that_is_no_absolute_http_url(contract: Running, url: str) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/pager", {"url": url})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


@pytest.mark.parametrize(
    "url",
    [
        "HTTPS://Example.com",
        "http://127.0.0.1:1/",
        "http://[::1]:80/x?y#z",
        "https://user:pass@höst.example/é",
    ],
)
def test_4_3_url_is_kept_as_it_was_given(contract: Running, webhook: str, url: str) -> None:
    assert update(contract, webhook, {"url": url}).json["data"]["url"] == url


# sentence: 4.3-bad-request
def test_4_3_error_bad_request(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/pager", b"[]")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_4_3_error_unauthorized(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/pager", {}, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# sentence: 4.3-not-found
def test_4_3_error_unknown_identifier_gives_notification_not_found(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/nobody", {})
    assert (answer.status, answer.json) == (404, shapes.NO_NOTIFICATION)


def test_4_3_error_a_bad_body_is_refused_before_the_identifier_is_looked_up(contract: Running) -> None:
    assert contract.ask("PATCH", "/api/v1/notifications/nobody", {"url": 1}).json == shapes.BAD_REQUEST


# 4.4 List relayers


# sentence: 4.4-list 4.4-per-page
def test_4_4_get_relayers_lists_the_first_ten(contract: Running) -> None:
    answer = contract.ask("GET", RELAYERS)
    assert (answer.status, answer.json) == (200, shapes.page(RELAYERS_SHOWN[:10], 1, 10, 12))


# sentence: 4.4-page
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_4_4_page_numbers_start_at_1(contract: Running, number: int) -> None:
    shown = RELAYERS_SHOWN[(number - 1) * 5 : number * 5]
    assert contract.ask("GET", f"{RELAYERS}?page={number}&per_page=5").json == shapes.page(shown, number, 5, 12)


def test_4_4_page_0_is_accepted(contract: Running) -> None:
    assert contract.ask("GET", f"{RELAYERS}?page=0").json == shapes.page(RELAYERS_SHOWN[:10], 1, 10, 12)


def test_4_4_per_page_0_is_accepted(contract: Running) -> None:
    assert contract.ask("GET", f"{RELAYERS}?per_page=0").json == shapes.page(RELAYERS_SHOWN[:10], 1, 10, 12)


def test_4_4_the_pages_one_after_the_other_are_the_whole_list(contract: Running) -> None:
    pages = [contract.ask("GET", f"{RELAYERS}?page={n}&per_page=1").json["data"] for n in range(1, 14)]
    assert [item for page in pages for item in page] == RELAYERS_SHOWN


# sentence: 4.4-bad-request
@pytest.mark.parametrize("query", ["page=-1", "per_page=-1", "page=x", "per_page=1.5", "page=", "page=1&page=1"])
def test_4_4_error_bad_request(contract: Running, query: str) -> None:
    answer = contract.ask("GET", f"{RELAYERS}?{query}")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_4_4_error_unauthorized(contract: Running) -> None:
    answer = contract.ask("GET", RELAYERS, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# 4.5 JSON-RPC call through a relayer

RPC = "/api/v1/relayers/r00/rpc"
PARAMS = {"fee_token": "ETH", "network": "dev", "transaction": "0x" + "00" * 8}


def call(contract: Running, body: Any, path: str = RPC) -> Answer:
    return contract.ask("POST", path, body)


def no_such_method(answered_id: str | None) -> dict[str, Any]:
    error = {"code": -32601, "message": "Method not found", "description": "feeEstimate is the only method."}
    return {"jsonrpc": "2.0", "id": answered_id, "error": error}


# sentence: 4.5-call 4.5-response
def test_4_5_post_rpc_answers_in_the_json_rpc_shape(contract: Running) -> None:
    answer = call(contract, {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}})
    assert (answer.status, answer.json) == (200, no_such_method("1"))


# sentence: 4.5-response 4.5-id-types
@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("1", "1"),
        ("0", "0"),
        ("-7", "-7"),
        ("1.50", "1.50"),
        ("1e3", "1e3"),
        ("9" * 5000, "9" * 5000),
        ('"a"', "a"),
        ('""', ""),
        ('"\\u00e9\\ud83d\\udca5"', "é💥"),
        ("null", None),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_4_5_the_response_id_is_a_string(contract: Running, sent: str, answered: str | None) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"method":"none","params":{}}' % sent.encode()
    assert call(contract, body).json == no_such_method(answered)


# sentence: 4.5-id-optional
def test_4_5_id_is_optional(contract: Running) -> None:
    answer = call(contract, {"jsonrpc": "2.0", "method": "none", "params": {}})
    assert answer.json == no_such_method(None)


# sentence: 4.5-id-types
@pytest.mark.parametrize("sent", [True, False, [], {}, ["1"]], ids=str)
def test_4_5_an_id_of_another_type_is_a_bad_request(contract: Running, sent: Any) -> None:
    answer = call(contract, {"jsonrpc": "2.0", "id": sent, "method": "none", "params": {}})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.5-version
@pytest.mark.parametrize("sent", ["1.0", "2", "", 2.0, 2, None, [], {}], ids=str)
def test_4_5_jsonrpc_is_the_protocol_version(contract: Running, sent: Any) -> None:
    answer = call(contract, {"jsonrpc": sent, "id": 1, "method": "none", "params": {}})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.5-request
@pytest.mark.parametrize("sent", [1, None, [], {}, True], ids=str)
def test_4_5_method_is_a_string(contract: Running, sent: Any) -> None:
    answer = call(contract, {"jsonrpc": "2.0", "id": 1, "method": sent, "params": {}})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.5-request
@pytest.mark.parametrize("sent", [1, None, [], "x", True], ids=str)
def test_4_5_params_is_an_object(contract: Running, sent: Any) -> None:
    answer = call(contract, {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": sent})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 4.5-request
@pytest.mark.parametrize("name", ["jsonrpc", "method", "params"])
def test_4_5_member_is_required(contract: Running, name: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
    del body[name]
    answer = call(contract, body)
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def fee_estimate(contract: Running, params: dict[str, Any]) -> dict[str, Any]:
    answer = call(contract, {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": params})
    assert answer.status == 200, answer
    body: dict[str, Any] = answer.json
    return body


# sentence: 4.5-params
@pytest.mark.parametrize("name", list(PARAMS))
def test_4_5_fee_estimate_param_is_required(contract: Running, name: str) -> None:
    answer = fee_estimate(contract, {field: value for field, value in PARAMS.items() if field != name})
    assert answer["error"]["code"] == -32602


# sentence: 4.5-params
@pytest.mark.parametrize("name", list(PARAMS))
@pytest.mark.parametrize("value", [1, None, [], {}, True], ids=str)
def test_4_5_fee_estimate_param_is_a_string(contract: Running, name: str, value: Any) -> None:
    assert fee_estimate(contract, PARAMS | {name: value})["error"]["code"] == -32602


def test_4_5_fee_estimate_takes_no_other_param(contract: Running) -> None:
    assert fee_estimate(contract, PARAMS | {"more": "x"})["error"]["code"] == -32602


# sentence: 4.5-error 4.5-methods 7-rpc-codes
def test_4_5_the_error_object_is_code_message_description(contract: Running) -> None:
    error = fee_estimate(contract, {})["error"]
    assert {name: type(value) for name, value in error.items()} == {
        "code": int,
        "message": str,
        "description": str,
    }


# sentence: 4.5-failures
def test_4_5_a_response_has_exactly_one_of_result_and_error(contract: Running) -> None:
    assert set(fee_estimate(contract, {})) == {"jsonrpc", "id", "error"}


# sentence: 3-effects
def test_4_5_a_call_is_answered_in_every_state_of_the_relayer(contract: Running) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
    assert call(contract, body, "/api/v1/relayers/full/rpc").json == no_such_method("1")


# sentence: 4.5-bad-request
def test_4_5_error_bad_request(contract: Running) -> None:
    answer = call(contract, b"{}")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_4_5_error_unauthorized(contract: Running) -> None:
    answer = contract.ask("POST", RPC, {"jsonrpc": "2.0", "method": "none", "params": {}}, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# sentence: 4.5-not-found
def test_4_5_error_unknown_relayer_gives_relayer_with_id_not_found(contract: Running) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
    answer = call(contract, body, "/api/v1/relayers/no%20one/rpc")
    assert (answer.status, answer.json) == (404, shapes.failure("Relayer with ID no one not found"))


def test_4_5_error_a_bad_body_is_refused_before_the_relayer_is_looked_up(contract: Running) -> None:
    assert call(contract, {}, "/api/v1/relayers/nobody/rpc").json == shapes.BAD_REQUEST


# sentence: 4-operations-unknown
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", SIGNERS, "GET, HEAD, POST"),
        ("DELETE", SIGNERS, "GET, HEAD, POST"),
        ("POST", RELAYERS, "GET, HEAD"),
        ("GET", "/api/v1/notifications/pager", "PATCH"),
        ("GET", RPC, "POST"),
    ],
)
def test_4_no_other_operation_method(contract: Running, method: str, path: str, allowed: str) -> None:
    answer = contract.ask(method, path)
    assert (answer.status, answer.headers["allow"], answer.json) == (
        405,
        allowed,
        shapes.failure("Method Not Allowed"),
    )


# sentence: 4-operations 1-purpose 9-deprecation
@pytest.mark.parametrize(
    "path",
    [
        "/elsewhere",
        "/api/v1",
        "/api/v2/signers",
        "/api/v1/signers/ops",
        "/api/v1/signers/",
        "/api/v1/notifications",
        "/api/v1/notifications/",
        "/api/v1/relayers/full",
        "/api/v1/relayers//rpc",
        "/api/v1/relayers/full/rpc/",
        "/API/v1/signers",
    ],
)
def test_4_no_other_operation_path(contract: Running, path: str) -> None:
    answer = contract.ask("GET", path)
    assert (answer.status, answer.json) == (404, shapes.failure("Not Found"))
