"""One relayer: the explanation of its state, its nodes, its balance, and pausing it."""

from typing import Any

from relaydeck.console.charts import line
from relaydeck.console.pages.deletion import Deletion
from relaydeck.console.qr_code import address_code
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Page, Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import events
from relaydeck.store.open_store import Store

_LATEST = 10
_DELETION = Deletion("relayers", "Its events and audit entries stay.", typed="name")


def pages(_services: PageServices) -> Pages:
    return {
        "/relayers/{id}": {"GET": show},
        "/relayers/{id}/why": {"GET": show_nodes},
        "/relayers/{id}/pause": {"POST": _act("pause")},
        "/relayers/{id}/resume": {"POST": _act("resume")},
        **_DELETION.pages(),
    }


async def show(visit: Visit) -> Reply:
    name = visit.identifier
    found = await visit.admin.read("relayers", name)
    network = await visit.admin.read("networks", found.data["network"])
    explanation = await visit.admin.read("relayers", name, "why", probe="false")
    entries = await visit.admin.read("audit", record=name, order="newest", per_page=str(_LATEST))
    history = (await visit.admin.read("relayers", name, "balances")).data
    runway = await visit.admin.read("relayers", name, "runway")
    return visit.page(
        "relayer.html",
        relayer=found.data,
        symbol=network.data["native_symbol"],
        explanation=explanation.data,
        entries=entries.data,
        events=await visit.read(lambda store: _latest_events(store, name)),
        notes=found.notes,
        history=history,
        runway=runway.data,
        chart=line([each["balance"] for each in history["points"]], "Balance in the last day"),
        code=address_code(found.data["address"]),
    )


def _latest_events(store: Store, relayer_id: str) -> list[Any]:
    return [each.shown() for each in events.list_latest(store.database.read, limit=_LATEST, relayer_id=relayer_id)]


async def show_nodes(visit: Visit) -> Reply:
    """The explanation with every node called now, which takes as long as the slowest one."""
    explanation = await visit.admin.read("relayers", visit.identifier, "why")
    return visit.page("relayer_nodes.html", explanation=explanation.data)


def _act(verb: str) -> Page:
    async def act(visit: Visit) -> Reply:
        await visit.admin.change("POST", "relayers", visit.identifier, verb)
        return redirect(f"{path_to('relayers', visit.identifier)}?done={verb}d")

    return act
