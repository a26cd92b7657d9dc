"""A change that needs two in a browser: an editor proposes it, another person approves it, and it is made.

With and without JavaScript.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from relaydeck.credentials.grants import Grant
from relaydeck.roles import Role
from tests.conftest import DEMO
from tests.console.browser.conftest import Observer, violations
from tests.console.browser.test_repairs import sign_in
from tests.support.running import Running, run_command
from tests.support.seeding import issue


class Team(NamedTuple):
    served: Running
    editor: Page
    approver: Page


@pytest.fixture(params=[True, False], ids=["scripted", "plain"])
def team(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Team]:
    """An editor, and another with `approve`, each in a browser of their own."""
    home = tmp_path / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    grants = {"editor": Grant(role=Role.EDITOR), "approver": Grant(role=Role.EDITOR, approve=True)}
    tokens = {name: issue(home, name, grant.stored) for name, grant in grants.items()}
    with Running(home, token=issue(home, "root", "owner"), monitor_interval_seconds="3600") as served:
        body = {"name": "main", "scope": {"networks": ["sepolia"]}, "kinds": ["relayer"]}
        assert served.ask("POST", "/admin/v1/protections", body).status == 201
        base = f"http://127.0.0.1:{served.port}"
        contexts = [browser.new_context(base_url=base, java_script_enabled=request.param) for _ in tokens]
        pages = [each.new_page() for each in contexts]
        observers = [Observer(page, served.port) for page in pages]
        for page, token in zip(pages, tokens.values(), strict=True):
            sign_in(page, token)
        yield Team(served, *pages)
        assert [each.found for each in observers] == [[], []]
        for each in contexts:
            each.close()


def propose(team: Team, amount: str) -> None:
    page = team.editor
    page.goto("/console/relayers/sepolia-1/edit")
    page.get_by_label("Minimum balance").fill(amount)
    page.get_by_role("button", name="Show the changes").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("Proposed. Somebody else has to approve this change.")


def open_proposal(page: Page) -> None:
    page.goto("/console")
    page.get_by_role("navigation").get_by_role("link", name="Proposals").first.click()
    page.get_by_role("link", name="update relayer sepolia-1").first.click()
    expect(page.locator("main")).to_contain_text("token:editor")


def minimum(team: Team) -> int:
    found: int = team.served.ask("GET", "/admin/v1/relayers/sepolia-1").json["data"]["policies"]["min_balance"]
    return found


def buttons(page: Page) -> list[str]:
    return page.locator("main").get_by_role("button").all_inner_texts()


def test_another_approves_what_an_editor_proposes(team: Team, request: pytest.FixtureRequest) -> None:
    propose(team, "1")
    assert minimum(team) == 0
    for page in (team.editor, team.approver):
        open_proposal(page)
    assert (buttons(team.editor), buttons(team.approver)) == (["Withdraw"], ["Approve and apply", "Reject"])
    if request.node.callspec.id == "scripted":
        assert [violations(page) for page in (team.editor, team.approver)] == [[], []]
    team.approver.get_by_role("button", name="Approve and apply").click()
    expect(team.approver.locator("h1 .badge")).to_have_text("applied")
    assert minimum(team) == 10**18
    team.editor.reload()
    expect(team.editor.locator("h1 .badge")).to_have_text("applied")
    expect(team.editor.locator("main")).to_contain_text("token:approver")
    assert buttons(team.editor) == []


def test_another_rejects_it_with_a_reason_that_its_author_reads(team: Team) -> None:
    propose(team, "2")
    open_proposal(team.approver)
    team.approver.get_by_label("Why").first.fill("not before the release")
    team.approver.get_by_role("button", name="Reject").click()
    expect(team.approver.locator("h1 .badge")).to_have_text("rejected")
    open_proposal(team.editor)
    expect(team.editor.locator("main")).to_contain_text("not before the release")
    assert minimum(team) == 0


def test_its_author_withdraws_it(team: Team) -> None:
    propose(team, "3")
    open_proposal(team.editor)
    team.editor.get_by_role("button", name="Withdraw").click()
    expect(team.editor.locator("h1 .badge")).to_have_text("withdrawn")
    assert (buttons(team.editor), minimum(team)) == ([], 0)
