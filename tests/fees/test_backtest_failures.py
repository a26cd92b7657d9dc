"""Backtests whose nodes stop answering: the command prints what it tested, and then why it ended."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fees.archive import LEGACY, Archive, simulated
from tests.support.fault_node import CHAIN_ID
from tests.support.fork_server import Done
from tests.support.running import run_command

REMEDY = "Run 'relaydeck doctor' to check the network's nodes."


class Ending(Archive):
    """Its newest block is 97. When asked for the block after the last, it closes this and every later connection."""

    def __init__(self, last: int) -> None:
        super().__init__(LEGACY)
        self.answers = {"eth_simulateV1": simulated(21_000)}
        self.last = last
        self.block = 97

    async def _answer(self, body: Any, writer: asyncio.StreamWriter) -> bool:
        asked = body if isinstance(body, dict) else {"method": ""}
        if asked["method"] == "eth_getBlockByNumber" and asked["params"] == [hex(self.last + 1), True]:
            self.mood = "closes"
        return await super()._answer(body, writer)


async def backtest(folder: Path, node: Archive, *options: str) -> Done:
    network = f"""
[networks.local]
network_type = "evm"
chain_id = {CHAIN_ID}
native_symbol = "ETH"
rpc_urls = [{{ url = "{node.url}" }}]
"""
    done = await asyncio.to_thread(run_command, folder, "apply", "-", stdin=network)
    assert done.returncode == 0, done.stderr
    words = ("estimate", "--backtest", "local", "--blocks", "2", *options)
    return await asyncio.to_thread(run_command, folder, *words)


@pytest.fixture
async def ending() -> AsyncIterator[Ending]:
    node = Ending(last=96)
    await node.start()
    yield node
    await node.stop()


async def test_nodes_that_stop_answering(tmp_path: Path, ending: Ending) -> None:
    picture = tmp_path / "errors.svg"
    done = await backtest(tmp_path / "home", ending, "--json", "--svg", str(picture))
    spread = {"median_percent": "0.00", "p95_percent": "0.00", "worst_percent": "+0.00"}
    rows = [{"transactions": name, "count": 1, **spread} for name in ("type 0, transfer", "all")]
    percents = {f"{part}_percent": "" for part in ("price", "fee", "later_price", "later_fee")}
    assert json.loads(done.stdout) == {
        "network": "local",
        "rows": rows,
        "horizon_blocks": 5,
        "errors": [{"transactions": "gas", "count": 1, **spread}],
        "blocks": [{"block": 96, "gas_percent": "+0.00", **percents}],
        "conclusions": [],
        "without_estimate": [],
    }
    reason = f"http://127.0.0.1:{ending.port} closed the connection early"
    error = f"relaydeck: the backtest ended at block 97: {reason}\n{REMEDY}\n"
    assert (done.returncode, done.stderr) == (1, f"wrote {picture}\n{error}")
    assert "1 transactions" in picture.read_text()


async def test_nodes_that_serve_no_block(tmp_path: Path, ending: Ending) -> None:
    ending.last = 95
    done = await backtest(tmp_path / "home", ending)
    reason = f"http://127.0.0.1:{ending.port} closed the connection early"
    error = f"relaydeck: nothing was tested: the backtest ended at block 96: {reason}\n{REMEDY}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", error)


async def test_nodes_that_do_not_answer_at_all(tmp_path: Path, ending: Ending) -> None:
    await ending.stop()
    done = await backtest(tmp_path / "home", ending)
    reason = f"http://127.0.0.1:{ending.port} refused the connection"
    error = f"relaydeck: nothing was tested: {reason}\n{REMEDY}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", error)
