"""A scoped credential changes what carries the labels of its scope, and nothing that others may use."""

from collections.abc import Iterator
from typing import Any

import pytest

from relaydeck.credentials.grants import Grant
from relaydeck.provisioning.declared_records import Resource
from relaydeck.scope import SHARED_RECORD, TOO_MANY_LABELS, Scope
from tests.admin.test_scope_leaks import fleet
from tests.console.conftest import Operator, plain
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue

LABELS, IDS, NETWORKS = Scope(labels={"team": "a"}), Scope(("a-1", "a-3")), Scope((), ("both",))
SCOPES = {"labels": LABELS, "ids": IDS, "networks": NETWORKS}
CHANGES: dict[str, Any] = {
    "networks": {"native_symbol": "X"},
    "notifications": {"url": "https://attacker.example/", "signing_key": "known"},
    "signers": {"labels": {"team": "a", "env": "x"}},
}
REFUSED = {"type": "urn:relaydeck:problem:forbidden", "title": "Forbidden", "status": 403, "detail": SHARED_RECORD}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """`hook-both` and `sign-both`, of which neither team has the labels, are used by relayers of both."""
    home = tmp_path_factory.mktemp("changed") / "home"
    done = run_command(home, "apply", "-", stdin=fleet())
    assert done.returncode == 0, done.stderr
    with Running(home, token=issue(home, "owner", "admin"), monitor_interval_seconds="0") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(running: Running) -> dict[tuple[str, str], str]:
    return {
        (name, role): issue(running.home, f"{role} {name}", Grant(role=role, scope=scope).stored)
        for name, scope in SCOPES.items()
        for role in ("editor", "api")
    }


def everything(running: Running) -> Any:
    """As an owner sees it, with the moments of changes and whether there is a signing key."""
    return [running.ask("GET", f"/admin/v1/{each}?per_page=100").json["data"] for each in (*CHANGES, "relayers")]


def problem(answer: Answer) -> Any:
    document: dict[str, Any] = answer.json
    document.pop("instance")
    return document


def shared_of(resource: str) -> str:
    return {"networks": "both", "notifications": "hook-both", "signers": "sign-both"}[resource]


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize("resource", CHANGES)
@pytest.mark.parametrize("limit", ["labels", "ids"])
def test_what_relayers_only_use_is_neither_changed_nor_deleted(
    running: Running, tokens: dict[tuple[str, str], str], limit: str, resource: str, method: str
) -> None:
    before, path = everything(running), f"/admin/v1/{resource}/{shared_of(resource)}"
    body = CHANGES[resource] if method == "PATCH" else None
    refused = running.ask(method, path, body, token=tokens[limit, "editor"])
    assert problem(refused) == REFUSED
    assert everything(running) == before


@pytest.mark.parametrize("resource", ["notifications", "signers"])
def test_a_scope_without_labels_changes_not_even_what_it_uses_alone(
    running: Running, tokens: dict[tuple[str, str], str], resource: Resource
) -> None:
    name = {"notifications": "hook-a", "signers": "sign-a"}[resource]
    path = f"/admin/v1/{resource}/{name}"
    assert problem(running.ask("PATCH", path, CHANGES[resource], token=tokens["ids", "editor"])) == REFUSED


def test_a_network_that_the_scope_lists_is_changed(running: Running, tokens: dict[tuple[str, str], str]) -> None:
    changed = running.ask(
        "PATCH", "/admin/v1/networks/both", {"native_symbol": "N"}, token=tokens["networks", "editor"]
    )
    assert (changed.status, changed.json["data"]["native_symbol"]) == (200, "N")


@pytest.mark.parametrize("limit", SCOPES)
def test_the_contract_answers_as_if_there_were_no_such_notification(
    running: Running, tokens: dict[tuple[str, str], str], limit: str
) -> None:
    before = everything(running)
    for change in (CHANGES["notifications"], {"signing_key": ""}, {}):
        refused = running.ask("PATCH", "/api/v1/notifications/hook-both", change, token=tokens[limit, "api"])
        assert (refused.status, refused.json) == (
            404,
            {"data": None, "message": "Notification not found", "success": False},
        )
    assert everything(running) == before


