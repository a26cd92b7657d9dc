"""A real Chromium. One starts for each module of tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
expect.set_options(timeout=60_000)  # a busy machine is slow, which is not what these tests are about
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium_path() -> str:
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    assert found, "no Chromium: run tests/console/browser/install"
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without a sandbox: the tests run as root in containers, and visit only loopback.
        started = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield started
        started.close()


class Observer:
    """What a page reports that no page of the console may: errors, and requests to another origin."""

    def __init__(self, page: Page, *ports: int) -> None:
        self.found: list[str] = []
        self._origins = tuple(f"http://127.0.0.1:{port}/" for port in ports)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("request", lambda request: self._visit(request.url))

    def _note(self, kind: str, text: str) -> None:
        # Chromium itself logs each response with an error status, such as a form that is refused on purpose.
        if kind == "error" and "the server responded with a status of 4" not in text:
            self.found.append(f"console: {text}")

    def _visit(self, url: str) -> None:
        if not url.startswith((*self._origins, "data:", "blob:")):
            self.found.append(f"request: {url}")


def violations(page: Page) -> list[str]:
    """What axe-core finds, with the elements it finds it in."""
    page.evaluate(AXE.read_text("utf-8"))  # not a script element, which the content policy refuses
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes'][:3]]}" for each in found["violations"]]
