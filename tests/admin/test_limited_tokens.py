"""Tokens that are limited, rotated and asked who they are, over HTTP."""

import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest

from relaydeck.credentials.tokens import doubted_tokens
from tests.admin.conftest import Admin, problem, refusal
from tests.console.conftest import Operator
from tests.support.running import run_command
from tests.support.seeding import opened

MACHINE = "whoever can use the machine and its master key may do everything"
_NOWHERE, _HERE = ["192.0.2.0/24"], ["127.0.0.0/8", "::1"]
_ELSEWHERE = "the credential may not be used from this address"


def token_of(admin: Admin, name: str, **given: object) -> str:
    answer = admin.ask("POST", "tokens", {"name": name, **given})
    assert answer.status == 201, answer.body
    text: str = answer.json["data"]["token"]
    return text


def test_a_token_is_used_from_its_addresses_only(shared: Admin) -> None:
    here, nowhere = (token_of(shared, str(each), kind="owner", addresses=each) for each in (_HERE, _NOWHERE))
    assert [shared.running.ask("GET", "/api/v1/signers", token=each).status for each in (here, nowhere)] == [200, 401]
    answer = shared.ask("GET", "networks", token=nowhere)
    assert (problem(answer), answer.headers["relaydeck-reason"]) == ((403, "Forbidden"), _ELSEWHERE)
    console = [Operator(shared.running.port).post("/sign-in", {"token": each}).status for each in (here, nowhere)]
    assert console == [303, 403]


def test_a_token_has_a_rate_of_its_own(shared: Admin) -> None:
    token = token_of(shared, "slow", rate=1, burst=2)
    answers = [shared.running.ask("GET", "/api/v1/relayers", token=token) for _ in range(12)]
    assert {each.headers["ratelimit-policy"] for each in answers} == {'"default";q=2;w=2'}
    assert [each.status for each in answers[:2]] == [200, 200] and answers[-1].status == 429
    assert shared.running.ask("GET", "/api/v1/relayers").headers["ratelimit-policy"] != '"default";q=2;w=2'


def test_a_rotated_token_works_with_both_secrets_until_the_overlap_ends(admin: Admin) -> None:
    given = {"kind": "viewer", "addresses": _HERE, "purpose": "the nightly job", "expires": "30d"}
    old = token_of(admin, "ci", **given)
    answer = admin.ask("POST", "tokens/ci/rotate", {"overlap": "1h"})
    new, name = answer.json["data"]["token"], answer.json["data"]["old_name"]
    assert (answer.status, answer.json["data"]["purpose"], name.startswith("ci (issued 20")) == (
        HTTPStatus.OK,
        "the nightly job",
        True,
    )
    who = [admin.ask("GET", "whoami", token=each).json["data"]["actor"] for each in (old, new)]
    assert who == [f"token:{name}", "token:ci"]
    shown = {each["name"]: each for each in admin.get("tokens")}
    assert shown[name]["expires_at"] < shown["ci"]["expires_at"]
    assert [(shown[each]["kind"], shown[each]["addresses"]) for each in (name, "ci")] == [("viewer", _HERE)] * 2
    assert [each["action"] for each in admin.audited()[-2:]] == ["token.rotated", "token.created"]
    assert admin.ask("DELETE", f"tokens/{name}".replace(" ", "%20").replace(":", "%3A")).status == 200
    assert [admin.ask("GET", "whoami", token=each).status for each in (old, new)] == [401, 200]
    with opened(admin.running.home) as store:
        assert list(doubted_tokens(store.database)) == []


def test_revoking_a_token_ends_the_old_secrets_of_its_rotations_and_of_no_other(admin: Admin) -> None:
    first = token_of(admin, "ci")
    rotated = admin.ask("POST", "tokens/ci/rotate", {"overlap": "1h"}).json["data"]
    new, name = rotated["token"], rotated["old_name"]
    others = [token_of(admin, each) for each in ("ci two", "ci (issued to Bob)", "my ci (issued 2026-01-01T00:00:00Z)")]
    status = [admin.ask("GET", "whoami", token=each).status for each in (first, new, *others)]
    assert status == [200] * 5
    answer = admin.ask("DELETE", "tokens/ci")
    (note,) = answer.json["metadata"]["logs"]
    said = f"also revoked: {name}, which still worked since a rotation"
    assert (answer.status, note["message"]) == (HTTPStatus.OK, said)
    status = [admin.ask("GET", "whoami", token=each).status for each in (first, new, *others)]
    assert status == [401, 401, 200, 200, 200]
    revoked = [(each["action"], each["record"]) for each in admin.audited()[-2:]]
    assert revoked == [("token.revoked", "ci"), ("token.revoked", name)]
    assert refusal(admin.ask("DELETE", "tokens/ci")) == (404, "Token not found")
    with opened(admin.running.home) as store:
        assert list(doubted_tokens(store.database)) == []


