"""Apply: a file is pasted, its plan is shown, and exactly that plan is applied.

Reading a large file and rendering its plan run in a thread: each takes longer than other requests should wait.
"""

import asyncio
from typing import Any

from relaydeck.bounded_toml import parse_toml
from relaydeck.console.carried_text import carried, carry
from relaydeck.console.request import reason_of
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import BadRequest, MistakenDocument, PlanChanged, RequestError
from relaydeck.http.pipeline import Reply


def pages(_services: PageServices) -> Pages:
    return {"/apply": {"GET": show, "POST": plan}, "/apply/plan": {"POST": apply}}


async def show(visit: Visit) -> Reply:
    return visit.page("apply.html", problem="", mistakes=[])


async def plan(visit: Visit) -> Reply:
    form = visit.form
    text, prune = form.get("file", "").replace("\r\n", "\n"), bool(form.get("prune"))
    return await _plan_page(visit, text, prune=prune)


async def _plan_page(visit: Visit, text: str, *, prune: bool, changed: PlanChanged | None = None) -> Reply:
    try:
        request = await asyncio.to_thread(_request, text, prune=prune, plan_only=True)
        found = await visit.admin.change("POST", "apply", document=request)
    except RequestError as error:
        return await _refused(visit, error)
    sealed = carry(visit.visitor.secret, text)
    status = 412 if changed else 200
    values = {"plan": found.data, "sealed": sealed, "prune": prune, "changed": changed}
    return await asyncio.to_thread(visit.page, "apply_plan.html", status=status, **values)


async def apply(visit: Visit) -> Reply:
    form = visit.form
    text, prune = carried(visit.visitor.secret, form.get("sealed", "")), bool(form.get("prune"))
    try:
        request = await asyncio.to_thread(_request, text, prune=prune, plan_only=False)
        done = await visit.admin.change("POST", "apply", document=request, if_match=f'"{form.get("revision", "")}"')
    except PlanChanged as changed:
        return await _plan_page(visit, text, prune=prune, changed=changed)
    except RequestError as error:
        return await _refused(visit, error)
    return await asyncio.to_thread(visit.page, "apply_done.html", plan=done.data)


def _request(text: str, *, prune: bool, plan_only: bool) -> dict[str, Any]:
    """Raises BadRequest. The message of the TOML reader names a place, and no value."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise BadRequest(f"it is not TOML: {error}") from None
    return {"document": document, "prune": prune, "plan_only": plan_only}


async def _refused(visit: Visit, error: RequestError) -> Reply:
    mistakes = error.members["mistakes"] if isinstance(error, MistakenDocument) else []
    problem = "" if mistakes else reason_of(error)
    return await asyncio.to_thread(visit.page, "apply.html", status=error.status, problem=problem, mistakes=mistakes)
