"""What it costs that two nodes decide instead of one: estimates over HTTP, with three equal nodes.

`python -m bench.quorum` prints the time of one estimate and the rate of 64 at a time with `quorum = 2`, beside those
with `quorum = 1`. The nodes are stand-ins, each in a process of its own; `python -m bench.quorum 5` lets them take 5 ms
for each answer, as a node in the same data centre does. Without it they answer at once.
"""

import asyncio
import multiprocessing
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from bench import estimates
from bench.homes import change, make_home
from bench.run import RELAYERS, warm_relaydeck
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from tests.support.fault_node import CHAIN_ID, FaultNode
from tests.support.stored_rows import create_row

_SIMULATED = [{"number": "0x65", "calls": [{"gasUsed": "0x5208", "status": "0x1", "returnData": "0x"}]}]


async def _serve(told: Connection, seconds: float) -> None:
    node = FaultNode()
    node.delay = seconds
    node.answers["eth_simulateV1"] = _SIMULATED
    await node.start()
    told.send(node.url)
    await asyncio.Event().wait()


def _node(told: Connection, seconds: float) -> None:
    uvloop.run(_serve(told, seconds))


def _started_nodes(stack: ExitStack, count: int, seconds: float) -> list[str]:
    urls = []
    for _ in range(count):
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_node, args=(theirs, seconds), daemon=True)
        process.start()
        stack.callback(process.terminate)
        urls.append(ours.recv())
    return urls


def _add(transaction: Transaction, vault: Vault, urls: list[str]) -> None:
    for quorum in (1, 2):
        name, ordered = f"quorum-{quorum}", urls if quorum == 1 else urls[::-1]  # in another order: a pool of its own
        nodes = tuple(RpcUrl(url) for url in ordered)
        create_row(
            network_rows.TABLE,
            transaction,
            vault,
            Network(name, "evm", CHAIN_ID, "ETH", nodes, quorum=quorum),
            origin="apply",
            now=1,
        )
        relayer = Relayer(name, name, name, "evm", estimates.SENDER, "signer-0000000")
        create_row(relayer_rows.TABLE, transaction, vault, relayer, origin="apply", now=1)


async def _measured(base: str, token: str) -> estimates.Figures:
    one, two = (
        estimates.over_http(f"{base}{RELAYERS}/quorum-{quorum}/rpc", token, f"quorum-{quorum}", CHAIN_ID)
        for quorum in (1, 2)
    )
    async with one as single, two as double:
        return await estimates.measure(CHAIN_ID, single, double)


if __name__ == "__main__":
    with ExitStack() as stack:
        urls = _started_nodes(stack, 3, float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0.0)
        home = make_home(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "home", signers=10, relayers=10)
        change(home, lambda transaction, vault: _add(transaction, vault, urls))
        port = warm_relaydeck(stack, home).port
        figures = uvloop.run(_measured(f"http://127.0.0.1:{port}", home.token))
    sys.stdout.write(f"{asdict(figures)}\n")
