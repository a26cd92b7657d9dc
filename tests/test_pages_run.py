"""Every command on the pages for users runs as written, and prints what the page shows.

`pages/examples.py` says how a page marks what cannot run here.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pages import page_sizes
from pages.examples import Page, read_page
from pages.site import parts
from relaydeck.relayers import balance_history
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.model import Policies
from tests.node.process import HARDHAT, running
from tests.support.page_shell import Shell, differences
from tests.support.postgres import PostgresServer
from tests.support.receiver import Receiver
from tests.support.running import Running, clean_environment, free_port, make_token
from tests.support.seeding import fill, opened, relayer
from tests.vault import process as vault

ROOT = Path(__file__).parents[1]
PAGES = [name for part, names in parts().items() for name in names if page_sizes.is_run(part, name)]
WITH_VAULT = "docs/first-relayer.md"
WITH_BALANCES = "docs/runway.md"


@contextmanager
def receiving() -> Iterator[int]:
    """The port of a receiver that accepts every event."""
    loop, receiver = asyncio.new_event_loop(), Receiver()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(receiver.start(), loop).result(30).port
    finally:
        asyncio.run_coroutine_threadsafe(receiver.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def shell_of(page: Page, folder: Path, own: Mapping[str, str] | None = None) -> Iterator[Shell]:
    """A fresh home, which a service serves, a receiver of events, and what else the page asks for."""
    with ExitStack() as opened:
        work, home = folder / "work", folder / "home"
        shutil.copytree(ROOT / "examples", work / "examples")
        settings = {"monitor_interval_seconds": "0"} | page.service
        wants_node = settings.pop("node", None) is not None
        node = opened.enter_context(running(HARDHAT)) if wants_node else f"http://127.0.0.1:{free_port()}"
        database = ""
        if settings.pop("postgres", None) is not None:
            server = PostgresServer()
            opened.callback(server.remove)
            database = server.url(server.fresh()).reveal()
        receiver = opened.enter_context(receiving())
        token = make_token(home, "me")
        served = opened.enter_context(Running(home, **settings))
        named = {
            "https://relaydeck.example.com": f"http://127.0.0.1:{served.port}",
            "https://relay.example.com": f"http://127.0.0.1:{served.port}",
            "http://127.0.0.1:8080": f"http://127.0.0.1:{served.port}",
            "http://127.0.0.1:8545": node,
            "http://127.0.0.1:8546": f"http://127.0.0.1:{free_port()}",
            "http://127.0.0.1:9000": f"http://127.0.0.1:{receiver}",
            "postgresql://relaydeck@db.example.com/relaydeck": database,
            "/backups": str(folder / "backups"),
            "/var/run/secrets": str(folder / "secrets"),
            "/run/secrets": str(folder / "secrets"),
            **(own or {}),
        }
        (folder / "backups").mkdir()
        for name in ("relaydeck-client", "kubernetes.io/serviceaccount/ca.crt", "database_url"):
            (secret := folder / "secrets" / name).parent.mkdir(parents=True, exist_ok=True)
            secret.write_text(f"sqlite:///{home}/relaydeck.db")
            secret.chmod(0o600)
        environment = clean_environment(home)  # a page that needs settings for its commands, too, exports them
        environment |= {"TOKEN": token, "XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "120"}
        shell = Shell(work, environment, named)
        opened.callback(shell.close)
        shell.write("examples/demo.toml", (work / "examples/demo.toml").read_text())
        yield shell


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_commands_print(tmp_path: Path, name: str) -> None:
    page = read_page(ROOT / name, name)
    if any(step.command for step in page.steps) and name not in (WITH_VAULT, WITH_BALANCES):
        with shell_of(page, tmp_path) as shell:
            assert "\n\n".join(differences(page, shell)) == ""


def test_the_page_about_the_first_relayer_works(tmp_path: Path) -> None:
    """With a Vault, and the receiver that the page has."""
    page, port = read_page(ROOT / WITH_VAULT, WITH_VAULT), free_port()
    with vault.running() as key_system:
        own = {
            ".relaydeck-first": str(tmp_path / "home"),
            "http://127.0.0.1:8200": key_system.address,
            "X-Vault-Token: root": f"X-Vault-Token: {key_system.root_token}",
            "http://127.0.0.1:9000": f"http://127.0.0.1:{port}",
            '("127.0.0.1", 9000)': f'("127.0.0.1", {port})',
        }
        with shell_of(page, tmp_path, own) as shell:
            assert "\n\n".join(differences(page, shell)) == ""


def spend(home: Path) -> None:
    """In an hour 0.033 ETH for a week, with one top-up; and 100 Wei on a day in March."""
    fill(home, relayers=[relayer("dev-1", policies=Policies(min_balance=10**18)), relayer("local-1")])
    now, periods = int(time.time()), []
    for hour in range(7 * 24):
        since, spent = now - 7 * 86_400 + hour * 3600 + 1800, hour * 33 * 10**15
        topped_up = 5 * 10**18 if hour >= 48 else 0
        periods.append((1, BalancePeriod(since, since + 1700, 3177 * 10**15 + topped_up - spent, spent)))
    day = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
    for start, end, spent in ((0, 3599, 0), (3600, 5399, 50), (5400, 7111, 100)):
        periods.append((2, BalancePeriod(day + start, day + end, 1000 - spent, spent)))
    with opened(home) as store, store.database.transaction() as transaction:
        balance_history.save(transaction, periods)


def test_the_page_about_balances_shows_what_was_spent(tmp_path: Path) -> None:
    page = read_page(ROOT / WITH_BALANCES, WITH_BALANCES)
    with shell_of(page, tmp_path) as shell:
        spend(tmp_path / "home")
        assert "\n\n".join(differences(page, shell)) == ""


def test_the_tour_runs_on_another_machine(tmp_path: Path) -> None:
    """With the URL of the service and a token, without its home."""
    page = read_page(ROOT / "docs" / "tour.md", "docs/tour.md")
    with shell_of(page, tmp_path) as shell:
        shell.run("export RELAYDECK_TOKEN=$(relaydeck token create admin --kind admin)")
        shell.run(f"export RELAYDECK_URL=http://127.0.0.1:8080 RELAYDECK_HOME={tmp_path}/elsewhere")
        assert "\n\n".join(differences(page, shell)) == ""
    assert not (tmp_path / "elsewhere").exists()


def test_few_blocks_are_not_run() -> None:
    """Each says why, or which test runs it. (A block that says nothing fails the test of its page.)"""
    elsewhere = [step.elsewhere for name in PAGES for step in read_page(ROOT / name, name).steps if step.elsewhere]
    tested = [each.removeprefix("see ") for each in elsewhere if each.startswith("see ")]
    assert [each for each in tested if not (ROOT / each).is_file()] == []
    assert len(elsewhere) - len(tested) == 24


@pytest.mark.parametrize("name", parts()["Start"] + parts()["Guides"])
def test_a_page_is_short_and_says_what_you_will_have(name: str) -> None:
    beginning = (ROOT / name).read_text("utf-8").split("\n\n")[1]
    assert beginning.startswith("At the end of this page ")
    assert page_sizes.words(ROOT / name) <= page_sizes.MOST_WORDS


def test_the_page_of_sizes_is_current() -> None:
    """When this fails: `make docs`."""
    assert page_sizes.PAGE.read_text("utf-8") == page_sizes.page()
