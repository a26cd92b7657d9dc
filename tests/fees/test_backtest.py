"""Backtests over a chain whose transactions the tests have sent."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from pages.json_output import schema_of_shape
from relaydeck.cli.estimate import plot
from relaydeck.fees.backtest import Backtest
from tests.proofs.paid.kinds import SIGNED, prepared
from tests.proofs.paid.nodes import geth_chain, hardhat_chain, op_stack_chain
from tests.support.fee_chain import Chain
from tests.support.running import run_command

KINDS = ("transfer", "transfer, legacy", "token transfer", "clear 10 slots (refund)", "creation of a token", "push 10")


ZERO = ("0.00", "0.00", "+0.00")
ROWS = [
    ("type 0, transfer", 1, *ZERO),
    ("type 2, call", 3, *ZERO),
    ("type 2, creation", 1, *ZERO),
    ("type 2, transfer", 1, *ZERO),
    ("all", 6, *ZERO),
]


ERRORS = ["gas", "price, one block before", "fee, one block before", "price, 6 blocks before", "fee, 6 blocks before"]


def chain_with_transactions(running: Chain) -> Chain:
    stage = prepared(running)
    sent = [running.send_raw(running.sign(SIGNED[kind](stage))) for kind in KINDS]
    _FIRST[running.url] = int(sent[0]["blockNumber"], 16)
    return running


_FIRST: dict[str, int] = {}  # by node: the block of its first transaction here


def blocks_of(chain: Chain) -> str:
    """With those that the node adds by itself."""
    return str(int(chain.rpc("eth_blockNumber"), 16) - _FIRST[chain.url] + 1)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with geth_chain() as running:
        yield chain_with_transactions(running)


def home_of(folder: Path, chain: Chain, model: str = "ethereum", floor: int = 0) -> Path:
    network = f"""
[networks.local]
network_type = "evm"
chain_id = {chain.chain_id}
native_symbol = "ETH"
fee_model = "{model}"
tip_floor = {floor}
rpc_urls = [{{ url = "{chain.url}" }}]
"""
    done = run_command(folder, "apply", "-", stdin=network)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def home(tmp_path: Path, chain: Chain) -> Path:
    return home_of(tmp_path / "home", chain)


def backtest(home: Path, chain: Chain, *options: str) -> Any:
    done = run_command(home, "estimate", "--backtest", "local", "--blocks", blocks_of(chain), "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_of(report: Any) -> list[tuple[str | int, ...]]:
    return [tuple(row.values()) for row in report["rows"]]


def test_what_was_paid_is_what_is_estimated(home: Path, chain: Chain, tmp_path: Path) -> None:
    picture = tmp_path / "errors.svg"
    done = run_command(home, "estimate", "--backtest", "local", "--blocks", blocks_of(chain), "--svg", str(picture))
    assert (done.returncode, done.stderr) == (0, f"wrote {picture}\n")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert rows[: len(ROWS)] == [[name, str(count), *(f"{each} %" for each in spread)] for name, count, *spread in ROWS]
    assert [row[0] for row in rows[len(ROWS) :]] == ERRORS
    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_report_for_scripts(home: Path, chain: Chain) -> None:
    report = backtest(home, chain)
    jsonschema_rs.Draft202012Validator(schema_of_shape(Backtest)).validate(report)
    assert (report["network"], rows_of(report), report["without_estimate"]) == ("local", ROWS, [])


@pytest.mark.prove
@pytest.mark.parallel
def test_an_op_stack_chain(tmp_path: Path) -> None:
    """The receipts of anvil do not contain the L1 and operator fees, but it charges them: they are the whole error."""
    with op_stack_chain() as running:
        home = home_of(tmp_path / "home", chain_with_transactions(running), "op_stack")
        expected = sorted(left_out_percent(running, number) for number in newest_blocks(running))
        report = backtest(home, running)
    *kinds, every = rows_of(report)
    assert every == ("all", 6, expected[3], expected[-1], f"+{expected[-1]}")
    assert [kind[:2] for kind in kinds] == [row[:2] for row in ROWS[:-1]]


def newest_blocks(chain: Chain) -> range:
    newest = int(chain.rpc("eth_blockNumber"), 16)
    return range(newest - len(KINDS) + 1, newest + 1)


def left_out_percent(chain: Chain, number: int) -> str:
    """What the sender of the only transaction of a block paid beyond its receipt."""
    (sent,) = chain.rpc("eth_getBlockByNumber", hex(number), True)["transactions"]
    receipt = chain.rpc("eth_getTransactionReceipt", sent["hash"])
    before, after = (int(chain.rpc("eth_getBalance", sent["from"], hex(each)), 16) for each in (number - 1, number))
    paid = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    return f"{Decimal(100) * (before - after - int(sent['value'], 16) - paid) / paid:.2f}"


@pytest.mark.prove
@pytest.mark.parallel
def test_a_node_without_simulation(tmp_path: Path) -> None:
    """Hardhat returns the limit that a transaction needs, which is more than the gas used where it earns a refund."""
    with hardhat_chain() as running:
        home = home_of(tmp_path / "home", chain_with_transactions(running))
        rows = rows_of(backtest(home, running))
    assert rows == [
        ROWS[0],
        ("type 2, call", 3, "1.17", "25.00", "+25.00"),
        *ROWS[2:4],
        ("all", 6, "0.00", "25.00", "+25.00"),
    ]


def test_an_absurd_floor_of_tips_shows(home: Path, chain: Chain) -> None:
    before = {row["transactions"]: row for row in backtest(home, chain)["errors"]}
    report = backtest(home_of(home, chain, floor=10**15), chain)
    after = {row["transactions"]: row for row in report["errors"]}
    assert before["gas"] == after["gas"]
    for name in ERRORS[1:]:
        assert Decimal(after[name]["median_percent"]) > 10 * Decimal(before[name]["median_percent"]) + 1000
    (conclusion,) = report["conclusions"]
    assert "tip_floor is 1000000000000000 Wei" in conclusion


def test_it_runs_where_the_home_is(home: Path) -> None:
    done = run_command(home, "estimate", "--backtest", "local", "--server", "http://127.0.0.1:1")
    assert done.returncode == 2
    assert "this command works on the home folder only, not on a server" in done.stderr


def test_a_network_that_is_not_there(home: Path) -> None:
    done = run_command(home, "estimate", "--backtest", "other")
    assert done.returncode != 0
    assert "Network not found" in done.stderr


@pytest.mark.parametrize("words", [(), ("one",), ("one", "0x", "--backtest", "local")])
def test_it_is_either_a_transaction_or_a_backtest(home: Path, words: tuple[str, ...]) -> None:
    done = run_command(home, "estimate", *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_plot_counts_each_estimate_once() -> None:
    drawn = ElementTree.fromstring(plot("<net>", [Decimal(0), Decimal("0.4"), Decimal(99), Decimal(-3)]))
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Estimated against paid on <net>: 4 transactions, error in percent"
    counts = [text for text in texts[1:] if text and text[0] not in "+-"]
    assert counts == ["1", "2", "1"]
