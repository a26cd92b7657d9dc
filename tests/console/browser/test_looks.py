"""Every page, in both themes and three widths: accessible, no errors, no foreign requests, no sideways scrolling."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from relaydeck.console.page_request import PAGES
from tests.conftest import DEMO
from tests.console.browser.conftest import Observer, violations
from tests.console.conftest import new_link
from tests.support.running import Running, run_command
from tests.support.seeding import issue

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # two themes and three widths of every page take a minute

IDENTIFIERS = {
    "relayers": "sepolia-1",
    "signers": "ops",
    "notifications": "pager",
    "networks": "sepolia",
    "tokens": "me",
}
WIDTHS = (360, 768, 1440)
THEMES: tuple[Any, ...] = ("light", "dark")
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
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
    context = browser.new_context()
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
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate(_TOO_WIDE):
                found.append(f"{theme} {width}: scrolls sideways")
            found += [f"{theme} {width}: {each}" for each in violations(page)]
    return found


@pytest.mark.parametrize("path", _PAGES)
def test_a_page(page: Page, served: Running, path: str) -> None:
    observer = Observer(page, served.port)
    page.goto(address(served, path), wait_until="load")
    assert look_at(page) == []
    assert observer.found == []


def test_the_page_to_sign_in(browser: Browser, served: Running) -> None:
    page = browser.new_page()
    observer = Observer(page, served.port)
    page.goto(f"http://127.0.0.1:{served.port}/console/sign-in")
    assert look_at(page) == []
    assert observer.found == []
    page.close()
