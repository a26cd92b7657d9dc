"""One served home for the tests that only ask; tests that break things make their own."""

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import hypothesis
import pytest

from relaydeck.store.migrate import migrate
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support import tiers
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.running import Running, eventually, make_token, run_command
from tests.support.steady_loop import SteadyLoop

_ALL_PROOFS = re.compile(r"^pytestmark = \[?pytest\.mark\.prove\b", re.MULTILINE)
DEMO = """
[networks.sepolia]
network_type = "evm"
chain_id = 11155111
native_symbol = "ETH"
rpc_urls = [{ url = "http://127.0.0.1:9/rpc", weight = 1 }]

[[signers]]
id = "ops"
type = "plain"
config = { key = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318" }

[[notifications]]
id = "pager"
type = "webhook"
url = "https://hooks.example.com/relaydeck"
signing_key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

[[relayers]]
id = "sepolia-1"
name = "Sepolia one"
network = "sepolia"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
custom_rpc_urls = [{ url = "http://127.0.0.1:9/custom?key=k", weight = 3 }]
[relayers.policies]
gas_price_cap = 100000000000
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module without a test for the chosen tier need not be loaded: some imports take long."""
    return True if _is_needless(collection_path, config) else None


def _is_needless(path: Path, config: pytest.Config) -> bool:
    chosen = config.option.markexpr
    if path.suffix != ".py" or not chosen or tiers.PROVE in chosen.replace("not prove", ""):
        return False
    return bool(_ALL_PROOFS.search(path.read_text("utf-8"))) or (chosen == tiers.QUICK and not tiers.may_be_quick(path))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.mark(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with tiers.limited_to_its_tier(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the modules of a whole run, each process from another one on.

    Every process needs all of them. In a fresh checkout the processes thus compile different modules and load those
    that the others have compiled, instead of each compiling all.
    """
    gc.disable()  # until all is collected: almost nothing of it is garbage
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or session.config.args != session.config.getini("testpaths"):
        return
    modules = [each for each in _test_modules() if not _is_needless(each, session.config)]
    first = len(modules) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in [*modules[first:], *modules[:first]]:
        with suppress(Exception):  # pytest imports it again and reports the failure
            import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def _test_modules() -> list[Path]:
    return sorted(Path(__file__).parent.rglob("test_*.py"))


def pytest_collection_finish() -> None:
    """Exempt modules and tests, which stay until the end, from every later garbage collection."""
    gc.freeze()
    gc.enable()


# How long an example takes depends on the machine, and says nothing about the code.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("untimed"), max_examples=20)


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("quick" if config.option.markexpr == tiers.QUICK else "untimed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write which tests failed, a line each, where CI reads it."""
    if "FAILED_TESTS" in os.environ:
        reports = [each for kind in ("failed", "error") for each in terminalreporter.stats.get(kind, ())]
        names = sorted({f"{each.nodeid}\n" for each in reports})
        Path(os.environ["FAILED_TESTS"]).write_text("".join(names), "utf-8")


def pytest_asyncio_loop_factories() -> dict[str, type[SteadyLoop]]:
    return {"steady": SteadyLoop}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with one network, signer, notification and relayer, and no rate limit."""
    home: Path = tmp_path_factory.mktemp("service") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(
        home, token=make_token(home, "tests"), rate_limit_per_second="0", metrics_relayers="sepolia-1"
    ) as running:
        eventually(lambda: running.ask("GET", "/writez", token="").status == 200)  # every metric is there
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for every test of this process that asks for one."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database with the newest schema and nothing in it: to be copied."""
    name = postgres.fresh()
    database = PostgresDatabase(postgres.url(name), WriteSignal(tmp_path_factory.mktemp("migrated") / "write-signal"))
    migrate(database)
    database.close()
    return name


@pytest.fixture(scope="session")
def put(request: pytest.FixtureRequest) -> Callable[[Path, str], Path]:
    """Chooses the engine of a home that is about to be made; gives the home."""

    def putting(home: Path, engine: str) -> Path:
        if engine == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            choose(home, server.url(server.fresh(request.getfixturevalue("migrated"))))
        return home

    return putting


@pytest.fixture
def lend(request: pytest.FixtureRequest) -> Iterator[Callable[[Path, str], Path]]:
    """The same, for a home that no other test sees: its database serves the next one."""
    lent: list[str] = []

    def lending(home: Path, engine: str) -> Path:
        if engine == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            lent.append(server.lend(request.getfixturevalue("migrated")))
            choose(home, server.url(lent[-1]))
        return home

    yield lending
    for name in lent:
        request.getfixturevalue("postgres").give_back(name, request.getfixturevalue("migrated"))
