"""Backtests over a chain whose transactions the tests have sent."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from relaydeck.cli.backtest_plot import plot
from relaydeck.fees.backtest import Spread, spread_of
from tests.fees.chain import Chain
from tests.fees.paid.kinds import SIGNED, prepared
from tests.fees.paid.nodes import geth_chain
from tests.running import run_command

KINDS = ("transfer", "transfer, legacy", "token transfer", "clear 10 slots (refund)", "creation of a token", "push 10")


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with geth_chain() as running:
        stage = prepared(running)
        for kind in KINDS:
            running.send_raw(running.sign(SIGNED[kind](stage)))
        yield running


@pytest.fixture
def home(tmp_path: Path, chain: Chain) -> Path:
    network = f"""
[networks.local]
network_type = "evm"
chain_id = {chain.chain_id}
native_symbol = "ETH"
rpc_urls = [{{ url = "{chain.url}" }}]
"""
    done = run_command(tmp_path / "home", "apply", "-", stdin=network)
    assert done.returncode == 0, done.stderr
    return tmp_path / "home"


def test_what_was_paid_is_what_is_estimated(home: Path, tmp_path: Path) -> None:
    picture = tmp_path / "errors.svg"
    done = run_command(home, "estimate", "--backtest", "local", "--blocks", str(len(KINDS)), "--svg", str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    zero = ["0.00 %", "0.00 %", "+0.00 %"]
    assert rows == [
        ["type 0, transfer", "1", *zero],
        ["type 2, call", "3", *zero],
        ["type 2, creation", "1", *zero],
        ["type 2, transfer", "1", *zero],
        ["all", "6", *zero],
    ]
    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_network_that_is_not_there(home: Path) -> None:
    done = run_command(home, "estimate", "--backtest", "other")
    assert done.returncode != 0
    assert "Network not found" in done.stderr


@pytest.mark.parametrize(
    "words", [(), ("one",), ("one", "0x", "--backtest", "local"), ("--backtest", "local", "--json")]
)
def test_it_is_either_a_transaction_or_a_backtest(home: Path, words: tuple[str, ...]) -> None:
    done = run_command(home, "estimate", *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_spread_of_errors() -> None:
    percents = [Decimal(number) for number in range(-50, 50)]
    assert spread_of(percents) == Spread(100, Decimal(25), Decimal(47), Decimal(-50))
    assert spread_of([Decimal(3)]) == Spread(1, Decimal(3), Decimal(3), Decimal(3))


def test_the_plot_counts_each_estimate_once() -> None:
    drawn = ElementTree.fromstring(plot("<net>", [Decimal(0), Decimal("0.4"), Decimal(99), Decimal(-3)]))
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Estimated against paid on <net>: 4 transactions, error in percent"
    counts = [text for text in texts[1:] if text and text[0] not in "+-"]
    assert counts == ["1", "2", "1"]
