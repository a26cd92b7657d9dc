"""Who may use `/admin/v1`, and how a path or a method that it does not know is answered."""

import time

import pytest

from relaydeck.api.operations import OPERATIONS
from relaydeck.roles import Permission, requirement
from tests.admin.conftest import Admin, problem
from tests.support.seeding import issue

PATHS = sorted((each.method, each.path.replace("{id}", "x")) for each in OPERATIONS)
FOR_ANYONE = [("GET", "whoami")]  # with a credential
PERMISSIONS: dict[tuple[str, str], Permission] = {
    (each.method, each.path.replace("{id}", "x")): each.permission for each in OPERATIONS
}


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_without_a_credential_it_is_unauthorized(shared: Admin, method: str, path: str) -> None:
    answer = shared.ask(method, path, token="")
    assert (problem(answer), answer.headers["www-authenticate"]) == ((401, "Unauthorized"), "Bearer")


@pytest.fixture(scope="module")
def others(shared: Admin) -> list[str]:
    return [issue(shared.running.home, "an api token", "api"), issue(shared.running.home, "a reader", "readonly")]


@pytest.mark.parametrize(("method", "path"), [each for each in PATHS if each not in FOR_ANYONE])
def test_roles_of_applications_are_forbidden(shared: Admin, others: list[str], method: str, path: str) -> None:
    for token in others:
        answer = shared.ask(method, path, token=token)
        assert problem(answer) == (403, "Forbidden")
        assert answer.headers["relaydeck-reason"] == requirement(PERMISSIONS[method, path])


@pytest.mark.parametrize(
    "path",
    ["", "nothing", "relayers/", "relayers//pause", "relayers/x/y", "relayers/x/pause/z", "relayers/{id}", "x/{id}"],
)
def test_unknown_paths(shared: Admin, path: str) -> None:
    answer = shared.ask("GET", path) if path != "relayers/{id}" else shared.ask("GET", "relayers/{id}/y")
    assert problem(answer) == (404, "Not Found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "relayers", "GET, HEAD, POST"),
        ("PUT", "signers/ops", "DELETE, GET, HEAD, PATCH"),
        ("GET", "relayers/sepolia-1/pause", "POST"),
        ("POST", "audit", "GET, HEAD"),
        ("DELETE", "audit/1", None),
    ],
)
def test_wrong_methods(shared: Admin, method: str, path: str, allowed: str | None) -> None:
    answer = shared.ask(method, path)
    if allowed is None:
        assert answer.status == 404
    else:
        assert (problem(answer), answer.headers["allow"]) == ((405, "Method Not Allowed"), allowed)


def test_admin_requests_are_counted_and_logged_by_token_name(shared: Admin) -> None:
    shared.ask("GET", "networks", X_Request_Id="looked-for")
    deadline = time.monotonic() + 60
    while "looked-for" not in shared.running.log and time.monotonic() < deadline:
        time.sleep(0.02)
    (line,) = [each for each in shared.running.log.splitlines() if "looked-for" in each]
    assert '"route":"admin","status":200' in line and '"token":"root"' in line
    metrics = shared.running.ask("GET", "/metrics").body.decode()
    assert 'relaydeck_requests_total{route="admin",status="200"}' in metrics


def test_identifiers_in_paths_are_percent_decoded(shared: Admin) -> None:
    body = {"id": "a/b c", "type": "webhook", "url": "https://hooks.example.com/x"}
    assert shared.ask("POST", "notifications", body).status == 201
    assert shared.get("notifications/a%2Fb%20c") == body | {"has_signing_key": False}
    assert shared.ask("DELETE", "notifications/a%2Fb%20c").status == 200
    assert shared.ask("GET", "notifications/%FF").status == 400


@pytest.mark.parametrize(
    "path", ["relayers", "relayers/sepolia-1", "tokens", "audit", "events", "deliveries", "openapi.json", "docs"]
)
def test_head_is_get_without_a_body(shared: Admin, path: str) -> None:
    got, head = (shared.ask(method, path, X_Request_Id="asked") for method in ("GET", "HEAD"))
    assert (head.status, head.headers | {"date": ""}, head.body) == (200, got.headers | {"date": ""}, b"")
