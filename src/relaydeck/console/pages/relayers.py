"""Relayers: the list, one relayer with the explanation of its state, and every change of one."""

import time
from typing import Any

from relaydeck.console.charts import line
from relaydeck.console.formats import visible
from relaydeck.console.forms import document_of, filled, inputs_of, reason_of, submitted, with_problem, without_nulls
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.qr_code import address_code
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Page, Pages, PageServices
from relaydeck.console.visit import Visit, form_fields
from relaydeck.errors import BadRequest, OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import events
from relaydeck.relayers import why
from relaydeck.relayers.explanation import Explanation
from relaydeck.relayers.model import Relayer
from relaydeck.signers.signer_state import read_signer_state, with_signer
from relaydeck.store.open_store import Store

_FILTERS = ("name", "network", "state", "signer_id", "notification_id", "order")
_LATEST = 10
_MOST_SELECTED = 200
_NEW = inputs_of(Relayer)
_EDITED = inputs_of(Relayer, leave_out=("id", "network_type"))


def pages(services: PageServices) -> Pages:
    own = RelayerPages(services)
    return {
        "/relayers": {"GET": show_list, "POST": own.create},
        "/relayers/new": {"GET": show_new},
        "/relayers/selected": {"POST": act_on_selected},
        "/relayers/{id}": {"GET": own.show},
        "/relayers/{id}/why": {"GET": own.show_nodes},
        "/relayers/{id}/edit": {"GET": show_edit, "POST": edit},
        "/relayers/{id}/pause": {"POST": _act("pause")},
        "/relayers/{id}/resume": {"POST": _act("resume")},
        "/relayers/{id}/delete": {"GET": show_delete, "POST": delete},
    }


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    found = await visit.admin.read("relayers", page=str(number), per_page=str(PER_PAGE), **query)
    networks = await visit.admin.read("networks", per_page="200")
    return visit.page(
        "relayers.html",
        relayers=found.data,
        pager=Pager(number, found.total, query),
        networks=[each["name"] for each in networks.data],
        notes=found.notes,
    )


class RelayerPages:
    def __init__(self, services: PageServices) -> None:
        self._settings = services.settings
        self._services = services

    async def show(self, visit: Visit) -> Reply:
        found = await visit.admin.read("relayers", visit.identifier)
        network = await visit.admin.read("networks", found.data["network"])
        entries = await visit.admin.read("audit", record=visit.identifier, order="newest", per_page=str(_LATEST))
        history = (await visit.admin.read("relayers", visit.identifier, "balances")).data
        runway = await visit.admin.read("relayers", visit.identifier, "runway")
        latest = await visit.read(lambda store: _latest_events(store, visit.identifier))
        return visit.page(
            "relayer.html",
            relayer=found.data,
            symbol=network.data["native_symbol"],
            explanation=await self._explain(visit, probe=False),
            entries=entries.data,
            events=latest,
            notes=found.notes,
            history=history,
            runway=runway.data,
            chart=line([each["balance"] for each in history["points"]], "Balance in the last day"),
            code=address_code(found.data["address"]),
        )

    async def show_nodes(self, visit: Visit) -> Reply:
        """The explanation with every node called now, which takes as long as the slowest one."""
        return visit.page("relayer_nodes.html", explanation=await self._explain(visit, probe=True))

    async def _explain(self, visit: Visit, *, probe: bool) -> Explanation:
        name = visit.identifier
        stored, signer = await visit.read(
            lambda store: (
                why.read(store.database.read, store.vault, name),
                read_signer_state(store.database.read, name),
            )
        )
        explanation = await why.explain(
            stored,
            self._services.sources.pool,
            interval=self._settings.monitor_interval_seconds,
            rounds=self._settings.monitor_rounds,
            now=time.time(),
            probe=probe,
        )
        return with_signer(explanation, signer)

    async def create(self, visit: Visit) -> Reply:
        try:
            created = await visit.admin.change("POST", "relayers", document=_new_document(visit.form))
        except RequestError as error:
            inputs, problem = with_problem(submitted(_NEW, visit.form), error)
            return visit.page(
                "relayer_new.html", status=error.status, inputs=inputs, problem=problem, **await _choices(visit)
            )
        return redirect(f"{path_to('relayers', created.data['id'])}?done=created")


