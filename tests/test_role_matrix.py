"""Every operation, with every role, on every interface that offers it: allowed exactly where its entry says.

Also with every role that is limited to a scope, for a record inside and for one outside, which is as good as unknown.
"""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from relaydeck.api.operation import ADMIN, CONTRACT_OPERATIONS, Operation
from relaydeck.api.operations import OPERATIONS, SCOPED, WHOLE_SERVICE
from relaydeck.cli.reply import Json, Refused
from relaydeck.cli.server_target import ServerTarget
from relaydeck.console.page_request import PAGES
from relaydeck.credentials.grants import Grant
from relaydeck.errors import OperatorError
from relaydeck.roles import Role, requirement
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from tests.conftest import DEMO
from tests.console.conftest import Operator
from tests.support.running import Running, run_command
from tests.support.seeding import issue, opened

EVERY = (*CONTRACT_OPERATIONS, *OPERATIONS)
# Whoever is signed in may choose a view, which only the browser keeps.
FORMS = {path: each["POST"].operation for path, each in PAGES.items() if "POST" in each and path != "/view"}
LIMITED = [role for role in Role if role not in (Role.OWNER, Role.ADMIN)]  # those that can have a scope
MINE = """
[networks.mine]
network_type = "evm"
chain_id = 11155111
native_symbol = "ETH"
rpc_urls = [{ url = "http://127.0.0.1:9/rpc" }]
labels = { team = "a" }

[[signers]]
id = "mine"
type = "plain"
config = { key = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318" }

[[notifications]]
id = "mine"
type = "webhook"
url = "https://hooks.example.com/mine"
labels = { team = "a" }

[[relayers]]
id = "mine"
name = "Mine"
network = "mine"
network_type = "evm"
signer_id = "mine"
notification_id = "mine"
labels = { team = "a" }
"""
# Where an empty document is refused before the record is looked for.
BODIES: dict[str, Json] = {
    "relayer_rpc": {"jsonrpc": "2.0", "id": 1, "method": "other", "params": {}},
    "explain_estimate": {"transaction": "0x"},
}
THEIRS: Json = {
    "id": "theirs",
    "state": "open",
    "operation": "delete_relayer",
    "plan": "[]",
    "protections": "[]",
    "revision": "",
    "author": "token:root",
    "reason": "",
    "decision": "",
    "created_at": 1000,
    "expires_at": 4_000_000_000,
}
OUTSIDE = {"networks": "sepolia", "signers": "ops", "notifications": "pager", "relayers": "sepolia-1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("roles") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO + MINE).returncode == 0
    with opened(home) as store, store.database.transaction() as transaction:
        transaction.insert("proposals", tuple(THEIRS), [tuple(THEIRS.values())])
    with Running(home, token=issue(home, "root", "admin"), rate_limit_per_second="0") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Running) -> dict[Role, str]:
    return {role: issue(served.home, f"the {role.value}", role.value) for role in Role}


@pytest.fixture(scope="module")
def limited(served: Running) -> dict[Role, str]:
    grants = {role: Grant(role=role, scope=Scope(labels={"team": "a"})).stored for role in LIMITED}
    return {role: issue(served.home, f"limited {role.value}", kind) for role, kind in grants.items()}


def _refusal(operation: Operation, role: Role) -> str:
    """Why a credential with this role and a scope may not use the operation at all; empty when it may."""
    if operation.permission not in role.permissions:
        return requirement(operation.permission)
    return WHOLE_SERVICE if operation.root == ADMIN and operation.name not in SCOPED else ""


def _names(operation: Operation) -> tuple[str, ...]:
    """A record outside, a name that nothing has, and a record inside. No proposal is: each is of another author."""
    if operation.path.startswith("proposals/"):
        return ("theirs", "none")
    outside = OUTSIDE.get(operation.path.partition("/")[0]) if operation.has_identifier else None
    return (outside, "none", "mine") if outside else ("none",)


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
    if operation.root == ADMIN:  # the body of the others is the one of the described interface
        assert {each.json["detail"] for each in refused} <= {requirement(operation.permission)}


@pytest.mark.parametrize("operation", EVERY, ids=lambda each: each.root[1:] + each.name)
def test_within_a_scope_over_http(served: Running, limited: dict[Role, str], operation: Operation) -> None:
    body: Json | None = None if operation.method == "GET" else BODIES.get(operation.name, {})
    no_match = {"If-Match": '"another"'} if operation.conditional else {}  # so that nothing changes
    for role, token in limited.items():
        refusal, answers = _refusal(operation, role), []
        for name in _names(operation):
            path = "/".join(name if part.startswith("{") else part for part in operation.whole_path.split("/"))
            answer = served.ask(operation.method, path, body, token=token, headers={"X-Request-Id": "one", **no_match})
            assert (answer.status in (401, 403)) == bool(refusal), (role, name, answer)
            if refusal:
                assert answer.headers["relaydeck-reason"] == refusal
                assert "detail" not in answer.json or answer.json["detail"] == refusal
            answers.append((answer.status, answer.body.decode().replace(name, "…")))
        if len(answers) > 1:
            outside, unknown, *inside = answers
            assert outside == unknown, role
            if inside and not refusal:
                assert (unknown[0], inside[0][0] == HTTPStatus.NOT_FOUND) == (HTTPStatus.NOT_FOUND, False), answers


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_within_a_scope_by_a_command(served: Running, limited: dict[Role, str], operation: Operation) -> None:
    document: Json | None = None if operation.request is None else {}
    for role, token in limited.items():
        target = ServerTarget(f"http://127.0.0.1:{served.port}", Secret(token))
        for name in _names(operation)[:2]:  # what changes is changed once, over HTTP
            status = 0
            try:
                target.call(operation, name if operation.has_identifier else "", document=document)
            except Refused as refused:
                status = refused.status
            except OperatorError as error:
                assert _refusal(operation, role), error
                continue
            assert (status == HTTPStatus.FORBIDDEN) == bool(_refusal(operation, role)), (role, status)
            if status == 0:
                assert not (OUTSIDE.get(operation.path.partition("/")[0]) and operation.has_identifier)


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


@pytest.mark.parametrize("path", FORMS)
def test_forms_of_the_console(served: Running, tokens: dict[Role, str], limited: dict[Role, str], path: str) -> None:
    found, operation = set[str](), FORMS[path]
    signed_in = [role for role in Role if "look" in role.permissions]
    within = [role for role in LIMITED if role in signed_in]
    expected = {tokens[role] for role in signed_in if operation.permission in role.permissions}
    expected |= {limited[role] for role in within if not _refusal(operation, role)}
    for token in [*(tokens[role] for role in signed_in), *(limited[role] for role in within)]:
        answer = Operator(served.port).sign_in(token).post(path.replace("{id}", "none"))
        found |= set() if answer.status == HTTPStatus.FORBIDDEN else {token}
    assert found == expected


def test_who_can_sign_in_to_the_console(served: Running, tokens: dict[Role, str]) -> None:
    found = {role: Operator(served.port).post("/sign-in", {"token": tokens[role]}).status for role in Role}
    assert found == {role: 403 if role is Role.API else 303 for role in Role}
