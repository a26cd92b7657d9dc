"""Networks: their nodes, and the tokens that can pay a fee, with the source of each rate."""

from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.http.pipeline import Reply
from relaydeck.web_addresses import shown_address


def pages(_services: PageServices) -> Pages:
    return {"/networks": {"GET": show_list}, "/networks/{id}": {"GET": show}}


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
