"""Relayers: the list, the state of each one, and the forms to create and edit it."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from msgspec import convert

from relaydeck.api.list_filters import PROBLEMS
from relaydeck.api.operations import BY_NAME
from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.chart import SPANS, balance_chart
from relaydeck.console.confirmation import Edit, followed, newest_entries, opened, save
from relaydeck.console.confirmation import create as create_record
from relaydeck.console.forms import (
    Input,
    document_of,
    filled,
    grouped,
    in_coin,
    inputs_of,
    new_document,
    refused,
    submitted,
    without_others,
)
from relaydeck.console.page_request import RELAYERS, PageRequest, act, deletion, get, post
from relaydeck.console.pages.selected import MOST_SELECTED, read_selected
from relaydeck.console.rendering import csv_file, path_to, redirect
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.balance_history import BalanceHistory
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway import Runway
from relaydeck.timestamps import utc

_NEW = inputs_of(Relayer)
_EDITED = inputs_of(Relayer, leave_out=("id", "network_type"))
_GROUPS = {
    "Identity": ("id", "name", "labels"),
    "Key": ("signer_id", "address"),
    "Nodes": ("network", "network_type", "custom_rpc_urls"),
    "Policies": (),  # all others
    "Alerts": ("notification_id", "policies.min_balance", "runway_warn_hours"),
}
_PAUSED = Input("paused", "flag", "")  # not in the form: it has a button of its own

act("pause_relayer", done="paused")
act("resume_relayer", done="resumed")
deletion("relayers", "Its events and audit entries stay.", typed="name")


@get("/relayers", shows=RELAYERS)
async def show_list(request: PageRequest) -> Reply:
    found, networks = await request.listed("list_relayers"), await request.names("networks", "name")
    more = await read_selected(request, [each["id"] for each in found["listed"]])
    orders = BY_NAME["list_relayers"].parameters["order"].choices
    return request.page(
        "relayers.html",
        networks=networks,
        more=more,
        now=int(time.time()),
        problems={each: each.replace("_", " ") for each in PROBLEMS},
        orders=list(orders),
        every=urlencode(found["pager"].query),
        most=request.at_most(MOST_SELECTED),
        **found,
    )


@get("/relayers/csv")
async def show_file(request: PageRequest) -> Reply:
    """The first that match, in the order of the list, with exact amounts."""
    listed = (await request.listed("list_relayers", per_page=MOST_SELECTED))["listed"]
    more = await read_selected(request, [each["id"] for each in listed])
    columns = ("id", "name", "network", "address", "signer_id", "paused", "system_disabled", "created_at")
    return csv_file(
        "relayers",
        [
            {name: each[name] for name in columns}
            | more[each["id"]].row()
            | {"labels": _written(each.get("labels", {}))}
            for each in listed
            if each["id"] in more
        ],
    )


def _written(labels: Mapping[str, str]) -> str:
    """As the filter takes them."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


@get("/relayers/{id}", shows=(*RELAYERS, "networks", "signer_checks"))
async def show(request: PageRequest) -> Reply:
    name = request.identifier
    found = await request.call("get_relayer", name)
    network = await request.call("get_network", found.data["network"])
    explanation = await request.call("explain_relayer", name, probe="false")
    entries = await newest_entries(request, "relayer", name)
    span = request.query["span"] if request.query.get("span") in SPANS else "7d"
    length, step = SPANS[span]
    past: Json = {"from": utc(time.time() - length), "step": f"{step}s"}
    history = await request.call("get_relayer_balances", name, **past)
    runway, seen = await request.call("get_relayer_runway", name), await read_selected(request, [name])
    forms = convert(history.data, BalanceHistory), convert(runway.data, Runway)
    events = await request.call("list_events", relayer_id=name, order="newest", per_page="10")
    return request.page(
        "relayer.html",
        relayer=found.data,
        network=network.data,
        symbol=network.data["native_symbol"],
        explanation=explanation.data,
        interval=request.services.settings.monitor_interval_seconds,
        seen=seen.get(name),
        entries=entries,
        events=events.data,
        notes=found.notes,
        history=history.data,
        runway=forms[1],
        chart=balance_chart(*forms, span),
        span=span,
        spans=list(SPANS),
    )


