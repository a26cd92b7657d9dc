"""The pages of changes that need approval: one proposes in a form, another decides."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from relaydeck.credentials.grants import Grant
from relaydeck.roles import Role
from relaydeck.scope import Scope
from tests.conftest import DEMO
from tests.console.conftest import Operator, plain
from tests.support.running import Running, run_command
from tests.support.seeding import issue


@pytest.fixture
def served(home: Path) -> Iterator[Running]:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "author", "owner"), monitor_interval_seconds="3600") as running:
        body = {"name": "main", "kinds": ["signer"]}
        assert running.ask("POST", "/admin/v1/protections", body).status == 201
        yield running


def propose(served: Running, label: str) -> str:
    answer = served.ask("PATCH", "/admin/v1/signers/ops?reason=tidy", {"labels": {"team": label}})
    identifier: str = answer.json["data"]["id"]
    return identifier


def test_a_form_that_needs_two_leads_to_its_proposal(served: Running) -> None:
    author = Operator(served.port).sign_in(served.token)
    answer = author.post("/signers/ops/delete", {"typed": "ops"})
    assert answer.status == 409  # a relayer uses it: refused, not proposed
    file = '[[signers]]\nid = "new"\ntype = "plain"\nconfig = { key = "0x' + "5e" * 32 + '" }\n'
    plan = author.post("/apply", {"file": file}).body.decode()
    fields = {name: plan.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("sealed", "revision")}
    answer = author.post("/apply/plan", fields)
    found = served.ask("GET", "/admin/v1/proposals").json["data"][0]["id"]
    assert (answer.status, answer.headers["location"]) == (303, f"/console/proposals/{found}?done=proposed")
    shown = plain(author.get(f"/proposals/{found}?done=proposed"))
    assert "Proposed. Somebody else has to approve this change." in shown


def test_a_session_with_a_scope_is_led_to_its_proposal(served: Running) -> None:
    assert served.ask("POST", "/admin/v1/protections", {"name": "all", "kinds": ["relayer"]}).status == 201
    grant = Grant(role=Role.EDITOR, scope=Scope(networks=("sepolia",)))
    limited = Operator(served.port).sign_in(issue(served.home, "limited", grant.stored))
    answer = limited.post("/relayers/sepolia-1/delete", {"typed": "Sepolia one"})
    found = served.ask("GET", "/admin/v1/proposals").json["data"][0]["id"]
    assert (answer.status, answer.headers["location"]) == (303, f"/console/proposals/{found}?done=proposed")


def test_the_overview_says_how_many_changes_wait(served: Running) -> None:
    approver = Operator(served.port).sign_in(issue(served.home, "approver", "owner"))
    assert "for approval" not in plain(approver.get(""))
    propose(served, "a")
    link = '<a href="/console/proposals?state=open">{} for approval</a>'
    assert link.format("1 change waits") in approver.text("")
    propose(served, "b")
    assert link.format("2 changes wait") in approver.text("")


def test_another_approves_and_the_author_has_no_button_for_it(served: Running) -> None:
    proposal = propose(served, "a")
    author = Operator(served.port).sign_in(served.token)
    approver = Operator(served.port).sign_in(issue(served.home, "approver", "owner"))
    assert "update signer ops" in plain(author.get("/proposals"))
    made = served.ask("POST", "/admin/v1/tokens", {"name": "made", "kind": "owner"}).json["data"]["token"]
    by_author = Operator(served.port).sign_in(made)
    pages = [each.text(f"/proposals/{proposal}") for each in (author, by_author, approver)]
    assert ["Approve and apply" in each for each in pages] == [False, False, True]
    assert ["Somebody else has to approve this: you proposed it." in each for each in pages] == [True, False, False]
    assert ["You cannot approve this" in each for each in pages] == [False, True, False]
    assert ["<dt>expires</dt>" in each for each in pages] == [True] * 3
    assert "update signer ops open" in plain(author.get(f"/proposals/{proposal}"))
    assert [each.post(f"/proposals/{proposal}/approve").status for each in (author, by_author)] == [403, 403]
    answer = approver.post(f"/proposals/{proposal}/approve")
    assert (answer.status, answer.headers["location"]) == (303, f"/console/proposals/{proposal}?done=applied")
    decided = approver.text(f"/proposals/{proposal}")
    assert ("token:approver" in decided, "<dt>expires</dt>" in decided) == (True, False)
    assert '<td class="nowrap" data-label="expires"></td>' in approver.text("/proposals")
    assert served.ask("GET", "/admin/v1/signers/ops").json["data"]["labels"] == {"team": "a"}


def test_the_page_says_which_value_is_removed(served: Running) -> None:
    operator = Operator(served.port).sign_in(served.token)
    assert operator.post(f"/proposals/{propose(served, 'a')}/force", {"reason": "alone"}).status == 303
    removing = served.ask("PATCH", "/admin/v1/signers/ops", {"labels": {"team": None}}).json["data"]["id"]
    assert "Labels: team=a → unset" in plain(operator.get(f"/proposals/{removing}"))


def test_amounts_are_in_coins_and_gwei(served: Running) -> None:
    path, policies = "/admin/v1/relayers/sepolia-1", {"min_balance": 10**17, "gas_price_cap": 2 * 10**8}
    assert served.ask("PATCH", path, {"policies": policies}).status == 200
    assert served.ask("POST", "/admin/v1/protections", {"name": "two", "kinds": ["relayer"]}).status == 201
    asked = served.ask("PATCH", path, {"policies": {"min_balance": 7 * 10**17, "gas_price_cap": 10**8}})
    page = Operator(served.port).sign_in(served.token).get(f"/proposals/{asked.json['data']['id']}")
    assert [
        each in plain(page) for each in ("Minimum balance: 0.1 ETH → 0.7 ETH", "price cap: 0.2 gwei → 0.1 gwei")
    ] == [*(True, True)]
    assert '<span class="amount" title="700,000,000,000,000,000 Wei">0.7 ETH</span>' in page.body.decode()


def test_only_the_author_has_a_button_that_withdraws(served: Running) -> None:
    proposal = propose(served, "a")
    author = Operator(served.port).sign_in(served.token)
    other = Operator(served.port).sign_in(issue(served.home, "other", "owner"))
    path = f"/proposals/{proposal}"
    assert ["Withdraw" in each.text(path) for each in (author, other)] == [True, False]
    answers = [each.post(f"{path}/withdraw") for each in (other, author)]
    assert [each.status for each in answers] == [403, 303]
    assert answers[1].headers["location"] == f"/console{path}?done=withdrawn"
    assert "Withdraw<" not in author.text(path)
    assert "update signer ops" in plain(author.get("/proposals?state=withdrawn"))


def test_a_decision_has_a_reason(served: Running) -> None:
    first, second = propose(served, "a"), propose(served, "b")
    operator = Operator(served.port).sign_in(served.token)
    assert operator.post(f"/proposals/{first}/reject", {"reason": " "}).status == 400
    assert operator.post(f"/proposals/{first}/reject", {"reason": "not now"}).status == 303
    assert operator.post(f"/proposals/{second}/force", {"reason": "at night"}).status == 303
    states = {each["id"]: each["state"] for each in served.ask("GET", "/admin/v1/proposals").json["data"]}
    assert states == {first: "rejected", second: "forced"}
