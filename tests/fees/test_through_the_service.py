"""The whole way: a served home, a real node, the JSON-RPC call, and the same estimate taken apart by the command."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from relaydeck.client import FeeEstimate
from tests.console.conftest import Operator, plain
from tests.support.client_styles import STYLES, Style
from tests.support.fee_chain import Chain
from tests.support.running import Running, make_token, run_command

TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
HOME = """
[networks.local]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "{node}" }}]

[networks.local.fee_tokens.PLAIN]
address = "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"
decimals = 6
rate = {{ fixed = "2500.5" }}

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" }}

[[relayers]]
id = "local-1"
name = "Local one"
network = "local"
network_type = "evm"
signer_id = "ops"
"""


@pytest.fixture(scope="module")
def served(hardhat: Chain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("estimates") / "home"
    done = run_command(home, "apply", "-", stdin=HOME.format(node=hardhat.url))
    assert done.returncode == 0, done.stderr
    with Running(home, token=make_token(home, "tests")) as running:
        yield running


def call(served: Running, **params: str) -> object:
    body = {"jsonrpc": "2.0", "id": 7, "method": "feeEstimate", "params": params}
    answer = served.ask("POST", "/api/v1/relayers/local-1/rpc", body)
    assert answer.status == 200
    return answer.json


# sentence: 4.5-result
def test_the_call_and_the_command_agree_to_the_last_digit(served: Running) -> None:
    answer = call(served, fee_token="ETH", network="local", transaction=TRANSFER)
    command = run_command(served.home, "estimate", "local-1", TRANSFER, "--json")
    steps = {step["step"]: step for step in json.loads(command.stdout)["steps"]}
    gas, price = int(steps["gas"]["gas"]), int(steps["price"]["used_per_gas_wei"])
    fee = format((Decimal(gas * price) / 10**18).normalize(), "f")
    assert answer == {
        "jsonrpc": "2.0",
        "id": "7",
        "result": {"conversion_rate": "1", "estimated_fee": fee, "method": "feeEstimate"},
    }


@pytest.mark.parametrize("style", STYLES)
def test_the_client_returns_the_estimate_exactly(served: Running, style: str) -> None:
    answer = call(served, fee_token="ETH", network="local", transaction=TRANSFER)
    with Style(style, f"http://127.0.0.1:{served.port}", served.token) as opened:
        found = opened.do(
            lambda client: client.fee_estimate("local-1", transaction=TRANSFER, network="local", fee_token="ETH")
        )
    assert isinstance(answer, dict) and isinstance(found, FeeEstimate)
    assert (found.estimated_fee, found.conversion_rate) == (Decimal(answer["result"]["estimated_fee"]), Decimal(1))
    assert isinstance(found.estimated_fee, Decimal) and found.estimated_fee > 0


def test_another_chain_is_an_invalid_param(served: Running) -> None:
    other = "0x01e20180843b9aca008252089470997970c51812dc3a010c7d01b50e0d17dc79c88080c0"
    assert call(served, fee_token="ETH", network="local", transaction=other) == {
        "jsonrpc": "2.0",
        "id": "7",
        "error": {
            "code": -32602,
            "message": "Invalid params",
            "description": "the transaction is for chain id 1, not 31337",
        },
    }


def test_a_token_whose_contract_is_not_there_is_no_estimate(served: Running) -> None:
    answer = call(served, fee_token="plain", network="local", transaction=TRANSFER)
    assert isinstance(answer, dict)
    assert sorted(answer) == ["error", "id", "jsonrpc"]
    assert answer["error"]["code"] == -32603


def test_the_command_prints_addresses_whole(served: Running) -> None:
    printed = run_command(served.home, "estimate", "local-1", TRANSFER).stdout
    assert "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266" in printed.replace("│", "").replace("\n", "").replace(" ", "")


def test_the_console_shows_the_fee_with_its_coin_first(served: Running) -> None:
    operator = Operator(served.port).sign_in(make_token(served.home, "operator", "--kind", "admin"))
    page = plain(operator.post("/estimate", {"relayer": "local-1", "transaction": TRANSFER}))
    answer = call(served, fee_token="ETH", network="local", transaction=TRANSFER)
    assert isinstance(answer, dict)
    above, form, _ = page.partition("0x-prefixed hex")
    assert form and f"The estimated fee is {answer['result']['estimated_fee']} ETH." in above


def test_an_unknown_relayer_is_told_on_the_command_line(served: Running) -> None:
    refused = run_command(served.home, "estimate", "nobody", TRANSFER)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("relaydeck: Relayer with ID nobody not found\n")
