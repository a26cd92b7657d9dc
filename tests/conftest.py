"""One served home for the tests that only ask; tests that break things make their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import Running, make_token, run_command

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


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with one network, signer, notification and relayer, and no rate limit."""
    home: Path = tmp_path_factory.mktemp("service") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(home, token=make_token(home, "tests"), rate_limit_per_second="0") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
