"""The list of relayers: search, filters, and pausing or resuming several at once."""

from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.request import reason_of
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.store.open_store import Store

_FILTERS = ("name", "network", "state", "signer_id", "notification_id", "order")
_MOST_NETWORKS = _MOST_SELECTED = 200


def pages(_services: PageServices) -> Pages:
    return {"/relayers": {"GET": show_list}, "/relayers/selected": {"POST": act_on_selected}}


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    found = await visit.admin.read("relayers", page=str(number), per_page=str(PER_PAGE), **query)
    networks = await visit.read(_network_names)
    return visit.page(
        "relayers.html",
        relayers=found.data,
        pager=Pager(number, found.total, query),
        networks=networks,
        notes=found.notes,
    )


def _network_names(store: Store) -> list[str]:
    """The names alone: to list the networks would open their sealed URLs."""
    rows = store.database.read("SELECT name FROM networks ORDER BY seq LIMIT :most", {"most": _MOST_NETWORKS})
    return [row.name for row in rows]


async def act_on_selected(visit: Visit) -> Reply:
    """Pause or resume several relayers: first a page that names them, then one result for each."""
    fields = visit.fields
    verb, selected = dict(fields).get("verb", ""), [value for name, value in fields if name == "relayer"]
    if verb not in ("pause", "resume") or len(selected) > _MOST_SELECTED:
        raise BadRequest(f"choose pause or resume, for at most {_MOST_SELECTED} relayers")
    if dict(fields).get("confirmed") != "yes":
        return visit.page("relayers_confirm.html", verb=verb, selected=selected)
    results = [(each, await _outcome(visit, each, verb)) for each in selected]
    return visit.page("relayers_results.html", verb=verb, results=results)


async def _outcome(visit: Visit, relayer_id: str, verb: str) -> str:
    """Empty when it succeeded."""
    try:
        await visit.admin.change("POST", "relayers", relayer_id, verb)
    except RequestError as error:
        return reason_of(error)
    return ""
