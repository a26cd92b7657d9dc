"""Every page, in both themes and five widths: accessible, no errors, no foreign requests, usable without JavaScript."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from relaydeck.console.page_request import PAGES
from tests.conftest import DEMO
from tests.console.browser.conftest import Observer, violations
from tests.console.conftest import new_link
from tests.support.running import Running, ask, run_command
from tests.support.seeding import issue

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # two themes and five widths of every page take a minute

IDENTIFIERS = {
    "relayers": "sepolia-1",
    "signers": "ops",
    "notifications": "pager",
    "networks": "sepolia",
    "tokens": "me",
}
WIDTHS = (360, 390, 768, 1440, 1920)
LAYOUTS = (360, 1440)  # one with cards and one with tables
THEMES: tuple[Any, ...] = ("light", "dark")
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
_PHONE, _DESK = 620, 1440
_CUT_OFF = """Array.from(document.querySelectorAll(".scroll"))
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.getAttribute("aria-label"))"""
_BUTTON = "#filters > .switch:visible"
_OPEN_FILTERS = "#filters > :not(.switch):visible"
_FILES = ("/csv", "/code", "/export")
_PAGES = sorted(
    path for path, methods in PAGES.items() if "GET" in methods and path != "/" and not path.endswith(_FILES)
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a change that waits for an approval."""
    home: Path = tmp_path_factory.mktemp("looks") / "home"
    long_name = "A relayer with a name that is as long as names get " * 5
    done = run_command(home, "apply", "-", stdin=DEMO.replace("Sepolia one", long_name[:255]))
    assert done.returncode == 0, done.stderr
    issue(home, "me", "readonly")
    editor = issue(home, "editor", "editor")
    with Running(home, token=issue(home, "root", "owner"), monitor_interval_seconds="3600") as running:
        running.ask("POST", "/admin/v1/relayers/sepolia-1/pause")
        running.ask("POST", "/admin/v1/notifications/pager/test")
        protection = {"name": "keys", "kinds": ["signer"]}
        assert running.ask("POST", "/admin/v1/protections", protection).status == 201
        proposed = ask(running.port, "PATCH", "/admin/v1/signers/ops", {"labels": {"team": "a"}}, token=editor)
        assert proposed.status == 202
        yield running


@pytest.fixture(scope="module")
def page(browser: Browser, served: Running) -> Iterator[Page]:
    yield from signed_in(browser, served)


@pytest.fixture(scope="module")
def plain(browser: Browser, served: Running) -> Iterator[Page]:
    yield from signed_in(browser, served, java_script_enabled=False)


def signed_in(browser: Browser, served: Running, **options: Any) -> Iterator[Page]:
    context = browser.new_context(**options)
    opened = context.new_page()
    opened.goto(f"http://127.0.0.1:{served.port}/console{new_link(served)}")
    opened.get_by_role("button", name="Sign in").click()
    opened.wait_for_url("**/console")
    yield opened
    context.close()


def address(served: Running, path: str) -> str:
    event, proposal = (served.ask("GET", f"/admin/v1/{each}").json["data"][0]["id"] for each in ("events", "proposals"))
    known = IDENTIFIERS | {"events": event, "deliveries": event, "proposals": proposal}
    resource = path.split("/")[1] if "/" in path else ""
    return f"http://127.0.0.1:{served.port}/console{path.replace('{id}', known.get(resource, ''))}"


def look_at(page: Page) -> list[str]:
    """Problems of the open page in every theme and width."""
    found = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        for width in LAYOUTS:
            page.set_viewport_size({"width": width, "height": 900})
            found += [f"{theme} {width}: {each}" for each in violations(page)]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate(_TOO_WIDE):
            found.append(f"{width}: scrolls sideways")
        if width < _PHONE:
            found += [f"{width}: {each} is cut off" for each in page.evaluate(_CUT_OFF)]
            found += [f"{width}: filters are not behind a button"] * page.locator(_OPEN_FILTERS).count()
        elif width >= _DESK:
            found += [f"{width}: {each} is cut off" for each in page.evaluate(_CUT_OFF)]
        if width >= _PHONE and page.locator(_BUTTON).count():
            found.append(f"{width}: filters have a button")
    return found


@pytest.mark.parametrize("path", _PAGES)
def test_a_page(page: Page, served: Running, path: str) -> None:
    observer = Observer(page, served.port)
    page.goto(address(served, path), wait_until="load")
    assert look_at(page) == []
    assert observer.found == []


@pytest.mark.parametrize("path", _PAGES)
def test_a_page_without_javascript(plain: Page, served: Running, path: str) -> None:
    """Nothing is shown that needs a script, and what a script would load has a link to its own page."""
    plain.goto(address(served, path), wait_until="load")
    expect(plain.locator("h1")).to_be_visible()
    assert plain.locator("[data-copy]:visible, [data-select-all]:visible").count() == 0
    for part in plain.locator("[data-load], [data-work]").all():
        expect(part.locator("a").first).to_be_visible()
    for button in plain.locator("main button:visible").all():
        assert button.evaluate("each => each.form !== null")
    for width in WIDTHS:
        plain.set_viewport_size({"width": width, "height": 900})
        assert not plain.evaluate(_TOO_WIDE), width


def with_a_conflict(page: Page, served: Running) -> None:
    page.goto(address(served, "/relayers/{id}/edit"))
    change = {"name": f"Theirs {time.monotonic_ns()}", "policies": {"min_balance": 10**18}}
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", change).status == 200
    page.locator('[name="name"]').fill("Mine " * 40)
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since you opened the form")


def with_removals(page: Page, served: Running) -> None:
    page.goto(address(served, "/apply"))
    page.get_by_label("Apply file (TOML)").fill("# nothing")
    page.get_by_label("also remove records").check()
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_label("to confirm that so many records")).to_be_visible()


def with_many_selected(page: Page, served: Running) -> None:
    page.goto(address(served, "/relayers"))
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Change …").click()
    expect(page.locator("h1")).to_contain_text("Change ")


def with_changes_of_many(page: Page, served: Running) -> None:
    with_many_selected(page, served)
    page.get_by_label("Minimum balance").fill("0.75")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.locator("h1")).to_contain_text("Changes of ")


@pytest.mark.parametrize("opens", [with_a_conflict, with_removals, with_many_selected, with_changes_of_many])
def test_a_page_that_answers_a_form(page: Page, served: Running, opens: Callable[[Page, Running], None]) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    opens(page, served)
    assert look_at(page) == []


def test_the_page_to_sign_in(browser: Browser, served: Running) -> None:
    page = browser.new_page()
    observer = Observer(page, served.port)
    page.goto(f"http://127.0.0.1:{served.port}/console/sign-in")
    assert look_at(page) == []
    assert observer.found == []
    page.close()
