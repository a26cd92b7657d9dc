"""Notifications: the list, and the form for a new one."""

from relaydeck.console.forms import document_of, inputs_of, submitted, with_problem, without_nulls
from relaydeck.console.pages.notification import hint_query
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications.model import Notification

_NEW = inputs_of(Notification, leave_out=("type",))


def pages(_services: PageServices) -> Pages:
    return {"/notifications": {"GET": show_list, "POST": create}, "/notifications/new": {"GET": show_new}}


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
        created = await visit.admin.change("POST", "notifications", document=document)
    except RequestError as error:
        inputs, problem = with_problem(submitted(_NEW, form), error)
        return visit.page("notification_new.html", status=error.status, inputs=inputs, problem=problem)
    return redirect(f"{path_to('notifications', document['id'])}?done=created{hint_query(created.notes)}")
