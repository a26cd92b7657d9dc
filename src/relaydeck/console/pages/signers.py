"""Signers: the list, a form for each type, where each one is used, its latest check."""

from typing import Any

from relaydeck.console.forms import Input, inputs_of, new_document, refused
from relaydeck.console.page_request import PageRequest, act, deletion, get, post
from relaydeck.console.rendering import path_to, redirect
from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.signers.signer_types import SHAPES, response_type
from relaydeck.store.rows import in_list

_ID = Input("id", "text", "Identifier. Left empty, a UUID is generated.")

_ALARMS = "SELECT signer_id, alarm FROM signer_checks WHERE alarm <> '' AND signer_id IN"

act("check_signer", done="checked")
deletion("signers", "One that a relayer uses cannot be removed.")


@get("/signers")
async def show_list(request: PageRequest) -> Reply:
    found = await request.listed("list_signers")
    listed, values = in_list([each["id"] for each in found["listed"]] or [""])
    alarms = await request.read(lambda store: store.database.read(f"{_ALARMS} ({listed})", values))
    problems = {row.signer_id: f"signer_{row.alarm}" for row in alarms}
    return request.page("signers.html", types=list(SHAPES), problems=problems, **found)


@get("/signers/{id}")
async def show(request: PageRequest) -> Reply:
    found = await request.call("get_signer", request.identifier)
    used = await request.used_by("signer_id", request.identifier)
    entries = await request.call("list_audit", record=request.identifier, order="newest", per_page="10")
    bound = request.services.settings.drivers.bindings
    unbound = {response_type(each): each for each in SHAPES if each not in bound}  # by their names in responses
    missing = unbound.get(found.data["type"], "")
    return request.page("signer.html", signer=found.data, unbound=missing, used=used, entries=entries.data)


def _inputs(signer_type: str) -> list[Input]:
    """Raises BadRequest."""
    shape = SHAPES.get(signer_type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    return [_ID, *inputs_of(shape, "config.")]


def _form_page(request: PageRequest, signer_type: str, **values: Any) -> Reply:
    types = {name: shape.__doc__ for name, shape in SHAPES.items()}
    return request.page("signer_new.html", type=signer_type, types=types, **values)


@get("/signers/new")
async def show_new(request: PageRequest) -> Reply:
    signer_type = request.query.get("type", "plain")
    return _form_page(request, signer_type, inputs=_inputs(signer_type), problem="")


@post("/signers", "create_signer")
async def create(request: PageRequest) -> Reply:
    form = request.form
    signer_type = form.get("type", "")
    inputs = _inputs(signer_type)
    try:
        document = {"config": {}, **new_document(inputs, form), "type": signer_type}
        created = await request.call("create_signer", document=document)
    except RequestError as error:
        return _form_page(request, signer_type, **refused(inputs, form, error))
    hint = "&hint=1" if created.notes else ""
    return redirect(f"{path_to('signers', created.data['id'])}?done=created{hint}")