def _latest_events(store: Store, relayer_id: str) -> list[Any]:
    return [each.shown() for each in events.list_latest(store.database.read, limit=_LATEST, relayer_id=relayer_id)]


def _new_document(form: dict[str, str]) -> dict[str, Any]:
    return without_nulls(document_of(_NEW, form))


async def _choices(visit: Visit) -> dict[str, Any]:
    """What the fields of a relayer can refer to."""
    found = {}
    for resource, identity in (("networks", "name"), ("signers", "id"), ("notifications", "id")):
        listed = await visit.admin.read(resource, per_page="200", order="newest")
        found[resource] = [each[identity] for each in listed.data]
    return found


async def show_new(visit: Visit) -> Reply:
    defaults = {"network_type": "evm", "policies": {"eip1559_pricing": True, "gas_limit_estimation": True}}
    inputs = filled(_NEW, defaults)
    return visit.page("relayer_new.html", inputs=inputs, problem="", **await _choices(visit))


async def show_edit(visit: Visit) -> Reply:
    visit.require_change()  # the form contains the whole URLs of nodes, which may contain keys
    found = await visit.admin.read("relayers", visit.identifier)
    return await _edit_page(visit, filled(_EDITED, found.data), found.etag)


async def _edit_page(visit: Visit, inputs: list[Any], etag: str, status: int = 200, **values: Any) -> Reply:
    shown = {"problem": "", "conflict": [], "id": visit.identifier, "etag": etag} | values
    return visit.page("relayer_edit.html", status=status, inputs=inputs, **shown, **await _choices(visit))


async def edit(visit: Visit) -> Reply:
    form = visit.form
    try:
        change = document_of(_EDITED, form)
        await visit.admin.change("PATCH", "relayers", visit.identifier, document=change, if_match=form.get("etag", "*"))
    except OutOfDate as error:
        return await _conflict(visit, form, error)
    except RequestError as error:
        inputs, problem = with_problem(submitted(_EDITED, form), error)
        return await _edit_page(visit, inputs, form.get("etag", ""), error.status, problem=problem)
    return redirect(f"{path_to('relayers', visit.identifier)}?done=saved")


async def _conflict(visit: Visit, form: dict[str, str], error: OutOfDate) -> Reply:
    """What was typed, beside what somebody else has saved; saving again replaces it."""
    now = await visit.admin.read("relayers", visit.identifier)
    typed, stored = submitted(_EDITED, form), filled(_EDITED, now.data)
    differing = [(mine, theirs) for mine, theirs in zip(typed, stored, strict=True) if mine.value != theirs.value]
    return await _edit_page(visit, typed, now.etag, error.status, conflict=differing)


def _act(verb: str) -> Page:
    async def act(visit: Visit) -> Reply:
        await visit.admin.change("POST", "relayers", visit.identifier, verb)
        return redirect(f"{path_to('relayers', visit.identifier)}?done={verb}d")

    return act


async def show_delete(visit: Visit) -> Reply:
    found = await visit.admin.read("relayers", visit.identifier)
    return visit.page("relayer_delete.html", relayer=found.data, etag=found.etag, problem="")


async def delete(visit: Visit) -> Reply:
    found = await visit.admin.read("relayers", visit.identifier)
    form = visit.form
    if form.get("typed") not in (found.data["name"], visible(found.data["name"])):
        problem = "Type the name exactly as it is shown."
        return visit.page("relayer_delete.html", status=400, relayer=found.data, etag=found.etag, problem=problem)
    await visit.admin.change("DELETE", "relayers", visit.identifier, if_match=form.get("etag", "*"))
    return redirect("/relayers?done=deleted")


async def act_on_selected(visit: Visit) -> Reply:
    """Pause or resume several relayers: first a page that names them, then one result for each."""
    fields = form_fields(visit.call)
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
