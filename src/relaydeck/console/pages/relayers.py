"""Relayers: the list and what is done to several, the state of each one, and the forms to create and edit it."""

import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import convert

from relaydeck.api.list_filters import PROBLEMS
from relaydeck.console.admin_calls import Json
from relaydeck.console.chart import SPANS, balance_chart
from relaydeck.console.fleet import RelayerOverview, read_overviews
from relaydeck.console.forms import (
    Input,
    document_of,
    filled,
    inputs_of,
    new_document,
    refused,
    submitted,
    without_others,
)
from relaydeck.console.page_request import PageRequest, act, deletion, get, post
from relaydeck.console.pages.runway import network_names
from relaydeck.console.rendering import csv_file, path_to, redirect
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.balance_history import BalanceHistory
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway import Runway
from relaydeck.timestamps import utc

_NEW = inputs_of(Relayer)
_EDITED = inputs_of(Relayer, leave_out=("id", "network_type"))
_PAUSED = Input("paused", "flag", "")  # not in the form: it has a button of its own
_MOST_SELECTED = 500  # one change each; also the rows of a file
_OPPOSITES = {"pause": "resume", "resume": "pause"}

act("pause_relayer", done="paused")
act("resume_relayer", done="resumed")
deletion("relayers", "Its events and audit entries stay.", typed="name")


@get("/relayers")
async def show_list(request: PageRequest) -> Reply:
    found, networks = await request.listed("list_relayers"), await request.read(network_names)
    more = await _overviews(request, [each["id"] for each in found["listed"]])
    orders = request.operation("list_relayers").parameters["order"].choices
    return request.page(
        "relayers.html",
        networks=networks,
        more=more,
        now=int(time.time()),
        problems=[*PROBLEMS, "any", "none"],
        orders=list(orders),
        every=urlencode(found["pager"].query),
        **found,
    )


async def _overviews(request: PageRequest, relayers: list[str]) -> dict[str, RelayerOverview]:
    return await request.read(lambda store: read_overviews(store.database.read, relayers))


@get("/relayers/csv")
async def show_file(request: PageRequest) -> Reply:
    """The first that match, in the order of the list, with exact amounts."""
    listed = (await request.listed("list_relayers", per_page=_MOST_SELECTED))["listed"]
    more = await _overviews(request, [each["id"] for each in listed])
    columns = ("id", "name", "network", "address", "signer_id", "paused", "system_disabled", "created_at")
    return csv_file(
        "relayers",
        [{name: each[name] for name in columns} | more[each["id"]].row() for each in listed if each["id"] in more],
    )


@post("/relayers/selected", "pause_relayer")
async def act_on_selected(request: PageRequest) -> Reply:
    """Pause or resume several relayers: first a page that names those that change, then one result for each."""
    form = request.form
    verb, selected = form.get("verb", ""), await _selected(request)
    if verb not in _OPPOSITES or len(selected) > _MOST_SELECTED:
        raise BadRequest(f"choose pause or resume, for at most {_MOST_SELECTED} relayers")
    if form.get("confirmed") != "yes":
        more = await _overviews(request, selected)
        already = [each for each in selected if each in more and more[each].paused == (verb == "pause")]
        changing = [each for each in selected if each not in already]
        return request.page("relayers_confirm.html", verb=verb, selected=changing, already=already, more=more)
    results = [(each, await _outcome(request, each, verb)) for each in selected]
    done = [each for each, problem in results if not problem]
    return request.page("relayers_results.html", verb=verb, results=results, done=done, opposite=_OPPOSITES[verb])


async def _selected(request: PageRequest) -> list[str]:
    """Those that were ticked, or with `every` all that match its filters. Raises BadRequest."""
    if (every := request.form.get("every")) is None:
        return [value for name, value in request.fields if name == "relayer"]
    filters = request.operation("list_relayers").parameters
    query: Json = {name: value for name, value in parse_qsl(every) if name in filters and name != "page"}
    found = await request.call("list_relayers", **query | {"per_page": str(_MOST_SELECTED)})
    if found.total > _MOST_SELECTED:
        raise BadRequest(
            f"{found.total:,} relayers match, and at most {_MOST_SELECTED} can change at once: filter them"
        )
    return [each["id"] for each in found.data]


async def _outcome(request: PageRequest, relayer_id: str, verb: str) -> str:
    """Empty when it succeeded."""
    try:
        await request.call(f"{verb}_relayer", relayer_id)
    except RequestError as error:
        return reason_of(error)
    return ""


@get("/relayers/{id}")
async def show(request: PageRequest) -> Reply:
    name = request.identifier
    found = await request.call("get_relayer", name)
    network = await request.call("get_network", found.data["network"])
    explanation = await request.call("explain_relayer", name, probe="false")
    entries = await request.call("list_audit", record=name, order="newest", per_page="10")
    span = request.query["span"] if request.query.get("span") in SPANS else "7d"
    length, step = SPANS[span]
    past: Json = {"from": utc(time.time() - length), "step": f"{step}s"}
    history = await request.call("get_relayer_balances", name, **past)
    runway = await request.call("get_relayer_runway", name)
    forms = convert(history.data, BalanceHistory), convert(runway.data, Runway)
    events = await request.call("list_events", relayer_id=name, order="newest", per_page="10")
    return request.page(
        "relayer.html",
        relayer=found.data,
        symbol=network.data["native_symbol"],
        explanation=explanation.data,
        worst=_worst(explanation.data["states"]),
        entries=entries.data,
        events=events.data,
        notes=found.notes,
        history=history.data,
        runway=forms[1],
        chart=balance_chart(*forms, span),
        span=span,
        spans=list(SPANS),
    )


