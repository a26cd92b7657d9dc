"""One notification: its form with the three ways to treat a signing key, tests, and deliveries."""

from collections.abc import Sequence

from relaydeck.console.forms import document_of, filled, inputs_of, submitted, with_problem
from relaydeck.console.pages.deletion import Deletion
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import deliveries
from relaydeck.notifications.model import Notification
from relaydeck.notifications.webhook_rule import REFUSED, UNREADABLE

_EDITED = inputs_of(Notification, leave_out=("id", "type", "signing_key"))
_LATEST = 10
_HINTS = {"refused": REFUSED, "unreadable": UNREADABLE}  # by their names in the query
_DELETION = Deletion("notifications", "One that a relayer uses cannot be removed.")


def pages(_services: PageServices) -> Pages:
    return {
        "/notifications/{id}": {"GET": show, "POST": edit},
        "/notifications/{id}/test": {"POST": send_test},
        **_DELETION.pages(),
    }


def hint_query(notes: Sequence[str]) -> str:
    return "".join(f"&hint={name}" for name, hint in _HINTS.items() if f"url {hint}" in notes)


async def show(visit: Visit) -> Reply:
    return await _page(visit)


async def _page(visit: Visit, status: int = 200, problem: str = "", form: dict[str, str] | None = None) -> Reply:
    name = visit.identifier
    found = await visit.admin.read("notifications", name)
    used = await visit.admin.read("relayers", notification_id=name, per_page="20")
    rows = await visit.read(
        lambda store: deliveries.list_latest(store.database.read, limit=_LATEST, notification_id=name)
    )
    inputs = filled(_EDITED, found.data) if form is None else submitted(_EDITED, form)
    return visit.page(
        "notification.html",
        status=status,
        notification=found.data,
        etag=found.etag,
        inputs=inputs,
        problem=problem,
        used=used,
        deliveries=rows,
        hint=_HINTS.get(visit.query.get("hint", "")),
    )


async def edit(visit: Visit) -> Reply:
    form = visit.form
    change = document_of(_EDITED, form)
    match form.get("key"):
        case "replace":
            change["signing_key"] = form.get("signing_key", "")
        case "remove":
            change["signing_key"] = ""
    try:
        changed = await visit.admin.change(
            "PATCH", "notifications", visit.identifier, document=change, if_match=form.get("etag", "*")
        )
    except OutOfDate as error:
        conflict = "Somebody else has changed this notification meanwhile. Compare, then save again."
        return await _page(visit, error.status, conflict, form)
    except RequestError as error:
        _, problem = with_problem([], error)
        return await _page(visit, error.status, problem, form)
    return redirect(f"{path_to('notifications', visit.identifier)}?done=saved{hint_query(changed.notes)}")


async def send_test(visit: Visit) -> Reply:
    event = await visit.admin.change("POST", "notifications", visit.identifier, "test")
    return redirect(f"{path_to('deliveries', event.data['id'])}?done=sent")
