"""What once misled an operator, as a person does it in a browser, compared with the database."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from relaydeck.notifications.notification_changes import place
from relaydeck.relayers import snapshots
from relaydeck.relayers.snapshots import Incident, NodeProblem
from tests.conftest import DEMO
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement

TYPED = "a key of twenty-four bytes or more"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("repairs") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Running) -> Iterator[Page]:
    """Signed in with the token of an administrator."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}")
    opened = context.new_page()
    sign_in(opened, served.token)
    yield opened
    context.close()


def sign_in(page: Page, token: str, path: str = "") -> None:
    page.goto(f"/console{path}")
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/console{path}")


def stored_key(served: Running, name: str) -> str:
    with opened(served.home) as store:
        (row,) = store.database.read("SELECT * FROM notifications WHERE id = :id", {"id": name})
        return store.vault.open(row.sealed_signing_key, place(name, row.secret_version)).decode()


def test_a_signing_key_that_is_typed_is_the_one_that_is_stored(page: Page, served: Running) -> None:
    page.goto("/console/notifications/pager")
    expect(page.get_by_label("leave it as it is")).to_be_checked()
    page.get_by_label("New signing key").fill(TYPED)
    expect(page.get_by_label("replace it by", exact=True)).to_be_checked()
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text(
        "Signing key: replaced by the one that was typed; for a day, the present one signs as well"
    )
    assert TYPED not in page.content()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("Saved.")
    assert stored_key(served, "pager") == TYPED


def test_replacing_a_signing_key_by_nothing_is_refused(page: Page, served: Running) -> None:
    before = stored_key(served, "pager")
    page.goto("/console/notifications/pager")
    page.get_by_label("replace it by", exact=True).check()
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("alert")).to_contain_text("Type the new signing key")
    assert stored_key(served, "pager") == before


def test_a_short_signing_key_gets_a_warning_and_a_random_one_is_made(page: Page, served: Running) -> None:
    document = {"id": "short", "type": "webhook", "url": "https://hooks.example.com/short"}
    assert served.ask("POST", "/admin/v1/notifications", document).status == 201
    page.goto("/console/notifications/short")
    expect(page.get_by_text("remove it: events are no longer signed")).to_have_count(0)  # there is none
    page.get_by_label("New signing key").fill("too short")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("Signing key: set to the one that was typed")
    expect(page.locator("main")).to_contain_text("fewer than 24 bytes and may be guessed")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("Saved.")
    page.get_by_label("replace it by a random one, shown once").check()
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text(
        "replaced by a random one, which is shown once; for a day, the present one signs as well"
    )
    page.get_by_role("button", name="Save").click()
    shown = page.get_by_role("status").locator("code").inner_text()
    assert stored_key(served, "short") == shown and shown.startswith("whsec_")
    expect(page.get_by_role("region", name="How the receiver checks a signature")).to_contain_text(
        re.compile("The one before it signs as well, and ends in (1 d|23 h 59 min)")
    )
    page.get_by_label("remove it: events are no longer signed").check()
    page.get_by_role("button", name="Show the changes").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("There is no signing key: events are not signed")
    assert served.ask("GET", "/admin/v1/notifications/short").json["data"]["has_signing_key"] is False


def test_a_page_says_that_the_service_is_gone(browser: Browser, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        page = browser.new_context(base_url=f"http://127.0.0.1:{running.port}").new_page()
        sign_in(page, running.token)
        expect(page.locator("#stale")).to_have_count(0)
    expect(page.locator("#stale")).to_have_text(
        re.compile(r"Not updated since \d\d:\d\d:\d\d: the service does not answer, or fails\.")
    )
    greyed = page.locator("main time, main .badge").first.evaluate("each => getComputedStyle(each).color")
    assert greyed == page.locator("main .muted").first.evaluate("each => getComputedStyle(each).color")
    page.context.close()


def test_a_page_that_cannot_be_updated_says_so_although_the_service_answers(page: Page, served: Running) -> None:
    page.goto("/console/relayers/sepolia-1")
    refreshes = "**/console/relayers/sepolia-1"
    page.route(refreshes, lambda route: route.fulfill(status=500, body="failed"))
    assert served.ask("POST", "/admin/v1/relayers/sepolia-1/pause").status == 200
    expect(page.locator("#stale")).to_contain_text("Not updated since")
    page.unroute(refreshes)
    expect(page.locator("h1 .badge")).to_have_text("paused")  # it goes on trying
    expect(page.locator("#stale")).to_have_count(0)
    assert served.ask("POST", "/admin/v1/relayers/sepolia-1/resume").status == 200


def test_removals_are_counted_and_confirmed_by_their_number(page: Page, served: Running) -> None:
    more = DEMO + '\n[[notifications]]\nid = "spare"\ntype = "webhook"\nurl = "https://hooks.example.com/spare"\n'
    assert run_command(served.home, "apply", "-", stdin=more).returncode == 0
    page.goto("/console/apply")
    page.get_by_label("Apply file (TOML)").fill(DEMO)
    page.get_by_label("remove", exact=False).check()
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator("main")).to_contain_text("1 record is removed: 1 notification.")
    confirmation = page.get_by_label("Type 1 to confirm")
    confirmation.fill("2")
    page.get_by_role("button", name="Apply 1 change").click()
    expect(page.get_by_role("alert").last).to_contain_text("Type the number of removals exactly.")
    assert served.ask("GET", "/admin/v1/notifications/spare").status == 200
    page.get_by_label("Type 1 to confirm").fill("1")
    page.get_by_role("button", name="Apply 1 change").click()
    expect(page.locator("h1")).to_have_text("Applied")
    assert served.ask("GET", "/admin/v1/notifications/spare").status == 404


