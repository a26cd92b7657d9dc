"""An operator's day in a real browser: with two workers, and on PostgreSQL with two replicas."""

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from relaydeck.signers.signer_types import SHAPES
from tests.conftest import DEMO
from tests.console.browser.conftest import Observer
from tests.console.test_changes import CONFIGS
from tests.notifications.verifying import KEY, VerifyingReceiver, verifying_receiver
from tests.places import choose
from tests.postgres import PostgresServer
from tests.running import Running, run_command


class Fleet(NamedTuple):
    """The service, by the ports at which it answers, and the receiver of its events."""

    home: Path
    ports: tuple[int, ...]
    settings: dict[str, str]
    receiver: VerifyingReceiver


@pytest.fixture(scope="module", params=["two workers", "two replicas"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("story")
    settings = {"webhook_allow": "127.0.0.1", "monitor_interval_seconds": "3600"}
    with ExitStack() as started:
        receiver = started.enter_context(verifying_receiver())
        homes = [folder / "one"]
        if request.param == "two replicas":
            server: PostgresServer = request.getfixturevalue("postgres")
            url = server.url(server.fresh())
            settings["master_key_file"] = str(folder / "master.key")
            homes.append(folder / "other")
            for home in homes:
                choose(home, url)
        workers = () if len(homes) > 1 else ("--workers", "2")
        running = [started.enter_context(Running(home, *workers, **settings)) for home in homes]
        yield Fleet(homes[0], tuple(each.port for each in running), settings, receiver)


class Operator:
    """Goes to pages, on each replica in turn: cookies do not depend on the port."""

    def __init__(self, page: Page, fleet: Fleet) -> None:
        self.page = page
        self._ports = itertools.cycle(fleet.ports)

    def go(self, path: str) -> None:
        self.page.goto(f"http://127.0.0.1:{next(self._ports)}/console{path}")

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def sees(self, text: str) -> None:
        expect(self.page.locator("main")).to_contain_text(text)


def test_the_story(browser: Browser, fleet: Fleet) -> None:
    context = browser.new_context()
    page = context.new_page()
    observer = Observer(page, *fleet.ports)
    operator = Operator(page, fleet)
    enter(operator, fleet)
    find_and_pause(operator, fleet)
    edit_against_another(operator, fleet)
    for signer_type in SHAPES:
        create_signer(operator, signer_type)
    replay_a_dead_delivery(operator, fleet)
    revoke_own_token(operator)
    assert observer.found == []
    context.close()


def enter(operator: Operator, fleet: Fleet) -> None:
    """The first start, a one-time link, the demo."""
    done = run_command(fleet.home, "console", "--url", f"http://127.0.0.1:{fleet.ports[0]}", **fleet.settings)
    operator.page.goto(done.stdout.strip())
    operator.sees("There are no relayers yet.")
    demo = DEMO.replace("https://hooks.example.com/relaydeck", fleet.receiver.url).replace(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", KEY
    )
    applied = run_command(fleet.home, "apply", "-", stdin=demo, **fleet.settings)
    assert applied.returncode == 0, applied.stderr
    operator.sees("The monitor knows of no problem.")  # without loading the page again


def find_and_pause(operator: Operator, fleet: Fleet) -> None:
    operator.go("/relayers")
    operator.page.keyboard.press("/")
    operator.page.keyboard.type("sepolia ONE")
    operator.page.keyboard.press("Enter")
    operator.page.get_by_role("link", name="Sepolia one").click()
    operator.press("Pause")
    operator.sees("an operator paused it")
    event = fleet.receiver.next()
    assert (event["type"], event["data"]["relayer"]["id"]) == ("relayer.paused", "sepolia-1")
    operator.page.get_by_role("link", name="relayer.paused").first.click()
    operator.page.get_by_role("link", name="to pager").click()
    operator.sees("delivered")
    operator.go("/relayers/sepolia-1")
    operator.press("Resume")
    operator.sees("Nothing is known to be wrong.")
    assert fleet.receiver.next()["type"] == "relayer.resumed"


def edit_against_another(operator: Operator, fleet: Fleet) -> None:
    """Two operators open the same form; the second to save is stopped, and decides."""
    other = operator.page.context.new_page()
    second = Operator(other, fleet)
    for each in (operator, second):
        each.go("/relayers/sepolia-1/edit")
    operator.page.get_by_label("min balance").fill("1000000000000000000")
    operator.press("Save")
    operator.sees("1 ETH")
    other.get_by_label("min balance").fill("5")
    second.press("Save")
    second.sees("Somebody else has changed this relayer")
    second.sees("1000000000000000000")
    second.press("Save")
    second.sees("Saved.")
    other.close()


def create_signer(operator: Operator, signer_type: str) -> None:
    operator.go(f"/signers/new?type={signer_type}")
    operator.page.get_by_label("id", exact=True).fill(f"new {signer_type}")
    for name, value in CONFIGS[signer_type].items():
        operator.page.locator(f'[name="{name}"]').fill(value)
    operator.press("Create")
    operator.sees("Created.")
    operator.sees(f"new {signer_type}")


def replay_a_dead_delivery(operator: Operator, fleet: Fleet) -> None:
    fleet.receiver.status = 410
    operator.go("/notifications/pager")
    operator.press("Send a test")
    fleet.receiver.next()
    expect(operator.page.locator("h1 .badge")).to_have_text("dead")  # the page is updated by itself
    fleet.receiver.status = 204
    operator.press("Send again")
    fleet.receiver.next()
    expect(operator.page.locator("h1 .badge")).to_have_text("delivered")
    expect(operator.page.get_by_role("region", name="Attempts").locator("tbody tr")).to_have_count(2)


def revoke_own_token(operator: Operator) -> None:
    operator.go("/tokens")
    operator.page.get_by_role("row", name=re.compile("console-")).get_by_role("link", name="Revoke").click()
    operator.sees("It is your own token: you will be signed out.")
    operator.press("Revoke")
    expect(operator.page.get_by_label("Access token")).to_be_visible()


def test_reading_and_pausing_without_scripts(browser: Browser, fleet: Fleet) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    done = run_command(fleet.home, "console", "--url", f"http://127.0.0.1:{fleet.ports[0]}", **fleet.settings)
    page.goto(done.stdout.strip())
    page.get_by_role("link", name="Relayers", exact=True).click()
    page.get_by_role("link", name="Sepolia one").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_contain_text("active")
    context.close()


def test_a_form_that_is_being_filled_in_and_the_focus_survive_an_update(browser: Browser, fleet: Fleet) -> None:
    page = browser.new_page()
    done = run_command(fleet.home, "console", "--url", f"http://127.0.0.1:{fleet.ports[0]}", **fleet.settings)
    page.goto(done.stdout.strip())
    page.goto(f"http://127.0.0.1:{fleet.ports[0]}/console/relayers")
    page.get_by_label("Name").fill("half-typed")
    page.get_by_label("Select Sepolia one").check()
    paused = run_command(fleet.home, "relayer", "pause", "sepolia-1", **fleet.settings)
    assert paused.returncode == 0, paused.stderr
    expect(page.get_by_role("row", name="Sepolia one")).to_contain_text("paused")
    assert page.get_by_label("Name").input_value() == "half-typed"
    assert page.get_by_label("Select Sepolia one").is_checked()
    run_command(fleet.home, "relayer", "resume", "sepolia-1", **fleet.settings)
    page.close()
