"""Networks: their nodes and what they answer, and the tokens that can pay a fee with the age of each rate."""

import asyncio

from relaydeck.console.node_calls import NodeCalls, read_network, read_networks
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.fees.rate_report import report_rates
from relaydeck.http.pipeline import Reply
from relaydeck.timestamps import utc
from relaydeck.web_addresses import shown_address


def pages(services: PageServices) -> Pages:
    chains = ChainPages(services)
    return {
        "/networks": {"GET": show_list},
        "/networks/{id}": {"GET": show},
        "/networks/{id}/now": {"GET": chains.show_network},
        "/nodes": {"GET": chains.show_nodes},
    }


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, "name", "order"), page_number(visit.query)
    found = await visit.admin.read("networks", page=str(number), per_page=str(PER_PAGE), **query)
    return visit.page("networks.html", networks=found.data, pager=Pager(number, found.total, query), notes=found.notes)


async def show(visit: Visit) -> Reply:
    found = await visit.admin.read("networks", visit.identifier)
    used = await visit.admin.read("relayers", network=visit.identifier, per_page="20")
    entries = await visit.admin.read("audit", record=visit.identifier, order="newest", per_page="10")
    # Only scheme and host of a node: the rest of its URL may be a key.
    nodes = [(shown_address(each["url"]), each["weight"]) for each in found.data.get("rpc_urls", [])]
    return visit.page(
        "network.html", network=found.data, nodes=nodes, used=used, entries=entries.data, notes=found.notes
    )


class ChainPages:
    """Pages that take as long as the slowest node. Another page loads them after it is shown."""

    def __init__(self, services: PageServices) -> None:
        self._estimator = services.estimator
        self._calls = NodeCalls(services.estimator)

    async def show_nodes(self, visit: Visit) -> Reply:
        networks = await visit.read(read_networks)
        return visit.page("nodes.html", nodes=await self._calls.call_all(networks))

    async def show_network(self, visit: Visit) -> Reply:
        name = visit.identifier
        network = await visit.read(lambda store: read_network(store, name))
        nodes, rates = await asyncio.gather(self._calls.call(network), report_rates(self._estimator, network))
        shown = [(token, each, utc(each.updated_at)) for token, each in zip(network.fee_tokens, rates, strict=True)]
        return visit.page("network_now.html", network=network, nodes=nodes, rates=shown)