def test_a_filter_without_a_field_survives_the_next_search(page: Page) -> None:
    page.goto("/console/relayers?signer_id=nobody")
    expect(page.locator(".chip")).to_contain_text("Signer: nobody")
    expect(page.get_by_label(re.compile("^Filters"))).to_be_hidden()  # the button of narrow screens
    page.get_by_role("searchbox", name="Name").fill("Sepolia")
    page.get_by_role("searchbox", name="Name").press("Enter")
    expect(page).to_have_url(re.compile("signer_id=nobody"))
    expect(page.locator("main")).to_contain_text("No relayer matches.")
    expect(page.get_by_role("list", name="Active filters").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("link", name="Remove the filter Signer: nobody").click()
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("Name: Sepolia")
    expect(page.locator("main")).to_contain_text("Sepolia one")


def attempted(served: Running, *names: str) -> bool:
    listed = served.ask("GET", "/admin/v1/deliveries").json["data"]
    return all(each["tries"] for each in listed if each["notification_id"] in names)


def test_only_the_dead_deliveries_that_are_listed_are_sent_again(page: Page, served: Running) -> None:
    for name in ("desk", "mail"):
        document = {"id": name, "type": "webhook", "url": "https://127.0.0.1:9/"}  # refused before it is connected to
        assert served.ask("POST", "/admin/v1/notifications", document).status == 201
        assert served.ask("POST", f"/admin/v1/notifications/{name}/test").status == 201
    eventually(partial(attempted, served, "desk", "mail"))
    with opened(served.home) as store:
        dead = "UPDATE deliveries SET state = 'dead', due_at = NULL WHERE notification_id <> 'pager'"
        run_statement(store.database, dead)
    page.goto("/console/deliveries?notification_id=desk")
    page.get_by_role("link", name="Send 1 dead again").click()
    expect(page.locator("h1")).to_have_text("Send 1 dead delivery again?")
    page.get_by_role("button", name="Send them again").click()
    expect(page.locator("main")).to_contain_text("Scheduled to be sent again.")
    dead = served.ask("GET", "/admin/v1/deliveries?state=dead").json["data"]
    assert [each["notification_id"] for each in dead] == ["mail"]


def test_a_conflict_shows_only_what_differs_and_names_who_changed_it(page: Page, served: Running) -> None:
    name = served.ask("GET", "/admin/v1/relayers/sepolia-1").json["data"]["name"]
    page.goto("/console/relayers/sepolia-1/edit")
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"name": "Theirs"}).status == 200
    assert served.ask("POST", "/admin/v1/relayers/sepolia-1/pause").status == 200
    page.locator('[name="name"]').fill("Mine")
    page.get_by_role("button", name="Show the changes").click()
    shown = page.get_by_role("alert")
    expect(shown).to_contain_text("It was paused by token:root")
    cells = [row.locator("td").all_text_contents() for row in shown.locator("tbody tr").all()]
    assert [[each.partition(" by ")[0] for each in row] for row in cells] == [["Name", name, "Theirs", "Mine"]]
    expect(shown.locator("td").nth(2)).to_contain_text("Theirs by token:root")
    assert served.ask("GET", "/admin/v1/relayers/sepolia-1").json["data"]["name"] == "Theirs"
    served.ask("POST", "/admin/v1/relayers/sepolia-1/resume")


def test_a_readonly_session_sees_no_key_in_a_webhook(browser: Browser, served: Running) -> None:
    document = {"id": "keyed", "type": "webhook", "url": "https://hooks.example.com/T000/planted-key"}
    assert served.ask("POST", "/admin/v1/notifications", document).status == 201
    context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}")
    page = context.new_page()
    sign_in(page, issue(served.home, "looker", "readonly"), "/notifications/keyed")
    expect(page.locator("main")).to_contain_text("https://hooks.example.com/…")
    assert "planted-key" not in page.content()
    page.goto("/console/notifications")
    assert "planted-key" not in page.content()
    context.close()


