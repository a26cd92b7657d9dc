"""U+0000, which PostgreSQL cannot keep in a text: refused, or kept where it is sealed or escaped, on every database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ENGINES
from tests.support.running import Running
from tests.support.seeding import fill, issue

NUL = "a\0b"
RELAYER = {"id": "r", "name": "R", "network": "dev", "network_type": "evm", "signer_id": "ops"}
NETWORK = {"name": "n", "network_type": "evm", "chain_id": 1, "native_symbol": "ETH"}
WEBHOOK = {"id": "w", "type": "webhook", "url": "https://h.example.com/"}


@pytest.fixture(scope="module", params=ENGINES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    home = put(tmp_path_factory.mktemp("nul") / "home", request.param)
    fill(home, notifications={"pager": None})
    with Running(home, token=issue(home, "root", "admin"), rate_limit_per_second="0") as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        *[
            ("GET", f"/admin/v1/{collection}?{name}=a%00b", None)
            for collection, name in [("relayers", "name"), ("tokens", "kind")]
        ],
        ("GET", "/admin/v1/audit?record=%00", None),
        ("GET", "/admin/v1/deliveries?relayer_id=%00", None),
        ("GET", "/admin/v1/signers/a%00b", None),
        ("GET", "/admin/v1/events/a%00b", None),
        ("PATCH", "/api/v1/notifications/a%00b", {}),
        ("POST", "/api/v1/relayers/a%00b/rpc", {"jsonrpc": "2.0", "id": 1, "method": "x", "params": {}}),
        ("PATCH", "/api/v1/notifications/pager", {"url": f"https://h.example.com/{NUL}"}),
        ("POST", "/api/v1/signers", {"id": NUL, "type": "plain", "config": {"key": "k"}}),
        ("POST", "/admin/v1/tokens", {"name": NUL, "kind": "api"}),
        *[("POST", "/admin/v1/relayers", RELAYER | {name: NUL}) for name in RELAYER],
        *[("POST", "/admin/v1/networks", NETWORK | {name: NUL}) for name in ("name", "network_type", "native_symbol")],
        *[("POST", "/admin/v1/notifications", WEBHOOK | {name: NUL}) for name in WEBHOOK],
    ],
)
def test_it_is_refused_where_it_would_be_a_text(served: Running, method: str, path: str, body: Any) -> None:
    assert served.ask(method, path, body).status == 400


@pytest.mark.parametrize("key", [NUL, "\0"])
def test_a_sealed_value_may_hold_it(served: Running, key: str) -> None:
    assert served.ask("PATCH", "/api/v1/notifications/pager", {"signing_key": key}).status == 200
    assert served.ask("POST", "/api/v1/signers", {"type": "plain", "config": {"key": key}}).status == 201


def test_so_may_a_part_of_a_config_that_is_shown(served: Running) -> None:
    config = {"address": NUL, "key_name": NUL, "role_id": "r", "secret_id": "s"}
    created = served.ask("POST", "/api/v1/signers", {"id": "store", "type": "provider_c", "config": config})
    assert (created.status, created.json["data"]["config"]) == (201, {"address": NUL, "key_name": NUL})
    assert created.json["data"] in served.ask("GET", "/api/v1/signers?per_page=50").json["data"]
