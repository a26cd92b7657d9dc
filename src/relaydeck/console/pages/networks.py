"""Networks: their nodes and what they answer, the tokens that can pay a fee with the age of each rate, and backtests.

Two pages take as long as the slowest node. Other pages load them after they are shown.
"""

import asyncio
import time
from functools import partial

from relaydeck.console.live import answer_with_result
from relaydeck.console.node_calls import read_network, read_networks
from relaydeck.console.page_request import PageRequest, Services, get, listing
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import NotPossible
from relaydeck.fees.model import fee_options
from relaydeck.fees.report import BacktestRun, counted_problems, report_rates, run_backtest
from relaydeck.http.pipeline import Reply
from relaydeck.networks.model import Network
from relaydeck.timestamps import utc
from relaydeck.web_addresses import shown_address

_TESTED_BLOCKS = 50
_MOST_BACKTESTS = 8  # that are kept, each with a thread
listing("list_networks")


@get("/networks/{id}")
async def show(request: PageRequest) -> Reply:
    name = request.identifier
    found = await request.call("get_network", name)
    used = await request.call("list_relayers", network=name, per_page="20")
    entries = await request.call("list_audit", record=name, order="newest", per_page="10")
    # Only scheme and host of a node: the rest of its URL may be a key.
    nodes = [(shown_address(each["url"]), each["weight"]) for each in found.data.get("rpc_urls", [])]
    return request.page(
        "network.html", network=found.data, nodes=nodes, used=used, entries=entries.data, notes=found.notes
    )


@get("/nodes")
async def show_nodes(request: PageRequest) -> Reply:
    networks = await request.services.read(read_networks)
    return request.page("nodes.html", nodes=await request.services.node_calls.call_all(networks))


@get("/networks/{id}/now")
async def show_now(request: PageRequest) -> Reply:
    name, services = request.identifier, request.services
    network = await services.read(lambda store: read_network(store, name))
    nodes, rates = await asyncio.gather(services.node_calls.call(network), report_rates(services.estimator, network))
    shown = [(token, each, utc(each.updated_at)) for token, each in zip(network.fee_tokens, rates, strict=True)]
    return request.page("network_now.html", network=network, nodes=nodes, rates=shown)


@get("/networks/{id}/backtest")
async def show_backtest(request: PageRequest) -> Reply:
    """Of the newest blocks. Whoever asks while it runs gets the same result."""
    name, services = request.identifier, request.services
    network = await services.read(lambda store: read_network(store, name))
    return await answer_with_result(request, _backtest(services, network), partial(_backtest_page, request, network))


def _backtest(services: Services, network: Network) -> SharedRun[BacktestRun]:
    """Raises NotPossible while as many run as may."""
    runs = services.backtests
    if network not in runs and len(runs) >= _MOST_BACKTESTS:
        ended = next((each for each, run in runs.items() if not run.is_running), None)
        if ended is None:
            raise NotPossible(
                f"{_MOST_BACKTESTS} networks are being tested: try again when one of these tests has ended"
            )
        runs.pop(ended).close()
    options = fee_options(services.settings)
    return runs.setdefault(network, SharedRun(partial(run_backtest, network, options, _TESTED_BLOCKS), "backtest"))


def _backtest_page(request: PageRequest, network: Network, found: BacktestRun) -> Reply:
    return request.page(
        "backtest.html",
        network=network,
        found=found,
        problems=counted_problems(found.report),
        blocks=_TESTED_BLOCKS,
        tested_at=utc(time.time()),
        is_live=False,
    )
