"""The forms of a relayer: a new one, and one that is edited, perhaps by two operators at once."""

from typing import Any

from relaydeck.console.forms import document_of, filled, inputs_of, submitted, with_problem, without_nulls
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.model import Relayer

_NEW = inputs_of(Relayer)
_EDITED = inputs_of(Relayer, leave_out=("id", "network_type"))


def pages(_services: PageServices) -> Pages:
    return {
        "/relayers": {"POST": create},
        "/relayers/new": {"GET": show_new},
        "/relayers/{id}/edit": {"GET": show_edit, "POST": edit},
    }


async def create(visit: Visit) -> Reply:
    try:
        created = await visit.admin.change("POST", "relayers", document=_new_document(visit.form))
    except RequestError as error:
        inputs, problem = with_problem(submitted(_NEW, visit.form), error)
        return visit.page(
            "relayer_new.html", status=error.status, inputs=inputs, problem=problem, **await _choices(visit)
        )
    return redirect(f"{path_to('relayers', created.data['id'])}?done=created")


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
    return visit.page("relayer_new.html", inputs=_NEW, problem="", **await _choices(visit))


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
