"""One served home for the client's tests, with a proxy before it that spoils what a test chooses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.faults import FaultProxy, fault_proxy
from tests.conftest import DEMO
from tests.support.client_styles import STYLES, Style
from tests.support.running import Running, run_command
from tests.support.seeding import issue

# The receiver is on loopback, where nothing listens and nothing may be sent: no event leaves the machine.
LOCAL = DEMO.replace("https://hooks.example.com/relaydeck", "http://127.0.0.1:9/hook")
Open = Callable[..., Style]


def serve(home: Path, **settings: str) -> Running:
    done = run_command(home, "apply", "-", stdin=LOCAL)
    assert done.returncode == 0, done.stderr
    return Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0", **settings)


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("client") / "home", rate_limit_per_second="0") as running:
        yield running


@pytest.fixture(scope="package")
def shared_proxy(served: Running) -> Iterator[FaultProxy]:
    with fault_proxy(served.port) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared_proxy: FaultProxy) -> FaultProxy:
    shared_proxy.plan.clear()
    shared_proxy.seen.clear()
    shared_proxy.always = ""
    return shared_proxy


@pytest.fixture(params=STYLES)
def open_client(request: pytest.FixtureRequest, served: Running, proxy: FaultProxy) -> Iterator[Open]:
    """Opens a client, in each style, that reaches the service through the proxy."""
    opened: list[Style] = []

    def open_one(*, token: str | None = None, url: str = "", **options: Any) -> Style:
        chosen = served.token if token is None else token
        opened.append(Style(request.param, url or proxy.url, chosen, **options))
        return opened[-1]

    yield open_one
    for style in opened:
        style.__exit__(None, None, None)


@pytest.fixture
def style(open_client: Open) -> Style:
    return open_client()
