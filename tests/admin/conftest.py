"""A served home with an admin token, and short ways to ask it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.conftest import DEMO
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue

ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
NODE = {"url": "http://127.0.0.1:9/rpc", "weight": 1}
SEPOLIA = {
    "name": "sepolia",
    "network_type": "evm",
    "chain_id": 11155111,
    "native_symbol": "ETH",
    "rpc_urls": [NODE],
    "fee_tokens": {},
    "fee_model": "ethereum",
}
POLICIES = {
    "eip1559_pricing": True,
    "gas_limit_estimation": True,
    "min_balance": 0,
    "private_transactions": False,
    "whitelist_receivers": [],
}
RELAYER = {
    "id": "sepolia-1",
    "name": "Sepolia one",
    "network": "sepolia",
    "network_type": "evm",
    "address": ADDRESS,
    "signer_id": "ops",
    "notification_id": "pager",
    "paused": False,
    "system_disabled": False,
    "custom_rpc_urls": [{"url": "http://127.0.0.1:9/custom?key=k", "weight": 3}],
    "policies": POLICIES | {"gas_price_cap": 100_000_000_000},
}
PAGER = {
    "id": "pager",
    "type": "webhook",
    "url": "https://hooks.example.com/relaydeck",
    "has_signing_key": True,
}


def made(data: Any, logs: tuple[str, ...] = ()) -> dict[str, Any]:
    """The response to a change that made a difference."""
    return success(data, logs, changed=True)


def success(data: Any, logs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    reported = [{"level": "log", "message": message} for message in logs]
    return {"data": data, "error": "", "metadata": {"logs": reported, "traces": []}, **more, "success": True}


def problem(answer: Answer) -> tuple[int, str]:
    """The status and title of problem details; checks the other members."""
    body = answer.json
    assert answer.headers["content-type"] == "application/problem+json"
    assert list(body) == ["type", "title", "status", "detail", "instance"]
    assert body["type"].startswith("urn:relaydeck:problem:") and body["detail"]
    assert (body["status"], body["instance"]) == (answer.status, answer.headers["x-request-id"])
    return answer.status, body["title"]


def refusal(answer: Answer) -> tuple[int, str]:
    """The status and the detail of problem details."""
    return problem(answer)[0], answer.json["detail"]


def paged(data: list[Any], total: int | None = None, page: int = 1, per_page: int = 10) -> dict[str, Any]:
    count = len(data) if total is None else total
    pagination = {"current_page": page, "per_page": per_page, "total_items": count}
    return success(data, pagination=pagination)


def timeless(value: Any) -> Any:
    """An answer without what the clock decides, each checked for its form."""
    if isinstance(value, list):
        return [timeless(each) for each in value]
    if not isinstance(value, dict):
        return value
    for name in ("created_at", "at"):
        if name in value:
            assert len(value[name]) in (20, 24) and value[name].endswith("Z")
    return {name: timeless(each) for name, each in value.items() if name not in ("created_at", "at")}


class Asks(Protocol):
    """A service, or a balancer in front of several."""

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer: ...


class AdminClient:
    """Asks `/admin/v1` as an administrator."""

    def __init__(self, service: Asks) -> None:
        self._service = service

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._service.ask(method, f"/admin/v1/{path}", body, token=token, headers=sent)

    def get(self, path: str) -> Any:
        """The data of a successful read, without times."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return timeless(answer.json["data"])

    def audited(self) -> list[dict[str, Any]]:
        """Every audit entry without time, place and hash."""
        volatile = ("sequence", "hash")
        return [{k: v for k, v in each.items() if k not in volatile} for each in self.get("audit?per_page=1000")]


class Admin(AdminClient):
    """The same, with the service that it asks."""

    def __init__(self, running: Running) -> None:
        super().__init__(running)
        self.running = running


@pytest.fixture
def admin(home: Path) -> Iterator[Admin]:
    """A service of its own, provisioned with the demo state."""
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(home, token=issue(home, "root", "admin")) as running:
        yield Admin(running)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """One for the tests that change nothing that another looks at."""
    home = tmp_path_factory.mktemp("admin") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    # The nodes do not exist: on a slow machine the monitor would disable the relayer before the last test.
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        yield Admin(running)
