"""Takes the pictures of `docs/console.md` and the README: `make screenshots`."""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from relaydeck.cli.demo import MinimalNode, serving
from tests.console.browser.conftest import chromium_path
from tests.console.conftest import new_link
from tests.support.running import Running, run_command
from tests.support.seeding import issue

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1180, "height": 740}
# Name, path below the console, theme.
PICTURES = (
    ("console-overview", "", "light"),
    ("console-relayer", "/relayers/payouts", "dark"),
    ("console-relayers", "/relayers", "light"),
    ("console-signer", "/signers/new?type=provider_c_transit", "dark"),
    ("console-health", "/health", "dark"),
)


# Each with its network and its min_balance in coins. The network `base` has a node that is down.
RELAYERS = {
    "Payments": ("dev", 0),
    "Payouts": ("dev", 12_000),
    "Onboarding": ("dev", 0),
    "Marketplace": ("dev", 0),
    "Gas station": ("dev", 2_500),
    "Bridge deposits": ("base", 0),
    "Bridge withdrawals": ("base", 0),
    "Bridge proofs": ("base", 0),
    "Bridge refunds": ("base", 0),
    "Loyalty": ("base", 0),
}


def fleet(node: str) -> str:
    """An apply file: two networks on loopback, one of them without a node that answers."""
    token = "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"
    text = f"""
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "{node}", weight = 3 }}, {{ url = "http://127.0.0.1:9", weight = 0 }}]
fee_tokens.USDC = {{ address = "{token}", decimals = 6, margin_percent = "1.5", rate = {{ fixed = "2500.5" }} }}
[networks.base]
network_type = "evm"
chain_id = 8453
native_symbol = "ETH"
rpc_urls = [{{ url = "http://127.0.0.1:7" }}]
[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" }}
[[notifications]]
id = "pager"
type = "webhook"
url = "http://127.0.0.1:9/hooks/relaydeck"
"""
    for name, (network, coins) in RELAYERS.items():
        text += f"""
[[relayers]]
id = "{name.lower().replace(" ", "-")}"
name = "{name}"
network = "{network}"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
policies = {{ gas_price_cap = 100000000000, min_balance = {coins * 10**18} }}
"""
    return text


def prepare(home: Path, node: str) -> Running:
    """A fleet on loopback, with some things done."""
    applied = run_command(home, "apply", "-", stdin=fleet(node))
    assert applied.returncode == 0, applied.stderr
    running = Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="1", webhook_allow="127.0.0.1")
    for path in ("relayers/marketplace/pause", "notifications/pager/test", "signers/ops/check"):
        assert running.ask("POST", f"/admin/v1/{path}").status < 300
    change = {"policies": {"min_balance": 3_000 * 10**18}}
    assert running.ask("PATCH", "/admin/v1/relayers/gas-station", change).status == 200
    return running


def take(browser: Browser, running: Running) -> None:
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{running.port}/console{new_link(running)}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    page.get_by_text("disabled", exact=True).nth(1).wait_for(timeout=120_000)  # the monitor has noticed
    page.get_by_text("low balance", exact=True).wait_for(timeout=120_000)
    page.get_by_text("base, 5 relayers").wait_for(timeout=120_000)
    for name, path, theme in PICTURES:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.goto(f"http://127.0.0.1:{running.port}/console{path}")
        page.wait_for_timeout(2500)  # until the nodes were called
        page.screenshot(path=IMAGES / f"{name}.png")
    context.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(MinimalNode) as node,
        prepare(Path(folder) / "home", node) as running,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        take(browser, running)
        browser.close()


if __name__ == "__main__":
    main()
