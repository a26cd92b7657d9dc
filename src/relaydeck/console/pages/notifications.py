"""Notifications: the list, their form with the three ways to treat a signing key, tests, and deliveries."""

from relaydeck.console.formats import visible
from relaydeck.console.forms import document_of, filled, inputs_of, submitted, with_problem, without_nulls
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import deliveries
from relaydeck.notifications.model import Notification

_NEW = inputs_of(Notification, leave_out=("type",))
_EDITED = inputs_of(Notification, leave_out=("id", "type", "signing_key"))
_LATEST = 10


def pages(_services: PageServices) -> Pages:
    return {
        "/notifications": {"GET": show_list, "POST": create},
        "/notifications/new": {"GET": show_new},
        "/notifications/{id}": {"GET": show, "POST": edit},
        "/notifications/{id}/test": {"POST": send_test},
        "/notifications/{id}/delete": {"GET": show_delete, "POST": delete},
    }


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, "id", "order"), page_number(visit.query)
    found = await visit.admin.read("notifications", page=str(number), per_page=str(PER_PAGE), **query)
    return visit.page("notifications.html", notifications=found.data, pager=Pager(number, found.total, query))


async def show_new(visit: Visit) -> Reply:
    return visit.page("notification_new.html", inputs=_NEW, problem="")


async def create(visit: Visit) -> Reply:
    form = visit.form
    try:
        document = without_nulls(document_of(_NEW, form)) | {"type": "webhook"}
        await visit.admin.change("POST", "notifications", document=document)
    except RequestError as error:
        inputs, problem = with_problem(submitted(_NEW, form), error)
        return visit.page("notification_new.html", status=error.status, inputs=inputs, problem=problem)
    return redirect(f"{path_to('notifications', document['id'])}?done=created")


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
        await visit.admin.change(
            "PATCH", "notifications", visit.identifier, document=change, if_match=form.get("etag", "*")
        )
    except OutOfDate as error:
        changed = "Somebody else has changed this notification meanwhile. Compare, then save again."
        return await _page(visit, error.status, changed, form)
    except RequestError as error:
        _, problem = with_problem([], error)
        return await _page(visit, error.status, problem, form)
    return redirect(f"{path_to('notifications', visit.identifier)}?done=saved")


async def send_test(visit: Visit) -> Reply:
    event = await visit.admin.change("POST", "notifications", visit.identifier, "test")
    return redirect(f"{path_to('deliveries', event.data['id'])}?done=sent")


async def show_delete(visit: Visit) -> Reply:
    found = await visit.admin.read("notifications", visit.identifier)
    return visit.page("delete.html", resource="notifications", id=found.data["id"], etag=found.etag, problem="")


async def delete(visit: Visit) -> Reply:
    form = visit.form
    if form.get("typed") not in (visit.identifier, visible(visit.identifier)):
        problem = "Type the identifier exactly as it is shown."
        shown = {"resource": "notifications", "id": visit.identifier, "etag": form.get("etag", ""), "problem": problem}
        return visit.page("delete.html", status=400, **shown)
    await visit.admin.change("DELETE", "notifications", visit.identifier, if_match=form.get("etag", "*"))
    return redirect("/notifications?done=deleted")