_WORST_FIRST = ("signer_mismatch", "signer_unreachable", "failing", "low_balance", "low_runway")


def _worst(states: list[Json]) -> str:
    """The worst problem beside the state itself; empty: none."""
    found = {each["state"] for each in states}
    return next((each for each in _WORST_FIRST if each in found), "")


@get("/relayers/{id}/why")
async def show_nodes(request: PageRequest) -> Reply:
    """The explanation with every node called now, which takes as long as the slowest one."""
    explanation = await request.call("explain_relayer", request.identifier)
    return request.page("relayer_nodes.html", explanation=explanation.data)


async def _form_page(request: PageRequest, template: str, **values: Any) -> Reply:
    """With what the fields of a relayer can refer to."""
    for resource, identity in (("networks", "name"), ("signers", "id"), ("notifications", "id")):
        listed = await request.call(f"list_{resource}", per_page="200", order="newest")
        values[resource] = [each[identity] for each in listed.data]
    return request.page(template, **values)


@get("/relayers/new")
async def show_new(request: PageRequest) -> Reply:
    return await _form_page(request, "relayer_new.html", inputs=_NEW, problem="")


@post("/relayers", "create_relayer")
async def create(request: PageRequest) -> Reply:
    try:
        created = await request.call("create_relayer", document=new_document(_NEW, request.form))
    except RequestError as error:
        return await _form_page(request, "relayer_new.html", **refused(_NEW, request.form, error))
    return redirect(f"{path_to('relayers', created.data['id'])}?done=created")


@get("/relayers/{id}/edit", "update_relayer")  # with the whole URLs of nodes, which may contain keys
async def show_edit(request: PageRequest) -> Reply:
    found = await request.call("get_relayer", request.identifier)
    return await _edit_page(request, found.etag, inputs=filled(_EDITED, found.data), opened=_opened(found.data))


def _opened(record: Json) -> str:
    """What the form contains of a record when it is opened, to be compared if somebody else changes it meanwhile."""
    values = {each.name: each.value for each in filled(_EDITED, record)} | {_PAUSED.name: _paused(record).value}
    return msgspec.json.encode(values).decode()


def _paused(record: Json) -> Input:
    return filled([_PAUSED], record)[0]


async def _edit_page(request: PageRequest, etag: str, **values: Any) -> Reply:
    shown: Json = {"problem": "", "conflict": None, "change": None, "id": request.identifier, "etag": etag}
    return await _form_page(request, "relayer_edit.html", **shown | values)


@post("/relayers/{id}/edit", "update_relayer")
async def edit(request: PageRequest) -> Reply:
    form, name = request.form, request.identifier
    try:
        change = await _change(request)
        await request.call("update_relayer", name, document=change, if_match=form.get("etag", "*"))
    except OutOfDate as error:
        return await _conflict(request, error)
    except RequestError as error:
        opened = form.get("opened", "")
        return await _edit_page(request, form.get("etag", ""), opened=opened, **refused(_EDITED, form, error))
    return redirect(f"{path_to('relayers', name)}?done=saved")


async def _change(request: PageRequest) -> Json:
    """What was typed. A node with the same URL keeps its headers, which the form does not show.

    Nodes that cannot be opened are not in the form either: unless others are typed, the change is refused.
    """
    change, now = document_of(_EDITED, request.form), await request.call("get_relayer", request.identifier)
    change = without_others(change, now.data)
    typed, stored = change.pop("custom_rpc_urls"), now.data.get("custom_rpc_urls")
    if stored is None and not typed:
        return change
    kept = {node["url"]: {"headers": node["headers"]} for node in stored or () if "headers" in node}
    return change | {"custom_rpc_urls": [node | kept.get(node["url"], {}) for node in typed]}


async def _conflict(request: PageRequest, error: OutOfDate) -> Reply:
    """What somebody else has changed since the form was opened, beside what was typed; saving again replaces it."""
    now = await request.call("get_relayer", request.identifier)
    entries = await request.call("list_audit", record=request.identifier, order="newest", per_page="10")
    before, typed = _were(request.form.get("opened", "")), submitted(_EDITED, request.form)
    latest = next((each for each in entries.data if each["action"].startswith("relayer.")), None)
    theirs = [*filled(_EDITED, now.data), _paused(now.data)]
    mine = [*typed, _PAUSED._replace(value=before.get(_PAUSED.name, ""))]
    differing = [
        (before.get(saved.name, ""), saved, own)
        for saved, own in zip(theirs, mine, strict=True)
        if saved.value != before.get(saved.name, saved.value)
    ]
    values = {"inputs": typed, "conflict": differing, "change": latest}
    return await _edit_page(request, now.etag, status=error.status, opened=_opened(now.data), **values)


def _were(opened: str) -> dict[str, str]:
    """Raises BadRequest."""
    try:
        return msgspec.json.decode(opened or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        raise BadRequest("the form cannot be read: load the page again") from None
