"""Signers: the list, a form for each type, where each one is used, its latest check."""

from collections.abc import Mapping
from typing import Any

from relaydeck.console.forms import Input, document_of, inputs_of, submitted, with_problem, without_nulls
from relaydeck.console.pages.deletion import Deletion
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.signers.signer_types import SHAPES, response_type

_FILTERS = ("id", "type", "check", "order")
_ID = Input("id", "text", "Identifier. Left empty, a UUID is generated.")
_USED = "20"
_DELETION = Deletion("signers", "One that a relayer uses cannot be removed.")


def pages(services: PageServices) -> Pages:
    bound = services.settings.driver_bindings
    unbound = {response_type(each): each for each in SHAPES if each not in bound}

    async def show(visit: Visit) -> Reply:
        return await _show(visit, unbound)

    return {
        "/signers": {"GET": show_list, "POST": create},
        "/signers/new": {"GET": show_new},
        "/signers/{id}": {"GET": show},
        "/signers/{id}/check": {"POST": check},
        **_DELETION.pages(),
    }


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    found = await visit.admin.read("signers", page=str(number), per_page=str(PER_PAGE), **query)
    return visit.page("signers.html", signers=found.data, pager=Pager(number, found.total, query), types=list(SHAPES))


async def _show(visit: Visit, unbound: Mapping[str, str]) -> Reply:
    """`unbound`: the types without a driver, by their names in responses."""
    found = await visit.admin.read("signers", visit.identifier)
    used = await visit.admin.read("relayers", signer_id=visit.identifier, per_page=_USED)
    entries = await visit.admin.read("audit", record=visit.identifier, order="newest", per_page="10")
    missing = unbound.get(found.data["type"], "")
    return visit.page("signer.html", signer=found.data, unbound=missing, used=used, entries=entries.data)


def _inputs(signer_type: str) -> list[Input]:
    """Raises BadRequest."""
    shape = SHAPES.get(signer_type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    return [_ID, *inputs_of(shape, "config.")]


def _form_page(visit: Visit, signer_type: str, inputs: list[Input], status: int = 200, problem: str = "") -> Reply:
    shown: dict[str, Any] = {"type": signer_type, "types": {name: shape.__doc__ for name, shape in SHAPES.items()}}
    return visit.page("signer_new.html", status=status, inputs=inputs, problem=problem, **shown)


async def show_new(visit: Visit) -> Reply:
    signer_type = visit.query.get("type", "plain")
    return _form_page(visit, signer_type, _inputs(signer_type))


async def create(visit: Visit) -> Reply:
    form = visit.form
    signer_type = form.get("type", "")
    inputs = _inputs(signer_type)
    try:
        document = without_nulls(document_of(inputs, form)) | {"type": signer_type}
        created = await visit.admin.change("POST", "signers", document={"config": {}} | document)
    except RequestError as error:
        shown, problem = with_problem(submitted(inputs, form), error)
        return _form_page(visit, signer_type, shown, error.status, problem)
    hint = "&hint=1" if created.notes else ""
    return redirect(f"{path_to('signers', created.data['id'])}?done=created{hint}")


async def check(visit: Visit) -> Reply:
    await visit.admin.change("POST", "signers", visit.identifier, "check")
    return redirect(f"{path_to('signers', visit.identifier)}?done=checked")
