"""Changes that need approval: what waits, each with its plan, and the decision."""

from relaydeck.console.confirmation import worded_steps
from relaydeck.console.page_request import PageRequest, act, get, post
from relaydeck.console.rendering import path_to, redirect
from relaydeck.console.request import reason_of
from relaydeck.credentials.tokens import may_approve
from relaydeck.errors import BadRequest
from relaydeck.http.pipeline import Reply

act("approve_proposal", done="applied")
act("withdraw_proposal", done="withdrawn")


@get("/proposals", "list_proposals")
async def show_list(request: PageRequest) -> Reply:
    return request.page("proposals.html", **await request.listed("list_proposals", order="newest"))


@get("/proposals/{id}", "get_proposal")
async def show(request: PageRequest, status: int = 200, problem: str = "") -> Reply:
    found, actor = (await request.call("get_proposal", request.identifier)).data, request.operator.actor
    is_another = await request.read(lambda store: may_approve(store.database.read, actor, found["author"]))
    shown = found | {"steps": await worded_steps(request, found["steps"])}
    return request.page("proposal.html", status=status, proposal=shown, is_another=is_another, problem=problem)


@post("/proposals/{id}/reject", "reject_proposal")
async def reject(request: PageRequest) -> Reply:
    return await _decide(request, "reject_proposal", "rejected")


@post("/proposals/{id}/force", "force_proposal")
async def force(request: PageRequest) -> Reply:
    return await _decide(request, "force_proposal", "forced")


async def _decide(request: PageRequest, operation: str, done: str) -> Reply:
    try:
        await request.call(operation, request.identifier, document={"reason": request.form.get("reason", "").strip()})
    except BadRequest as error:
        return await show(request, error.status, reason_of(error))
    return redirect(f"{path_to('proposals', request.identifier)}?done={done}")
