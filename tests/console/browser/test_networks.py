"""A network is created, tested and edited in a browser, with and without JavaScript."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import DEMO
from tests.console.browser.conftest import violations
from tests.console.browser.test_repairs import sign_in
from tests.support.running import Running, run_command
from tests.support.seeding import issue


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("networks") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        yield running


@pytest.fixture(params=[True, False], ids=["scripted", "plain"])
def page(browser: Browser, served: Running, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{served.port}", java_script_enabled=request.param, color_scheme="dark"
    )
    opened = context.new_page()
    sign_in(opened, served.token)
    yield opened
    context.close()


def test_a_network_is_created_tested_and_edited(page: Page, served: Running, request: pytest.FixtureRequest) -> None:
    name = f"base-{request.node.callspec.id}"
    page.goto("/console/networks")
    page.get_by_role("link", name="New network").click()
    page.get_by_label("Name (required)").fill(name)
    page.get_by_label("Chain", exact=True).select_option("base")
    page.get_by_role("button", name="Fill in what it gives").click()
    expect(page.get_by_label("chain id")).to_have_value("8453")
    node = page.get_by_role("group", name="Node 1")
    node.get_by_label("url").fill("http://127.0.0.1:9/key")
    node.get_by_label("headers").fill("Authorization: Bearer hunter2")
    node.get_by_role("button", name="Test this URL").click()
    expect(node.get_by_role("status")).to_contain_text("It refused the connection.")
    expect(node.get_by_label("headers")).to_have_value("Authorization: (set)")
    page.get_by_label("chain id").fill("none")
    page.get_by_label("chain id").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Expected an integer")
    page.get_by_label("chain id").fill("8453")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("Created.")
    page.get_by_role("link", name="Edit").click()
    page.get_by_role("group", name="Node 1").get_by_label("weight").fill("5")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("http://127.0.0.1:9 weight 5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    found = served.ask("GET", f"/admin/v1/networks/{name}").json["data"]
    headers = [{"name": "Authorization"}]
    assert found["rpc_urls"] == [{"url": "http://127.0.0.1:9/key", "weight": 5, "headers": headers}]


@pytest.mark.parametrize("page", [True], indirect=True)
def test_pages_that_answer_the_form_are_accessible(page: Page) -> None:
    page.goto("/console/networks/sepolia/edit")
    page.get_by_role("button", name="Test this URL").first.click()
    expect(page.locator("fieldset [role=status]")).to_be_visible()
    assert violations(page) == []
    page.get_by_text("More", exact=True).click()
    page.get_by_label("quorum").fill("9")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("quorum").fill("2")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_be_visible()
    assert violations(page) == []


def test_a_record_is_downloaded(page: Page) -> None:
    page.goto("/console/networks/sepolia")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert download.value.suggested_filename == "networks-sepolia.toml"
    assert Path(download.value.path()).read_text("utf-8").startswith("[networks.sepolia]\n")
