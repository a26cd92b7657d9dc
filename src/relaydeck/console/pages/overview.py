"""The overview: what to do now, what runs out first, the fleet in numbers, and what people have changed."""

from relaydeck.console.fleet import read_fleet
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.rendering import redirect
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.http.pipeline import Reply
from relaydeck.store import audit

_LATEST_ENTRIES = 10_000  # among which changes of people are looked for
_SHOWN = ("audit", "events", "deliveries", "balances", "runways", "troubles")
_SMALL_FLEET = 20  # one that is larger is past its first steps
# What shows that each step was done, in their order.
_FIRST_STEPS = {
    "network": "networks",
    "signer": "signer_checks WHERE outcome = 'ok'",
    "node": "balances",
    "funded": "balances WHERE balance <> '0'",
    "delivered": "deliveries WHERE state = 'delivered'",
}
_DONE = ", ".join(f"EXISTS (SELECT 1 FROM {where}) AS {step}" for step, where in _FIRST_STEPS.items())
SPANS = {"1h": "1 hour", "4h": "4 hours", "12h": "12 hours", "1d": "1 day", "3d": "3 days", "7d": "7 days"}


@get("", shows=_SHOWN)
@get("/", shows=_SHOWN)
async def show(request: PageRequest, status: int = 200, problem: str = "") -> Reply:
    fleet = await request.read(lambda store: read_fleet(store.database.read))
    found = await request.call("list_problems")
    runways, waiting = await request.call("list_runways", first="5"), 0
    if request.operator.may("list_proposals"):
        waiting = (await request.call("list_proposals", state="open", per_page="1")).total
    steps: dict[str, bool] = {}
    if fleet.total("total") <= _SMALL_FLEET:
        (row,) = await request.read(lambda store: store.database.read(f"SELECT {_DONE}", {}))
        steps = {step: bool(getattr(row, step)) for step in _FIRST_STEPS}
        request = request._replace(shows=(*_SHOWN, "signer_checks"))
    newest = await request.read(lambda store: audit.head(store.database.read))
    after = str(max(0, newest.seq - _LATEST_ENTRIES))
    changes = await request.call("list_audit", order="newest", per_page="8", by="people", after=after)
    return request.page(
        "overview.html",
        status=status,
        problem=problem,
        fleet=fleet,
        problems=found.data,
        notes=found.notes,
        waiting=waiting,
        runways=runways.data["runways"],
        changes=changes.data,
        spans=SPANS,
        steps={} if all(steps.values()) else steps,
    )


@post("/problems/{id}/acknowledge", "acknowledge_problem")
async def acknowledge(request: PageRequest) -> Reply:
    document = {"note": request.form.get("note", "").strip(), "until": _until(request.form)}
    try:
        await request.call("acknowledge_problem", request.identifier, document=document)
    except RecordNotFound:
        return redirect("?done=over")
    except BadRequest as error:
        return await show(request, error.status, reason_of(error) if document["note"] else "Say what is done about it.")
    return redirect("?done=acknowledged")


def _until(form: dict[str, str]) -> str:
    """The moment that was typed, in UTC unless a script has added another offset; or else the span that was chosen."""
    moment = form.get("moment", "").strip()
    return f"{moment}{form.get('offset') or '+00:00'}" if moment else form.get("until", "")


@post("/problems/{id}/reopen", "reopen_problem")
async def reopen(request: PageRequest) -> Reply:
    try:
        await request.call("reopen_problem", request.identifier)
    except RecordNotFound:
        return redirect("?done=over")
    return redirect("?done=reopened")
