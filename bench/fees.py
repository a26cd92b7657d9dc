"""Fee estimates beside the bare call to the node that they need: the estimate itself, and with HTTP around it."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop

from bench.comparing import Ratio, ratio_of
from bench.homes import Home, change, make_home
from bench.load import Request
from bench.processes import Server, free_port
from bench.rows import Row
from bench.run import RELAYERS, Run, started_relaydeck, warm_relaydeck
from bench.service import first_answer
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from tests.support.stored_rows import create_row

if TYPE_CHECKING:
    from bench import estimates

    Asking = AbstractAsyncContextManager[estimates.Ask]

_AGAINST = "bare call to the same node"
_PROXY = "bare proxy to the same node, same server"
_SETTLE_SECONDS = 5  # a start does not wait for the nodes: they are called while it serves its first requests
_ONE, _MANY = "fee estimate, one at a time", "fee estimate, 64 at a time"
_FIRST = f"first fee estimate, {_SETTLE_SECONDS} s after a start"
_OVER_HTTP = ", and the HTTP request around it"
_TIME, _RATE = "time per estimate", "estimates per second"
# At most so many times the time, at least this share of the rate.
_GOALS = {(_AGAINST, ""): (1.3, 0.7), (_AGAINST, _OVER_HTTP): (1.8, 0.6), (_PROXY, _OVER_HTTP): (1.3, 0.7)}
_FIRST_AT_MOST = 3.0


def measure(run: Run) -> list[Row]:
    from tests.node.process import HARDHAT, running, running_geth

    nodes: dict[str, tuple[int, Callable[[], AbstractContextManager[str]]]] = {
        "Hardhat": (31337, lambda: running(HARDHAT)),
        "geth": (1337, running_geth),
    }
    return [row for name, (chain_id, start) in nodes.items() for row in _rows_of(run, name, chain_id, start)]


def _rows_of(run: Run, name: str, chain_id: int, start: Callable[[], AbstractContextManager[str]]) -> list[Row]:
    try:
        with start() as url:
            return _measure(run, name, chain_id, url)
    except (ImportError, RuntimeError) as why:  # a part or a node that is not installed
        return [
            Row(f"{_ONE} ({name})", _AGAINST, _TIME, None, note=str(why)),
            Row(f"{_MANY} ({name})", _AGAINST, _RATE, None, note=str(why)),
        ]


def _measure(run: Run, name: str, chain_id: int, url: str) -> list[Row]:
    from bench import estimates

    node, singles = estimates.NodeUrl(url, chain_id), run.pace.estimates
    home = make_home(run.folder / f"fees-{name}", signers=10, relayers=10)
    change(home, lambda transaction, vault: add_relayer(transaction, vault, node))
    itself = uvloop.run(_figures(chain_id, estimates.bare_node(node), estimates.direct(node), singles))
    with ExitStack() as stack:
        served = uvloop.run(
            _figures(chain_id, estimates.bare_node(node), _served(stack, home, chain_id), singles),
        )
    with ExitStack() as stack:
        passed_on = uvloop.run(
            _figures(chain_id, _passed_on(stack, node), _served(stack, home, chain_id), singles),
        )
    return [
        *_rows(run, itself, name, ""),
        *_rows(run, served, name, _OVER_HTTP),
        *_rows(run, passed_on, name, _OVER_HTTP, _PROXY),
        _first_row(run, home, name, chain_id),
    ]


def _served(stack: ExitStack, home: Home, chain_id: int, start: Callable[..., Server] = warm_relaydeck) -> "Asking":
    from bench import estimates

    port = start(stack, home).port
    url = f"http://127.0.0.1:{port}{RELAYERS}/estimates/rpc"
    return estimates.over_http(url, home.token, "local", chain_id)


def _passed_on(stack: ExitStack, node: "estimates.NodeUrl") -> "Asking":
    from bench import estimates

    question, port = uvloop.run(estimates.recorded_question(node)), free_port()
    params = msgspec.json.encode(question.params).decode()
    command = [sys.executable, "-m", "bench.bare_proxy", str(port), node.url, question.method, params]
    server = stack.enter_context(Server(port, command, Path(os.devnull)))
    first_answer(server, Request("GET", "/", {}))
    return estimates.over_http(f"http://127.0.0.1:{port}/", "", "local", node.chain_id)


def _first_row(run: Run, home: Home, name: str, chain_id: int) -> Row:
    """Of several starts."""
    pairs = []
    for _ in range(run.pace.starts_of_the_large):
        with ExitStack() as stack:
            pairs.append(uvloop.run(_first(_served(stack, home, chain_id, started_relaydeck))))
    return Row(f"{_FIRST} ({name})", "the ones that follow", _TIME, ratio_of(pairs), at_most=_FIRST_AT_MOST)


async def _first(asking: "Asking") -> tuple[float, float]:
    from bench import estimates

    async with asking as ours:
        await asyncio.sleep(_SETTLE_SECONDS)
        return await estimates.first_and_warm(ours)


def _rows(run: Run, figures: "estimates.Figures", name: str, around: str, against: str = _AGAINST) -> list[Row]:
    ours, bare = figures.ours_ms, figures.bare_ms
    run.small_print.append(f"estimates{around} ({name}), ours: {ours:.2f} ms, {against}: {bare:.2f} ms")
    one, many = (Ratio(value, value, value) for value in (figures.times, figures.share))
    at_most, at_least = _GOALS[against, around]
    return [
        Row(f"{_ONE}{around} ({name})", against, _TIME, one, at_most=at_most),
        Row(f"{_MANY}{around} ({name})", against, _RATE, many, at_least=at_least),
    ]


async def _figures(chain_id: int, base: "Asking", asking: "Asking", singles: int) -> "estimates.Figures":
    from bench import estimates

    async with base as bare, asking as ours:
        return await estimates.measure(chain_id, bare, ours, singles=singles, many=5 * singles)


def add_relayer(transaction: Transaction, vault: Vault, node: "estimates.NodeUrl") -> None:
    from bench import estimates

    network = Network("local", "evm", node.chain_id, "ETH", (RpcUrl(node.url),))
    create_row(network_rows.TABLE, transaction, vault, network, origin="apply", now=1)
    relayer = Relayer("estimates", "Estimates", "local", "evm", estimates.SENDER, "signer-0000000")
    create_row(relayer_rows.TABLE, transaction, vault, relayer, origin="apply", now=1)
