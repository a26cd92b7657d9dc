"""Fee estimates: what a client waits for one of ours, beside the bare call to the node that it needs."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import uvloop

from bench.comparing import Ratio
from bench.homes import Home, change, make_home
from bench.rows import Row
from bench.run import RELAYERS, SIGNERS, Run, started_relaydeck
from relaydeck.networks import records as network_records
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import records as relayer_records
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault

if TYPE_CHECKING:
    from bench import estimates

_AGAINST = "bare call to the same node"
_ONE, _MANY = "feeEstimate, one at a time", "feeEstimate, 64 at a time"
_TIME, _RATE = "time per estimate", "estimates per second"


def measure(run: Run) -> list[Row]:
    try:
        return _measure(run)
    except (ImportError, RuntimeError) as why:  # a part or a node that is not installed
        return [
            Row(_ONE, _AGAINST, _TIME, None, note=str(why)),
            Row(_MANY, _AGAINST, _RATE, None, note=str(why)),
        ]


def _measure(run: Run) -> list[Row]:
    from bench import estimates
    from tests.node.process import HARDHAT, running

    with ExitStack() as stack:
        node = stack.enter_context(running(HARDHAT))
        home = make_home(run.folder / "fees", signers=10, relayers=10)
        change(home, lambda transaction, vault: _add_relayer(transaction, vault, node))
        port = started_relaydeck(stack, home, SIGNERS).port
        figures = uvloop.run(
            _figures(node, f"http://127.0.0.1:{port}{RELAYERS}/estimates/rpc", home, run.pace.estimates)
        )
    run.small_print.append(f"estimates, ours: {figures.ours_ms:.2f} ms, bare: {figures.bare_ms:.2f} ms")
    run.small_print.append(f"estimates, ours: {figures.ours_per_second:.0f}/s, bare: {figures.bare_per_second:.0f}/s")
    one, many = (Ratio(value, value, value) for value in (figures.times, figures.share))
    return [
        Row(_ONE, _AGAINST, _TIME, one, at_most=estimates.AT_MOST),
        Row(_MANY, _AGAINST, _RATE, many, at_least=estimates.AT_LEAST),
    ]


async def _figures(node: str, url: str, home: Home, singles: int) -> "estimates.Figures":
    from bench import estimates

    async with estimates.over_http(url, home.token, "local", "ETH") as ours:
        return await estimates.measure(node, ours, singles=singles, many=5 * singles)


def _add_relayer(transaction: Transaction, vault: Vault, node: str) -> None:
    from bench import estimates

    network = Network("local", "evm", estimates.CHAIN_ID, "ETH", (RpcUrl(node),))
    network_records.create(transaction, vault, network, origin="apply", now=1)
    relayer = Relayer("estimates", "Estimates", "local", "evm", estimates.SENDER, "signer-0000000")
    relayer_records.create(transaction, vault, relayer, origin="apply", now=1)
