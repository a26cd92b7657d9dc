"""Every page, in both themes and five widths: accessible, no errors, no foreign requests, usable without JavaScript."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from relaydeck.console.page_request import PAGES
from tests.conftest import DEMO
from tests.console.browser.conftest import Observer, violations
from tests.console.conftest import new_link
from tests.support.running import Running, run_command
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
_PHONE = 620
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
    home: Path = tmp_path_factory.mktemp("looks") / "home"
    long_name = "A relayer with a name that is as long as names get " * 5
    done = run_command(home, "apply", "-", stdin=DEMO.replace("Sepolia one", long_name[:255]))
    assert done.returncode == 0, done.stderr
    issue(home, "me", "readonly")
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        running.ask("POST", "/admin/v1/relayers/sepolia-1/pause")
        running.ask("POST", "/admin/v1/notifications/pager/test")
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
    event = served.ask("GET", "/admin/v1/events").json["data"][0]["id"]
    known = IDENTIFIERS | {"events": event, "deliveries": event}
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
        elif page.locator(_BUTTON).count():
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


def test_the_page_to_sign_in(browser: Browser, served: Running) -> None:
    page = browser.new_page()
    observer = Observer(page, served.port)
    page.goto(f"http://127.0.0.1:{served.port}/console/sign-in")
    assert look_at(page) == []
    assert observer.found == []
    page.close()