def test_the_command_says_which_old_secrets_it_revoked(home: Path) -> None:
    assert run_command(home, "token", "create", "ci").returncode == 0
    assert run_command(home, "token", "rotate", "ci", "--overlap", "24h").returncode == 0
    said = run_command(home, "token", "revoke", "ci").stderr.splitlines()
    assert said[0] == "revoked ci"
    assert said[1].startswith("note: also revoked: ci (issued 20")
    assert len(said) == 2


def test_the_right_to_approve_is_no_limit(home: Path) -> None:
    assert run_command(home, "token", "create", "ci").returncode == 0
    shown = [line.split("│")[1:3] for line in run_command(home, "whoami").stdout.splitlines() if "│" in line]
    facts = {name.strip(): value.strip() for name, value in shown}
    assert (facts["limited to"], facts["may approve"]) == ("", "yes")


def test_without_an_overlap_the_old_secret_ends_at_once(admin: Admin) -> None:
    old = token_of(admin, "ci")
    answer = admin.ask("POST", "tokens/ci/rotate", {})
    new = answer.json["data"]["token"]
    assert (answer.json["data"]["old_name"], answer.json["data"]["expires_at"]) == (None, None)
    assert [admin.running.ask("GET", "/api/v1/signers", token=each).status for each in (old, new)] == [401, 200]


@pytest.mark.parametrize("overlap", ["0", "soon", "1y"])
def test_an_overlap_that_is_none(shared: Admin, overlap: str) -> None:
    assert shared.ask("POST", "tokens/nobody/rotate", {"overlap": overlap}).status == 400


def test_rotating_what_is_not_there(shared: Admin) -> None:
    assert refusal(shared.ask("POST", "tokens/none/rotate", {})) == (404, "Token not found")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"kind": "owner", "scope": {"networks": ["n"]}},
            "scope cannot limit an owner, who decides what others may do",
        ),
        ({"scope": {}}, "scope must give relayers, networks or labels"),
        ({"addresses": ["here"]}, "addresses must be addresses such as 10.0.0.5 or CIDR ranges"),
        ({"burst": 5}, "burst needs a rate"),
    ],
)
def test_limits_that_are_refused(shared: Admin, given: dict[str, object], reason: str) -> None:
    answer = shared.ask("POST", "tokens", {"name": "refused", **given})
    assert (answer.status, answer.headers["relaydeck-reason"].startswith(reason)) == (400, True)


def test_who_an_application_is(shared: Admin) -> None:
    token = token_of(shared, "app", rate=5)
    assert shared.ask("GET", "whoami", token=token).json["data"] == {
        "actor": "token:app",
        "role": "api",
        "permissions": ["call", "list"],
        "rule": "the token app",
        "expires_at": None,
        "scope": None,
        "addresses": [],
        "rate": 5,
        "burst": 5,
        "approve": False,
    }


def test_every_interface_says_who_you_are_by_which_rule_and_until_when(shared: Admin) -> None:
    scope = {"labels": {"team": "a"}}
    made = shared.ask("POST", "tokens", {"name": "ours", "kind": "viewer", "scope": scope, "expires": "1h"}).json[
        "data"
    ]
    identity = shared.ask("GET", "whoami", token=made["token"]).json["data"]
    facts = {name: identity[name] for name in ("actor", "role", "rule", "expires_at", "scope")}
    assert facts == {
        "actor": "token:ours",
        "role": "viewer",
        "rule": "the token ours",
        "expires_at": made["expires_at"],
        "scope": scope,
    }
    url = f"http://127.0.0.1:{shared.running.port}"
    remote = run_command(shared.running.home, "whoami", "--json", url=url, token=made["token"])
    assert json.loads(remote.stdout) == identity
    local = json.loads(run_command(shared.running.home, "whoami", "--json").stdout)
    assert (local["role"], local["rule"], local["expires_at"]) == ("owner", MACHINE, None)
    page = Operator(shared.running.port).sign_in(made["token"]).text("/view")
    told = re.search(r'<p class="identity">(.*?)</p>', page, re.DOTALL)
    assert told is not None
    words = " ".join(re.sub(r"<[^>]+>|\s+", " ", told[1]).split()).replace(" ,", ",")
    limited = "limited to labels team=a, until "
    assert words.startswith(f"You are ours, with the role viewer, by the token ours, {limited}{made['expires_at']}")
