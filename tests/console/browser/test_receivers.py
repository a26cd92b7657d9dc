"""A receiver that failed is found, understood and caught up; a change is found in the audit log and planned back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser.test_looks import look_at
from tests.support.running import Running, eventually
from tests.support.seeding import fill, issue, relayer
from tests.support.verifying import VerifyingReceiver, verifying_receiver

ADDRESS = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"  # of the signer


@pytest.fixture(scope="module")
def receiver() -> Iterator[VerifyingReceiver]:
    with verifying_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory, receiver: VerifyingReceiver) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("hooked") / "home"
    fill(
        home, notifications={"pager": receiver.key}, relayers=[relayer("r0", notification_id="pager", address=ADDRESS)]
    )
    settings: dict[str, Any] = {"monitor_interval_seconds": "0", "webhook_allow": "127.0.0.0/8"}
    with Running(home, token=issue(home, "root", "admin"), **settings) as running:
        assert running.ask("PATCH", "/admin/v1/notifications/pager", {"url": receiver.url}).status == 200
        yield running


@pytest.fixture
def page(browser: Browser, hooked: Running) -> Iterator[Page]:
    context = browser.new_context(base_url=f"http://127.0.0.1:{hooked.port}")
    page = context.new_page()
    page.goto("/console")
    page.get_by_label("Access token").fill(hooked.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    yield page
    context.close()


def test_a_receiver_that_recovered_gets_what_waited(hooked: Running, receiver: VerifyingReceiver, page: Page) -> None:
    receiver.status, receiver.headers = 503, {"Retry-After": "3600"}
    for change in ("pause", "resume"):
        assert hooked.ask("POST", f"/admin/v1/relayers/r0/{change}").status == 200
    receiver.next()
    page.get_by_role("row", name="receiver failing").get_by_role("link", name="pager").click()
    health = page.get_by_role("region", name="Health")
    expect(health).to_contain_text("Nothing has arrived since an attempt failed")
    expect(health).to_contain_text("HTTP 503 Service Unavailable")
    receiver.status, receiver.headers = 204, {}
    page.get_by_role("link", name="Send 2 now").click()
    page.get_by_role("button", name="Send 2 now").click()
    expect(health).to_contain_text("The latest attempt to reach it succeeded.")  # without loading the page again
    assert [receiver.next()["type"] for _ in range(2)] == ["relayer.paused", "relayer.resumed"]
    expect(page.get_by_role("region", name="What waits")).to_contain_text("Nothing.")
    states = [each["state"] for each in hooked.ask("GET", "/admin/v1/deliveries").json["data"]]
    assert states == ["delivered", "delivered"]
    page.get_by_text("An example to test with").click()
    assert look_at(page) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("h1")).to_have_text("Overview")
    assert page.get_by_text("receiver failing").count() == 0


def test_a_change_is_found_and_planned_back(hooked: Running, page: Page) -> None:
    assert hooked.ask("PATCH", "/admin/v1/relayers/r0", {"policies": {"min_balance": 7}}).status == 200
    page.get_by_role("link", name="Audit", exact=True).click()
    page.get_by_label("Record").fill("r0")
    page.get_by_label("Action").fill("relayer.updated")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("region", name="Audit entries")).to_contain_text("Minimum balance")
    assert look_at(page) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Revert").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("Minimum balance")
    assert hooked.ask("GET", "/admin/v1/relayers/r0").json["data"]["policies"]["min_balance"] == 7
    page.get_by_role("button", name="Apply 1 change").click()
    expect(page.locator("h1")).to_have_text("Applied")
    eventually(lambda: hooked.ask("GET", "/admin/v1/relayers/r0").json["data"]["policies"]["min_balance"] == 0)
