"""Every operation, with every role, on every interface that offers it: allowed exactly where its entry says."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from relaydeck.api.operation import ADMIN, CONTRACT_OPERATIONS, Operation
from relaydeck.api.operations import OPERATIONS
from relaydeck.cli.reply import Json, Refused
from relaydeck.cli.server_target import ServerTarget
from relaydeck.console.page_request import PAGES
from relaydeck.errors import OperatorError
from relaydeck.roles import Role, requirement
from relaydeck.secret import Secret
from tests.conftest import DEMO
from tests.console.conftest import Operator
from tests.support.running import Running, run_command
from tests.support.seeding import issue

EVERY = (*CONTRACT_OPERATIONS, *OPERATIONS)
# Whoever is signed in may choose a view, which only the browser keeps.
FORMS = sorted((path, each["POST"].permission) for path, each in PAGES.items() if "POST" in each and path != "/view")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("roles") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin"), rate_limit_per_second="0") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Running) -> dict[Role, str]:
    return {role: issue(served.home, f"the {role.value}", role.value) for role in Role}


def _allowed(operation: Operation) -> set[Role]:
    return {role for role in Role if operation.permission in role.permissions}


@pytest.mark.parametrize("operation", EVERY, ids=lambda each: each.root[1:] + each.name)
def test_over_http(served: Running, tokens: dict[Role, str], operation: Operation) -> None:
    path = "/".join("none" if part.startswith("{") else part for part in operation.whole_path.split("/"))
    body: Json | None = None if operation.method == "GET" else {}
    answers = {role: served.ask(operation.method, path, body, token=tokens[role]) for role in Role}
    refusal = HTTPStatus.FORBIDDEN if operation.root == ADMIN else HTTPStatus.UNAUTHORIZED
    assert {role for role, each in answers.items() if each.status not in (401, 403)} == _allowed(operation)
    refused = [answers[role] for role in Role if role not in _allowed(operation)]
    assert {each.status for each in refused} <= {refusal}
    assert {each.headers["relaydeck-reason"] for each in refused} <= {requirement(operation.permission)}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_by_a_command_against_a_server(served: Running, tokens: dict[Role, str], operation: Operation) -> None:
    document: Json | None = None if operation.request is None else {}
    found = set()
    for role, token in tokens.items():
        target = ServerTarget(f"http://127.0.0.1:{served.port}", Secret(token))
        try:
            target.call(operation, "none" if operation.has_identifier else "", document=document)
        except Refused as refusal:
            found |= set() if refusal.status == HTTPStatus.FORBIDDEN else {role}
        except OperatorError as error:
            assert operation.permission not in role.permissions, error
        else:
            found.add(role)
    assert found == _allowed(operation)


@pytest.mark.parametrize(("path", "permission"), FORMS)
def test_forms_of_the_console(served: Running, tokens: dict[Role, str], path: str, permission: str) -> None:
    signed_in = {role for role in Role if "look" in role.permissions}
    found = set()
    for role in signed_in:
        answer = Operator(served.port).sign_in(tokens[role]).post(path.replace("{id}", "none"))
        found |= set() if answer.status == HTTPStatus.FORBIDDEN else {role}
    assert found == {role for role in signed_in if permission in role.permissions}


def test_who_can_sign_in_to_the_console(served: Running, tokens: dict[Role, str]) -> None:
    found = {role: Operator(served.port).post("/sign-in", {"token": tokens[role]}).status for role in Role}
    assert found == {role: 403 if role is Role.API else 303 for role in Role}
