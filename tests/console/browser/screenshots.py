"""Takes the pictures of `docs/console.md` and the README: `make screenshots`."""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.console.browser.conftest import chromium_path
from tests.console.conftest import new_link
from tests.running import Running, run_command
from tests.seeding import issue

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1180, "height": 740}
# Name, path below the console, theme.
PICTURES = (
    ("console-overview", "", "light"),
    ("console-relayer", "/relayers/sepolia-1", "dark"),
    ("console-relayers", "/relayers", "light"),
    ("console-signer", "/signers/new?type=provider_c_transit", "dark"),
)


def prepare(home: Path) -> Running:
    """The example of the README, with some things done, and nodes that do not answer."""
    applied = run_command(home, "apply", str(ROOT / "examples" / "demo.toml"))
    assert applied.returncode == 0, applied.stderr
    running = Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="1", webhook_allow="127.0.0.1")
    for path in ("relayers/sepolia-2/pause", "notifications/pager/test", "signers/ops/check"):
        assert running.ask("POST", f"/admin/v1/{path}").status < 300
    change = {"policies": {"min_balance": 50_000_000_000_000_000}}
    assert running.ask("PATCH", "/admin/v1/relayers/sepolia-1", change).status == 200
    return running


def take(browser: Browser, running: Running) -> None:
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{running.port}/console{new_link(running)}")
    page.get_by_text("disabled", exact=True).nth(1).wait_for(timeout=60_000)  # the monitor has noticed
    for name, path, theme in PICTURES:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.goto(f"http://127.0.0.1:{running.port}/console{path}")
        page.wait_for_timeout(1500)  # until the nodes were called
        page.screenshot(path=IMAGES / f"{name}.png")
    context.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, prepare(Path(folder) / "home") as running, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        take(browser, running)
        browser.close()


if __name__ == "__main__":
    main()