def test_every_mistake_of_a_form_is_beside_its_field(page: Page, served: Running) -> None:
    before = served.ask("GET", "/admin/v1/relayers").json["data"]
    page.goto("/console/relayers/new")
    page.locator('[name="name"]').fill("   ")
    page.locator('[name="network"]').fill("nowhere")
    page.locator('[name="signer_id"]').fill("nobody")
    page.locator('[name="policies.min_balance"]').fill("much")
    page.get_by_role("button", name="Create").click()
    wrong = page.locator(".field.wrong")
    expect(wrong).to_have_count(4)
    names = [each.get_attribute("name") for each in wrong.locator("input").all()]
    assert names == ["name", "signer_id", "network", "policies.min_balance"]
    expect(page.locator('[name="name"]')).to_be_focused()
    expect(wrong.first).to_contain_text("Fill this in.")
    assert served.ask("GET", "/admin/v1/relayers").json["data"] == before


def test_signing_in_says_until_when_it_is_blocked(browser: Browser, served: Running) -> None:
    context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}")
    page = context.new_page()
    page.goto("/console/sign-in")
    for _ in range(11):
        page.get_by_label("Access token").fill("a wrong token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"blocked until \d\d:\d\d:\d\d UTC"))
    context.close()


def test_a_relayer_says_whose_nodes_it_uses(page: Page, served: Running) -> None:
    page.goto("/console/relayers/sepolia-1")
    for nodes, whose in (([], "Nodes of its network"), ([{"url": "http://127.0.0.1:9/own"}], "Nodes of its own")):
        assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"custom_rpc_urls": nodes}).status == 200
        expect(page.locator("#nodes")).to_have_text(whose)  # on the open page


def test_a_problem_is_acknowledged_for_a_while_and_others_see_by_whom(
    page: Page, browser: Browser, served: Running
) -> None:
    refused = Incident(failed_rounds=1, failing_since=1000, evidence=(NodeProblem("http://node", "is down"),))
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", refused)
    page.goto("/console")
    wrong = page.get_by_role("region", name="Problems of relayers").locator("tbody tr")
    expect(wrong).to_contain_text("No node returned the nonce: http://node is down.")
    page.get_by_text("Acknowledge …").first.click()
    page.get_by_label("Note").first.fill("provider told")
    page.get_by_role("button", name="Acknowledge").first.click()
    expect(page.get_by_role("status").first).to_have_text("Acknowledged.")
    known = served.ask("GET", "/admin/v1/problems").json["data"][-1]["acknowledgement"]
    assert (known["note"], known["by"]) == ("provider told", "token:root")
    context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}")
    other = context.new_page()
    sign_in(other, issue(served.home, "watcher", "viewer"))
    expect(other.locator("main")).to_contain_text("provider told token:root")
    expect(other.get_by_role("button", name="Open again")).to_be_disabled()
    context.close()
    page.get_by_role("button", name="Open again").click()
    expect(page.get_by_role("status").first).to_have_text("Open again.")
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident())


@pytest.mark.parametrize(("times", "hour"), [("UTC", "18:00"), ("local", "09:00")])  # of UTC, for 18:00 in Tokyo
def test_a_problem_is_acknowledged_until_a_moment(browser: Browser, served: Running, times: str, hour: str) -> None:
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident(low_since=1000, balance=3))
    root = f"http://127.0.0.1:{served.port}"
    context = browser.new_context(base_url=root, timezone_id="Asia/Tokyo")
    context.add_cookies([{"name": "relaydeck_times", "value": times, "url": f"{root}/console"}])
    page = context.new_page()
    sign_in(page, served.token)
    page.get_by_text("Acknowledge …").first.click()
    page.get_by_label("Note").first.fill("provider told")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    page.get_by_label(re.compile("or until .*" + ("UTC" if times == "UTC" else "local time"))).first.fill(
        f"{tomorrow}T18:00"
    )
    page.get_by_role("button", name="Acknowledge").first.click()
    expect(page.get_by_role("status").first).to_have_text("Acknowledged.")
    known = served.ask("GET", "/admin/v1/problems").json["data"][-1]["acknowledgement"]
    assert known["until"] == f"{tomorrow}T{hour}:00Z"
    page.get_by_role("button", name="Open again").click()
    expect(page.get_by_role("status").first).to_have_text("Open again.")
    context.close()
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident())


def test_a_relayer_with_a_problem_is_not_green(page: Page, served: Running) -> None:
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident(low_since=1000, balance=3))
    page.goto("/console/relayers")
    badges = page.get_by_role("row", name="sepolia-1").locator(".badge")
    expect(badges).to_have_text(["active", "low balance"])
    assert [each.get_attribute("class") for each in badges.all()] == ["badge idle", "badge warn"]
    with opened(served.home) as store:
        run_statement(store.database, "UPDATE relayers SET system_disabled = true, paused = true")
    page.goto("/console/relayers")
    expect(badges).to_have_text(["paused", "disabled"])
    page.goto("/console/relayers/sepolia-1")
    expect(page.locator("h1 .badge")).to_have_text(["paused", "disabled"])
    with opened(served.home) as store:
        run_statement(store.database, "UPDATE relayers SET system_disabled = false, paused = false")
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident())