@get("/relayers/{id}/why", shows=("networks", "relayers", "nodes"))
async def show_nodes(request: PageRequest) -> Reply:
    """The explanation with every node called now, which takes as long as the slowest one."""
    explanation = await request.call("explain_relayer", request.identifier)
    return request.page("relayer_nodes.html", explanation=explanation.data)


async def _form_page(request: PageRequest, inputs: list[Input], **given: Any) -> Reply:
    """With what the fields of a relayer can refer to."""
    options = {
        "network": await request.names("networks", "name"),
        "signer_id": await request.names("signers"),
        "notification_id": await request.names("notifications"),
    }
    values: Json = {"groups": grouped(inputs, _GROUPS), "options": options, "id": "", "problem": ""}
    return request.page("relayer_form.html", **values | given)


async def _priced(request: PageRequest, inputs: list[Input], network: str) -> list[Input]:
    """The inputs with amounts in the coin of a network, if there is one of that name."""
    with suppress(RequestError):
        return in_coin(inputs, (await request.call("get_network", network)).data["native_symbol"])
    return inputs


@get("/relayers/new", shows=())
async def show_new(request: PageRequest) -> Reply:
    return await _form_page(request, _NEW)


@post("/relayers", "create_relayer")
async def create(request: PageRequest) -> Reply:
    inputs = await _priced(request, _NEW, request.form.get("network", ""))
    try:
        created = await create_record(request, "relayers", new_document(inputs, request.form))
    except RequestError as error:
        return await _form_page(request, **refused(inputs, request.form, error))
    return redirect(f"{path_to('relayers', created.data['id'])}?done=created")


@get("/relayers/{id}/edit", "update_relayer", shows=())  # with the whole URLs of nodes, which may contain keys
async def show_edit(request: PageRequest) -> Reply:
    found = await request.call("get_relayer", request.identifier)
    inputs = await _stored_inputs(request, found.data)
    return await _edit_page(request, found.etag, opened(inputs), inputs[:-1])


async def _stored_inputs(request: PageRequest, record: Json) -> list[Input]:
    """Those of the form, and at last whether it is paused."""
    return filled([*await _priced(request, _EDITED, record["network"]), _PAUSED], record)


async def _edit_page(request: PageRequest, etag: str, opened: str, inputs: list[Input], **given: Any) -> Reply:
    return await _form_page(request, inputs, id=request.identifier, etag=etag, opened=opened, **given)


@post("/relayers/{id}/edit", "update_relayer")
async def edit(request: PageRequest) -> Reply:
    form, name = request.form, request.identifier
    inputs = await _priced(request, _EDITED, form.get("network", ""))
    kept = form.get("etag", ""), form.get("opened", "")
    if form.get("do") == "back":
        return await _edit_page(request, *kept, submitted(inputs, form))

    async def edit_of(stored: Result) -> Edit:
        now = await _stored_inputs(request, stored.data)
        values = followed(form, now)
        inputs = await _priced(request, _EDITED, values.get("network", ""))
        change, typed = _change(inputs, values, stored.data), submitted(inputs, values)
        return Edit("relayers", stored, change, typed, now, path_to("relayers", name, "edit"))

    try:
        found = await save(request, "relayers", edit_of)
    except RequestError as error:
        return await _edit_page(request, *kept, **refused(inputs, form, error))
    return found if isinstance(found, Reply) else redirect(f"{path_to('relayers', name)}?done=saved")


def _change(inputs: list[Input], form: Mapping[str, str], now: Json) -> Json:
    """What was typed. A node with the same URL keeps its headers, which the form does not show.

    Nodes that cannot be opened are not in the form either: unless others are typed, the change is refused.
    """
    change = without_others(document_of(inputs, form), now)
    typed, stored = change.pop("custom_rpc_urls"), now.get("custom_rpc_urls")
    if stored is None and not typed:
        return change
    kept = {node["url"]: {"headers": node["headers"]} for node in stored or () if "headers" in node}
    return change | {"custom_rpc_urls": [node | kept.get(node["url"], {}) for node in typed]}