def test_what_carries_the_labels_is_changed_and_deleted_even_if_it_was_shared(
    running: Running, tokens: dict[tuple[str, str], str]
) -> None:
    made = running.ask("POST", "/admin/v1/notifications", {**HOOK, "labels": {"team": "a"}})
    assert made.status == 201
    given = running.ask("PATCH", "/admin/v1/relayers/b-2", {"notification_id": "of-a"})
    assert given.status == 200
    by_contract = running.ask(
        "PATCH", "/api/v1/notifications/of-a", {"url": "https://one.example/"}, token=tokens["labels", "api"]
    )
    assert by_contract.json["data"] == {**HOOK, "url": "https://one.example/", "has_signing_key": False}
    path, token = "/admin/v1/notifications/of-a", tokens["labels", "editor"]
    changed = running.ask("PATCH", path, {"url": "https://two.example/"}, token=token)
    assert (changed.status, changed.json["data"]["url"]) == (200, "https://two.example/")
    assert running.ask("PATCH", "/admin/v1/relayers/b-2", {"notification_id": None}).status == 200
    assert running.ask("DELETE", path, token=token).status == 200


HOOK = {"id": "of-a", "type": "webhook", "url": "https://zero.example/"}
SIGNER = {"id": "sign-both", "type": "plain", "config": {"key": "0x" + "4c" * 32}}


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"notifications": [{**HOOK, "id": "hook-both"}]}, "notifications[0]"),
        ({"signers": [{**SIGNER, "labels": {"team": "a"}}]}, "signers[0]"),
    ],
)
@pytest.mark.parametrize("limit", ["labels", "ids"])
def test_a_file_changes_nothing_that_relayers_only_use(
    running: Running, tokens: dict[tuple[str, str], str], limit: str, document: Any, place: str
) -> None:
    before = everything(running)
    for plan_only in (True, False):
        refused = running.ask(
            "POST", "/admin/v1/apply", {"document": document, "plan_only": plan_only}, token=tokens[limit, "editor"]
        )
        assert (refused.status, refused.json["mistakes"]) == (400, [{"place": place, "problem": SHARED_RECORD}])
    assert everything(running) == before


def test_no_page_has_a_button_that_ends_in_a_refusal(running: Running, tokens: dict[tuple[str, str], str]) -> None:
    """Of what it may not change, a page has no form, and the audit log offers nothing to plan back."""
    for path, change in (("networks/both", {"native_symbol": "S"}), ("relayers/a-1", {"name": "Renamed"})):
        assert running.ask("PATCH", f"/admin/v1/{path}", change).status == 200
    owner, scoped = Operator(running.port), Operator(running.port)
    owner.sign_in(running.token)
    scoped.sign_in(tokens["labels", "editor"])
    for path, button in (
        ("/notifications/hook-both", "Show the changes"),
        ("/signers/sign-both", "Show the changes"),
        ("/notifications/hook-both", "Delete"),
        ("/signers/sign-both", "Delete"),
        ("/networks/both", "Edit"),
        ("/audit?record=both", "Revert …"),
    ):
        assert [button in plain(each.get(path)) for each in (owner, scoped)] == [True, False], (path, button)
    assert "disabled>Delete" in scoped.text("/notifications/hook-both/delete")
    assert "Revert …" in plain(scoped.get("/audit?record=a-1"))


def test_a_gap_in_the_numbers_of_events_is_no_loss_to_a_scope(
    running: Running, tokens: dict[tuple[str, str], str]
) -> None:
    """The first events are about others. Nothing was removed, and an answer would tell of them if it named a number."""
    for name in ("b-1", "a-1"):
        assert running.ask("POST", f"/admin/v1/relayers/{name}/pause").status == 200
    found = running.ask("GET", "/admin/v1/events", token=tokens["ids", "editor"])
    assert [each["sequence"] for each in found.json["data"]] == [2]
    assert "were removed" not in found.body.decode()


MANY = {f"k{number}": "v" for number in range(32)}  # as many as a record may have
RELAYER = {"id": "many", "name": "Many", "network": "net-a", "network_type": "evm", "signer_id": "sign-a"}


@pytest.mark.parametrize(
    ("resource", "document"),
    [("relayers", RELAYER), ("notifications", {**HOOK, "id": "many"}), ("signers", {**SIGNER, "id": "many"})],
)
def test_the_labels_of_the_scope_count_among_those_of_a_new_record(
    running: Running, tokens: dict[tuple[str, str], str], resource: str, document: dict[str, Any]
) -> None:
    before, token, document = everything(running), tokens["labels", "editor"], {**document, "labels": MANY}
    refused = running.ask("POST", f"/admin/v1/{resource}", document, token=token)
    assert problem(refused) == REFUSED | {
        "type": "urn:relaydeck:problem:bad-request",
        "title": "Bad Request",
        "status": 400,
        "detail": TOO_MANY_LABELS,
    }
    file = {"document": {resource: [document]}}
    applied = running.ask("POST", "/admin/v1/apply", file, token=token)
    assert applied.json["mistakes"] == [{"place": f"{resource}[0].labels", "problem": TOO_MANY_LABELS}]
    assert everything(running) == before
