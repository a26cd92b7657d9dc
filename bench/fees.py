"""Fee estimates beside the bare call to the node that they need: the estimate itself, and with HTTP around it."""

from contextlib import AbstractAsyncContextManager, ExitStack
from typing import TYPE_CHECKING

import uvloop

from bench.comparing import Ratio
from bench.homes import change, make_home
from bench.rows import Row
from bench.run import RELAYERS, SIGNERS, Run, started_relaydeck
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault

if TYPE_CHECKING:
    from bench import estimates

_AGAINST = "bare call to the same node"
_ONE, _MANY = "fee estimate, one at a time", "fee estimate, 64 at a time"
_OVER_HTTP = ", and the HTTP request around it"
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
        url = f"http://127.0.0.1:{port}{RELAYERS}/estimates/rpc"
        itself = uvloop.run(_figures(node, estimates.direct(node), run.pace.estimates))
        served = uvloop.run(_figures(node, estimates.over_http(url, home.token, "local", "ETH"), run.pace.estimates))
    return [*_rows(run, itself, "", goals=True), *_rows(run, served, _OVER_HTTP, goals=False)]


def _rows(run: Run, figures: "estimates.Figures", around: str, *, goals: bool) -> list[Row]:
    from bench import estimates

    run.small_print.append(f"estimates{around}, ours: {figures.ours_ms:.2f} ms, bare: {figures.bare_ms:.2f} ms")
    one, many = (Ratio(value, value, value) for value in (figures.times, figures.share))
    if not goals:
        return [Row(_ONE + around, _AGAINST, _TIME, one), Row(_MANY + around, _AGAINST, _RATE, many)]
    return [
        Row(_ONE, _AGAINST, _TIME, one, at_most=estimates.AT_MOST),
        Row(_MANY, _AGAINST, _RATE, many, at_least=estimates.AT_LEAST),
    ]


async def _figures(
    node: str, asking: "AbstractAsyncContextManager[estimates.Ask]", singles: int
) -> "estimates.Figures":
    from bench import estimates

    async with asking as ours:
        return await estimates.measure(node, ours, singles=singles, many=5 * singles)


def _add_relayer(transaction: Transaction, vault: Vault, node: str) -> None:
    from bench import estimates

    network = Network("local", "evm", estimates.CHAIN_ID, "ETH", (RpcUrl(node),))
    network_rows.create(transaction, vault, network, origin="apply", now=1)
    relayer = Relayer("estimates", "Estimates", "local", "evm", estimates.SENDER, "signer-0000000")
    relayer_rows.create(transaction, vault, relayer, origin="apply", now=1)
