"""Several relayers are changed, and taken back, in a browser, with and without JavaScript; a form that is long."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import DEMO
from tests.console.browser.conftest import violations
from tests.console.browser.test_repairs import sign_in
from tests.support.running import Running, run_command
from tests.support.seeding import issue


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("forms") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        for name in ("one", "two"):
            document = {"id": name, "name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
            assert running.ask("POST", "/admin/v1/relayers", document).status == 201
        yield running


@pytest.fixture(params=[True, False], ids=["scripted", "plain"])
def page(browser: Browser, served: Running, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}", java_script_enabled=request.param)
    opened = context.new_page()
    sign_in(opened, served.token)
    yield opened
    context.close()


def policies(served: Running) -> list[dict[str, Any]]:
    found = (served.ask("GET", f"/admin/v1/relayers/{each}").json["data"] for each in ("one", "two"))
    return [{"min_balance": each["policies"]["min_balance"], "labels": each.get("labels")} for each in found]


def test_several_relayers_are_changed_and_taken_back(page: Page, served: Running) -> None:
    before = policies(served)
    page.goto("/console/relayers")
    expect(page.get_by_role("button", name="Change …")).to_be_hidden()  # nothing is selected
    for name in ("one", "two"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Change …").click()
    page.get_by_label("Minimum balance").fill("0.5 ETH")
    page.get_by_label("Labels", exact=True).fill("team=payments")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.locator("main")).to_contain_text(
        "Labels: changed in 2 relayers, Minimum balance: changed in 2 relayers."
    )
    expect(page.get_by_role("list", name="Changes")).to_contain_text("0 → 0.5 ETH")
    assert policies(served) == before
    page.get_by_role("button", name="Change 2 relayers").click()
    expect(page.locator("h1")).to_have_text("Changed 2 relayers")
    assert policies(served) == [{"min_balance": 5 * 10**17, "labels": {"team": "payments"}}] * 2
    page.get_by_role("button", name="Revert all of it: 2 relayers …").click()
    page.get_by_role("button", name="Apply 2 changes").click()
    expect(page.locator("h1")).to_have_text("Applied")
    assert policies(served) == before


def test_the_bar_for_saving_stays_in_view(page: Page) -> None:
    page.goto("/console/relayers/one/edit")
    expect(page.get_by_role("button", name="Show the changes")).to_be_in_viewport()
    expect(page.get_by_role("group", name="Alerts")).not_to_be_in_viewport()


@pytest.mark.parametrize("page", [True], indirect=True)
def test_the_forms_and_the_pages_that_answer_them_are_accessible(page: Page) -> None:
    page.goto("/console/relayers/one/edit")
    assert violations(page) == []
    page.get_by_label("Minimum balance").fill("much")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("alert")).to_have_text("Enter an amount such as 0.5 ETH or 50 gwei.")
    assert violations(page) == []
    page.get_by_label("Minimum balance").fill("50 gwei")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("0 → 0.00000005 ETH")
    assert violations(page) == []
    page.goto("/console/relayers")
    page.get_by_label("Select one").check()
    page.get_by_role("button", name="Change …").click()
    expect(page.locator("h1")).to_have_text("Change 1 relayer")
    assert violations(page) == []
