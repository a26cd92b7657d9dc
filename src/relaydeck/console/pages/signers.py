"""Signers: the list, a form for each type, where each one is used, its latest check."""

from typing import Any

from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.confirmation import Edit, followed, newest_entries, opened, save
from relaydeck.console.confirmation import create as create_record
from relaydeck.console.forms import Input, document_of, filled, inputs_of, new_document, refused, submitted
from relaydeck.console.page_request import RELAYERS, PageRequest, act, deletion, get, post
from relaydeck.console.rendering import path_to, redirect
from relaydeck.errors import BadRequest, MistakenRecord, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications.model import Notification
from relaydeck.scope import label_problem
from relaydeck.signers.signer_types import SHAPES, response_type
from relaydeck.store.rows import in_list

_ID = Input("id", "text", "How relayers and commands refer to it; it never changes. Left empty, one is made.")
_LABELS = [each for each in inputs_of(Notification) if each.name == "labels"]  # those of every kind of record
_DRIVERS = {  # what people call the drivers of Relaydeck
    "aws-kms": "AWS KMS",
    "cdp": "Coinbase CDP",
    "google-kms": "Google Cloud KMS",
    "local": "Local key",
    "turnkey": "Turnkey",
    "vault-kv": "Vault KV",
    "vault-transit": "Vault Transit",
}

_ALARMS = "SELECT signer_id, alarm FROM signer_checks WHERE alarm <> '' AND signer_id IN"

act("check_signer", done="checked")
deletion("signers", "One that a relayer uses cannot be removed.")


@get("/signers", shows=("signers", "events", "signer_checks"))
async def show_list(request: PageRequest) -> Reply:
    found = await request.listed("list_signers")
    listed, values = in_list([each["id"] for each in found["listed"]] or [""])
    alarms = await request.read(lambda store: store.database.read(f"{_ALARMS} ({listed})", values))
    problems = {row.signer_id: f"signer_{row.alarm}" for row in alarms}
    return request.page("signers.html", types=_titles(request), names=list(SHAPES), problems=problems, **found)


@get("/signers/{id}", shows=(*RELAYERS, "signers", "signer_checks"))
async def show(request: PageRequest, status: int = 200, **given: Any) -> Reply:
    """`given`: of its form, after that was sent."""
    found = await request.call("get_signer", request.identifier)
    used = await request.used_by("signer_id", request.identifier)
    entries = await newest_entries(request, "signer", request.identifier)
    bound = request.services.settings.drivers.bindings
    unbound = {response_type(each): each for each in SHAPES if each not in bound}  # by their names in responses
    inputs = filled(_LABELS, found.data)
    form: Json = {"etag": found.etag, "opened": opened(inputs), "inputs": inputs, "problem": ""}
    return request.page(
        "signer.html",
        status=status,
        signer=found.data,
        title=_titles(request)[found.data["type"]],
        unbound=unbound.get(found.data["type"], ""),
        used=used,
        entries=entries,
        **form | given,
    )


def _titles(request: PageRequest) -> dict[str, str]:
    """The types as people know them, by the driver that is bound; by their names in requests and in responses."""
    bound, found = request.services.settings.drivers.bindings, dict[str, str]()
    for each in SHAPES:
        driver = bound.get(each, "")
        title = f"{_DRIVERS.get(driver, driver)} ({each})" if driver else f"{each}, without a driver"
        found |= {each: title, response_type(each): title}
    return found


@post("/signers/{id}", "update_signer")
async def edit(request: PageRequest) -> Reply:
    """Only labels change."""
    form, name, typed = request.form, request.identifier, submitted(_LABELS, request.form)
    sent: Json = {"etag": form.get("etag", ""), "opened": form.get("opened", "")}
    if form.get("do") == "back":
        return await show(request, inputs=typed, **sent)

    async def edit_of(stored: Result) -> Edit:
        now = filled(_LABELS, stored.data)
        values = followed(form, now)
        patch = {
            "labels": dict.fromkeys(stored.data.get("labels", ())) | (document_of(_LABELS, values)["labels"] or {})
        }
        problems = [label_problem(each) for pair in patch["labels"].items() for each in pair if each is not None]
        if wrong := [each for each in problems if each]:
            raise MistakenRecord([("labels", wrong[0])])
        return Edit("signers", stored, patch, submitted(_LABELS, values), now, path_to("signers", name))

    try:
        found = await save(request, "signers", edit_of)
    except RequestError as error:
        return await show(request, **sent | refused(_LABELS, form, error))
    return found if isinstance(found, Reply) else redirect(f"{path_to('signers', name)}?done=saved")


def _inputs(signer_type: str) -> list[Input]:
    """Raises BadRequest."""
    shape = SHAPES.get(signer_type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    return [_ID, *inputs_of(shape, "config.")]


def _form_page(request: PageRequest, signer_type: str, **values: Any) -> Reply:
    types, titles = {name: shape.__doc__ for name, shape in SHAPES.items()}, _titles(request)
    return request.page("signer_new.html", type=signer_type, types=types, titles=titles, **values)


@get("/signers/new", shows=())
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
        created = await create_record(request, "signers", document)
    except RequestError as error:
        return _form_page(request, signer_type, **refused(inputs, form, error))
    hint = "&hint=1" if created.notes else ""
    return redirect(f"{path_to('signers', created.data['id'])}?done=created{hint}")
