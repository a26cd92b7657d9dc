"""Lists and creates while 20,000 relayers are monitored, against the same without the monitor."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.comparing import Side
from bench.creates import create_request
from bench.homes import Home, change, make_home
from bench.load import Request
from bench.rows import THROUGHPUT, Row
from bench.run import RELAYERS, Run, get, started_relaydeck
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from tests.proofs.monitor_rate import node_url
from tests.support.stored_rows import create_row

_MONITORED = 20_000
_AT_LEAST = 0.9
_AGAINST = "the same service without the monitor"


def measure(run: Run) -> list[Row]:
    with node_url("stand-in", 0.0) as node:
        homes = {name: _home(run, name, node) for name in ("monitored", "unmonitored")}
        listed = run.compare_fresh("lists beside the monitor", partial(_sides, homes, partial(get, path=RELAYERS)))
        created = run.compare_fresh("creates beside the monitor", partial(_sides, homes, create_request))
    beside = f"while {_MONITORED} relayers are checked once a minute"
    return [
        Row(f"{what} {beside}", _AGAINST, THROUGHPUT, found.throughput("monitored", "unmonitored"), at_least=_AT_LEAST)
        for what, found in (("list-relayers", listed), ("create-signer", created))
    ]


def _home(run: Run, name: str, node: str) -> Home:
    home = make_home(run.folder / f"monitor-{name}", signers=10, relayers=10)
    change(home, partial(_add_relayers, node))
    return home


def _add_relayers(node: str, transaction: Transaction, vault: Vault) -> None:
    create_row(network_rows.TABLE, transaction, vault, Network("dev", "evm", 31337, "ETH", (RpcUrl(node),)))
    for number in range(_MONITORED):
        added = Relayer(f"m-{number}", f"M {number}", "dev", "evm", f"0x{number:040x}", "signer-0000000")
        create_row(relayer_rows.TABLE, transaction, vault, added)


def _sides(homes: dict[str, Home], request: Callable[[Home], Request], stack: ExitStack) -> list[Side]:
    seconds = {"monitored": "60", "unmonitored": "0"}
    return [
        Side(name, started_relaydeck(stack, home, monitor_interval_seconds=seconds[name]), request(home))
        for name, home in homes.items()
    ]
