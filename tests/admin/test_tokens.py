"""Tokens over the admin API, and what makes its POSTs and PATCHes safe to automate."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relaydeck.admin import idempotency
from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealing import Place
from tests.admin.conftest import Admin, made, problem, refusal, timeless
from tests.conftest import DEMO
from tests.support.running import Running, run_command
from tests.support.seeding import issue, opened
from tests.support.token_format import is_token


def test_a_token_is_issued_shown_once_listed_and_revoked(admin: Admin) -> None:
    answer = admin.ask("POST", "tokens", {"name": "ci", "kind": "readonly", "expires": "1h"})
    shown = timeless(answer.json["data"])
    token = shown.pop("token")
    assert (answer.status, is_token(token)) == (201, True)
    assert shown.pop("expires_at").endswith("Z")
    assert shown == {
        "name": "ci",
        "kind": "readonly",
        "state": "live",
        "revoked_at": None,
        "migrated": False,
        "scope": None,
        "addresses": [],
        "rate": 0,
        "burst": 0,
        "approve": False,
        "purpose": "",
        "made_by": "token:root",
        "last_used_at": None,
        "last_used_from": None,
    }
    assert admin.running.ask("GET", "/api/v1/signers", token=token).status == 200
    assert token not in admin.ask("GET", "tokens").body.decode()
    taken = admin.ask("POST", "tokens", {"name": "ci"})
    assert refusal(taken) == (409, "Token already exists")
    assert admin.ask("DELETE", "tokens/ci").json == made(None)
    assert admin.running.ask("GET", "/api/v1/signers", token=token).status == 401
    gone = admin.ask("DELETE", "tokens/ci")
    assert refusal(gone) == (404, "Token not found")
    states = {each["name"]: each["state"] for each in admin.get("tokens")}
    assert states == {"root": "live", "ci": "revoked"}
    for query, names in {
        "state=live": ["root"],
        "state=revoked": ["ci"],
        "kind=admin": ["root"],
        "name=C": ["ci"],
    }.items():
        assert [each["name"] for each in admin.get(f"tokens?{query}")] == names
    entries = admin.audited()[-2:]
    assert entries[0]["after"].pop("expires_at") > 0
    assert [(each["action"], each["record"], each["after"]) for each in entries] == [
        ("token.created", "ci", {"kind": "readonly"}),
        ("token.revoked", "ci", None),
    ]


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x", "kind": "root"}, {"name": "x", "expires": "soon"}])
def test_what_is_refused(shared: Admin, body: dict[str, Any]) -> None:
    assert shared.ask("POST", "tokens", body).status == 400


def test_the_same_key_and_body_get_the_same_answer_even_after_a_restart(admin: Admin) -> None:
    body = {"name": "once"}
    first = admin.ask("POST", "tokens", body, Idempotency_Key="key-1")
    assert (first.status, "idempotency-replayed" in first.headers) == (201, False)
    again = admin.ask("POST", "tokens", body, Idempotency_Key="key-1")
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")
    stored = b"".join(path.read_bytes() for path in admin.running.home.glob("relaydeck.db*"))
    assert first.json["data"]["token"].encode() not in stored
    admin.running.kill()
    with opened(admin.running.home) as store:  # a rotation meanwhile does not matter
        rotation = Rotation(store, EVERY_PROOF)
        rotation.begin(0)
        list(rotation.batches())
        rotation.finish()
    with Running(admin.running.home, token=admin.running.token) as restarted:
        other = Admin(restarted)
        assert other.ask("POST", "tokens", body, Idempotency_Key="key-1").body == first.body
        assert [each["name"] for each in other.get("tokens")] == ["root", "once"]


def test_another_body_or_path_is_refused_and_another_token_has_keys_of_its_own(admin: Admin) -> None:
    assert admin.ask("POST", "relayers/sepolia-1/pause", Idempotency_Key="k").status == 200
    for method, path, body in (
        ("POST", "relayers/sepolia-1/resume", None),
        ("POST", "relayers/other/pause", None),
        ("POST", "tokens", {"name": "x"}),
        ("POST", "relayers/sepolia-1/pause", {}),
    ):
        answer = admin.ask(method, path, body, Idempotency_Key="k")
        assert problem(answer) == (422, "Idempotency-Key was used for another request")
    token = issue(admin.running.home, "second", "admin")
    answer = admin.ask("POST", "relayers/sepolia-1/resume", token=token, Idempotency_Key="k")
    assert (answer.status, answer.json["data"]["paused"]) == (200, False)
    replayed = admin.ask("POST", "relayers/sepolia-1/pause", Idempotency_Key="k")
    assert (replayed.json["data"]["paused"], replayed.headers["idempotency-replayed"]) == (True, "true")
    assert replayed.headers["etag"]
    assert admin.get("relayers/sepolia-1")["paused"] is False


def test_what_was_refused_leaves_its_key_free(admin: Admin) -> None:
    body = {"name": "R", "network": "later", "network_type": "evm", "signer_id": "ops"}
    assert admin.ask("POST", "relayers", body, Idempotency_Key="k").status == 400
    network = {"name": "later", "network_type": "evm", "chain_id": 5, "native_symbol": "ETH"}
    assert admin.ask("POST", "networks", network).status == 201
    assert admin.ask("POST", "relayers", body, Idempotency_Key="k").status == 201


@pytest.mark.parametrize("key", ["a b", "x" * 256, "\u00e9"])
def test_what_is_no_key(shared: Admin, key: str) -> None:
    answer = shared.ask("POST", "tokens", {"name": "never"}, Idempotency_Key=key)
    assert problem(answer) == (400, "Bad Request")


def test_of_many_at_once_one_acts_and_all_get_its_answer(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, "--workers", "2", token=issue(home, "root", "admin")) as running:
        admin = Admin(running)
        body = {"name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(admin.ask, "POST", "relayers", body, Idempotency_Key="same") for _ in range(48)]
        answers = [each.result() for each in asked]
        assert {answer.status for answer in answers} == {201}
        assert len({answer.body for answer in answers}) == 1
        assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
        assert len(admin.get("relayers")) == 2


def test_a_key_is_forgotten_after_a_day(admin: Admin) -> None:
    body = {"type": "provider_a_kms", "config": {"key_id": "k", "region": "r"}}
    first = admin.ask("POST", "signers", body, Idempotency_Key="k").json["data"]["id"]
    with opened(admin.running.home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE idempotency_keys SET created_at = created_at - 86400")
    second = admin.ask("POST", "signers", body, Idempotency_Key="k").json["data"]["id"]
    assert first != second
    with opened(admin.running.home) as store:
        assert store.database.read("SELECT count(*) FROM idempotency_keys") == [(1,)]


def test_a_token_in_a_stored_response_opens_only_with_the_key_of_its_request(shared: Admin) -> None:
    """The master key alone does not open it."""
    answer = shared.ask("POST", "tokens", {"name": "kept apart"}, Idempotency_Key="only-the-sender-knows")
    token = answer.json["data"]["token"].encode()
    with opened(shared.running.home) as store:
        rows = store.database.read("SELECT scope, sealed_answer FROM idempotency_keys")
        opened_rows = [store.vault.open(row[1], Place("idempotency_keys", row[0], "answer")) for row in rows]
    assert rows and not any(token in each or b"rdk_" in each for each in opened_rows)


def test_stored_responses_are_purged_on_schedule(shared: Admin) -> None:
    shared.ask("POST", "tokens", {"name": "to purge"}, Idempotency_Key="to-purge")
    with opened(shared.running.home) as store:
        read, now = store.database.read, time.time()
        assert not idempotency.can_purge(read, now)
        assert idempotency.can_purge(read, now + 86_401)
        with store.database.transaction() as transaction:
            idempotency.purge(transaction, now + 86_401)
        assert read("SELECT count(*) FROM idempotency_keys") == [(0,)]


def test_lost_updates_are_refused(admin: Admin) -> None:
    for path, first, second in (
        ("relayers/sepolia-1", {"name": "A"}, {"name": "B"}),
        ("notifications/pager", {"signing_key": "A"}, {"signing_key": "B"}),
        ("networks/sepolia", {"native_symbol": "A"}, {"native_symbol": "B"}),
    ):
        etag = admin.ask("GET", path).headers["etag"]
        changed = admin.ask("PATCH", path, first, If_Match=f'"other", {etag}')
        assert (changed.status, changed.headers["etag"] != etag) == (200, True)
        assert changed.headers["etag"] == admin.ask("GET", path).headers["etag"]
        late = admin.ask("PATCH", path, second, If_Match=etag)
        assert problem(late) == (412, "Precondition Failed")
        assert late.headers["relaydeck-reason"] == "the record has changed: read it again"
        assert admin.ask("PATCH", path, second, If_Match=changed.headers["etag"]).status == 200
        assert admin.ask("PATCH", path, first, If_Match="*").status == 200
    etag = admin.ask("GET", "relayers/sepolia-1").headers["etag"]
    assert admin.ask("POST", "relayers/sepolia-1/pause").headers["etag"] != etag
    assert admin.ask("DELETE", "relayers/sepolia-1", If_Match=etag).status == 412
    assert admin.ask("DELETE", "relayers/sepolia-1", If_Match="*").status == 200
    assert admin.ask("DELETE", "relayers/sepolia-1", If_Match=etag).status == 404


def test_of_many_changes_with_one_etag_one_is_made(admin: Admin) -> None:
    """The writer commits them together, with one revision for all."""
    etag = admin.ask("GET", "relayers/sepolia-1").headers["etag"]

    def change(number: int) -> int:
        return admin.ask("PATCH", "relayers/sepolia-1", {"name": f"N{number}"}, If_Match=etag).status

    with ThreadPoolExecutor(12) as pool:
        statuses = sorted(pool.map(change, range(24)))
    assert statuses == [200] + [412] * 23


def test_commands_and_the_service_write_one_chain(admin: Admin) -> None:
    home = admin.running.home
    admin.ask("POST", "relayers/sepolia-1/pause")
    assert run_command(home, "token", "create", "t").returncode == 0
    assert run_command(home, "token", "revoke", "t").returncode == 0
    assert run_command(home, "key", "rotate").returncode == 0
    admin.ask("POST", "relayers/sepolia-1/resume")
    actors = [(each["actor"].split(":")[0], each["action"]) for each in admin.audited()[-5:]]
    assert actors == [
        ("token", "relayer.paused"),
        ("cli", "token.created"),
        ("cli", "token.revoked"),
        ("cli", "key.rotated"),
        ("token", "relayer.resumed"),
    ]
    done = run_command(home, "audit", "verify")
    assert (done.returncode, done.stderr) == (0, "")
    with closing(opened(home).__enter__()) as store:
        assert json.loads(store.database.read("SELECT after_change FROM audit WHERE seq = 2")[0][0])["type"] == "plain"
