"""The OpenAPI document of the admin API, its page, and whether the service does as they say."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from pages.openapi.admin import document
from pages.openapi.admin_schemas import examples
from pages.openapi.names import operation_id
from relaydeck.api.operation import Operation
from relaydeck.api.operations import OPERATIONS
from tests.admin.conftest import Admin, refusal
from tests.support.running import Answer, Running
from tests.support.seeding import issue

DOCUMENT = msgspec.json.decode(msgspec.json.encode(document()))
EXAMPLES = examples()


def validator(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def check(answer: Answer, method: str, path: str) -> Any:
    """The answer is one that the document describes."""
    described = DOCUMENT["paths"][f"/admin/v1/{path}"][method]["responses"][str(answer.status)]
    (content,) = described["content"].items()
    assert answer.headers["content-type"] == content[0]
    validator(content[1]["schema"]).validate(answer.json)
    for header in described["headers"]:
        assert header.lower() in answer.headers
    return answer.json.get("data")


def test_stored_responses_name_operations_as_earlier_versions_do() -> None:
    """A request that is repeated at a replica of another version gets the stored response, and not 422."""
    labels = {each.name: each.label for each in OPERATIONS if each.is_repeatable}
    assert len(set(labels.values())) == len(labels)
    assert {name: labels[name] for name in ("apply", "create_token", "check_signer", "replay_dead")} == {
        "apply": "apply",
        "create_token": "tokens.create",
        "check_signer": "signers.check",
        "replay_dead": "deliveries.replay_all",
    }


def test_both_are_open_to_all(shared: Admin) -> None:
    served = shared.ask("GET", "openapi.json", token="")
    assert (served.status, served.json) == (200, DOCUMENT)
    page = shared.ask("GET", "docs", token="")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for operation in OPERATIONS:
        assert f'id="{operation_id(operation)}"' in page.body.decode()


def test_every_operation_is_described_and_every_described_one_is_there(shared: Admin) -> None:
    for operation in OPERATIONS:
        path = operation.path.replace("{id}", "nobody")
        answer = shared.ask(operation.method.upper(), path, token="")
        assert answer.status == 401
    for path in {each.path for each in OPERATIONS}:
        answer = shared.ask("OPTIONS", path.replace("{id}", "nobody"))
        described = {each.method.upper() for each in OPERATIONS if each.path == path}
        described |= {"HEAD"} if "GET" in described else set()
        assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, described)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_query_parameter_that_is_not_described_is_refused(shared: Admin, operation: Operation) -> None:
    known = ", ".join(sorted(each.name for each in operation.query)) or "none"
    answer = shared.ask(operation.method, operation.path.replace("{id}", "nobody") + "?pge=2")
    assert refusal(answer) == (400, f"unknown query parameter: this operation takes {known}")


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_fit_their_schemas(name: str) -> None:
    validator(DOCUMENT["components"]["schemas"][name]).validate(EXAMPLES[name])


@pytest.fixture
def empty(home: Path) -> Iterator[Admin]:
    """A service without records, so that every example can be created."""
    token = issue(home, "root", "admin")
    with Running(home, token=token) as running:
        yield Admin(running)


def test_the_examples_can_be_sent_and_answers_are_as_described(empty: Admin) -> None:
    admin = empty
    for plural, name in (
        ("networks", "Network"),
        ("signers", "Signer"),
        ("notifications", "Notification"),
        ("relayers", "Relayer"),
    ):
        body = EXAMPLES[f"{name}Request"]
        assert check(admin.ask("POST", plural, body), "post", plural) is not None
        assert check(admin.ask("POST", plural, body), "post", plural) is None
        which = f"{plural}/{body.get('id', body.get('name'))}"
        if name != "Signer":
            assert check(admin.ask("PATCH", which, EXAMPLES[f"{name}Patch"]), "patch", f"{plural}/{{id}}") is not None
            check(admin.ask("PATCH", which, {}, If_Match='"x"'), "patch", f"{plural}/{{id}}")
        check(admin.ask("GET", which), "get", f"{plural}/{{id}}")
        check(admin.ask("GET", f"{plural}/nobody"), "get", f"{plural}/{{id}}")
        check(admin.ask("GET", plural), "get", plural)
        check(admin.ask("POST", plural, {}), "post", plural)
    check(admin.ask("POST", "relayers/sepolia-1/pause"), "post", "relayers/{id}/pause")
    check(admin.ask("GET", "relayers/sepolia-1/why"), "get", "relayers/{id}/why")
    check(admin.ask("GET", "relayers/nobody/why"), "get", "relayers/{id}/why")
    check(admin.ask("GET", "relayers/sepolia-1/balances?step=1h"), "get", "relayers/{id}/balances")
    check(admin.ask("GET", "relayers/nobody/balances"), "get", "relayers/{id}/balances")
    check(admin.ask("GET", "relayers/sepolia-1/runway"), "get", "relayers/{id}/runway")
    check(admin.ask("GET", "relayers/nobody/runway"), "get", "relayers/{id}/runway")
    check(admin.ask("GET", "runways?first=3"), "get", "runways")
    check(admin.ask("GET", "runways?first=0"), "get", "runways")
    check(admin.ask("POST", "relayers/sepolia-1/resume"), "post", "relayers/{id}/resume")
    event = check(admin.ask("POST", "notifications/pager/test"), "post", "notifications/{id}/test")
    check(admin.ask("POST", "tokens", EXAMPLES["TokenRequest"]), "post", "tokens")
    check(admin.ask("GET", "tokens"), "get", "tokens")
    check(admin.ask("GET", "events"), "get", "events")
    check(admin.ask("GET", f"events/{event['id']}"), "get", "events/{id}")
    check(admin.ask("GET", "deliveries"), "get", "deliveries")
    check(admin.ask("GET", f"deliveries/{event['id']}"), "get", "deliveries/{id}")
    check(admin.ask("POST", "deliveries/replay"), "post", "deliveries/replay")
    check(admin.ask("GET", "audit?order=newest"), "get", "audit")
    check(admin.ask("DELETE", "signers/ops"), "delete", "signers/{id}")
    for which in ("relayers/sepolia-1", "signers/ops", "networks/sepolia", "notifications/pager", "tokens/ci"):
        check(admin.ask("DELETE", which), "delete", f"{which.split('/')[0]}/{{id}}")


def test_the_page_names_its_address_and_creates_a_token_that_may_use_it(shared: Admin) -> None:
    page = unescape(shared.running.ask("GET", "/admin/v1/docs", token="").body.decode())
    assert f'export RELAYDECK="http://127.0.0.1:{shared.running.port}"' in page
    assert 'export TOKEN="$(relaydeck token create my-client --role owner)"' in page
