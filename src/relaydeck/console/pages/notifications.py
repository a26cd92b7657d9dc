"""Notifications: the list, and the page of a receiver: its health, what waits for it, its key, tests, deliveries."""

import secrets
import time
from collections.abc import Mapping, Sequence

from relaydeck.console.admin_calls import Json
from relaydeck.console.chart import attempts_chart
from relaydeck.console.forms import document_of, filled, inputs_of, new_document, refused, submitted, without_others
from relaydeck.console.page_request import PageRequest, deletion, get, post
from relaydeck.console.rendering import path_to, redirect
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, OutOfDate, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.notifications.delivery_queries import ReceiverHealth, failing_receivers, read_health
from relaydeck.notifications.model import Notification
from relaydeck.notifications.sender import message_headers
from relaydeck.notifications.webhook_rule import REFUSED, UNREADABLE
from relaydeck.secret import Secret

_NEW = inputs_of(Notification, leave_out=("type",))
_EDITED = inputs_of(Notification, leave_out=("id", "type", "signing_key"))
_HINTS = {"refused": REFUSED, "unreadable": UNREADABLE}  # by their names in the query
_MOST_WAITING = 20
# A request that a receiver can check its code with.
_EXAMPLE = {
    "key": "an example key",
    "body": '{"type":"notification.test"}',
    **message_headers([Secret("an example key")], "evt_example", 1_700_000_000, b'{"type":"notification.test"}'),
}
_SAFE_KEY_BYTES = 24
_NO_KEY = "Type the new signing key, or choose to remove the present one."
_TWO_CHOICES = "A signing key was typed, and another choice was made. Choose one of them."
_UNSEEN_KEY = "If you sent the form twice, a random key was saved that you did not see: generate another."
_CONFLICT = "Somebody else has changed this notification meanwhile. Compare, then save again."

deletion("notifications", "One that a relayer uses cannot be removed.")


@get("/notifications")
async def show_list(request: PageRequest) -> Reply:
    found = await request.listed("list_notifications")
    names = [each["id"] for each in found["listed"]]
    failing = await request.read(lambda store: failing_receivers(store.database.read, len(names), names))
    return request.page("notifications.html", failing={each.notification_id for each in failing}, **found)


@get("/notifications/new")
async def show_new(request: PageRequest) -> Reply:
    return request.page("notification_new.html", inputs=_NEW, problem="")


@post("/notifications", "create_notification")
async def create(request: PageRequest) -> Reply:
    try:
        document = new_document(_NEW, request.form) | {"type": "webhook"}
        created = await request.call("create_notification", document=document)
    except RequestError as error:
        return request.page("notification_new.html", **refused(_NEW, request.form, error))
    return _shown(document["id"], "created", created.notes, document.get("signing_key", ""))


def _shown(name: str, done: str, notes: Sequence[str], key: str) -> Reply:
    hints = "".join(f"&hint={each}" for each, hint in _HINTS.items() if f"url {hint}" in notes)
    short = "&key=short" if 0 < len(key.encode()) < _SAFE_KEY_BYTES else ""
    return redirect(f"{path_to('notifications', name)}?done={done}{hints}{short}")


@get("/notifications/{id}")
async def show(request: PageRequest, status: int = 200, problem: str = "", new_key: str = "") -> Reply:
    """`new_key`: shown once."""
    name = request.identifier
    found = await request.call("get_notification", name)
    used = await request.used_by("notification_id", name)
    deliveries = await request.call("list_deliveries", notification_id=name, order="newest", per_page="10")
    pending: Json = {"notification_id": name, "state": "pending", "per_page": str(_MOST_WAITING)}
    waiting = await request.call("list_deliveries", **pending)
    health = await _health(request)
    return request.page(
        "notification.html",
        status=status,
        notification=found.data,
        etag=found.etag,
        inputs=submitted(_EDITED, request.form) if problem else filled(_EDITED, found.data),
        problem=problem,
        new_key=new_key,
        choice=request.form.get("key", "keep") if problem else "keep",
        used=used,
        deliveries=deliveries.data,
        waiting=waiting.data,
        health=health,
        chart=attempts_chart(health.hours),
        example=_EXAMPLE,
        hint=_HINTS.get(request.query.get("hint", "")),
    )


@post("/notifications/{id}", "update_notification")
async def edit(request: PageRequest) -> Reply:
    form, name = request.form, request.identifier
    try:
        key = _key_change(form)
        stored = await request.call("get_notification", name)
        change = without_others(document_of(_EDITED, form), stored.data) | key
        changed = await request.call("update_notification", name, document=change, if_match=form.get("etag", "*"))
    except RequestError as error:
        return await show(request, error.status, _conflict(form) if isinstance(error, OutOfDate) else reason_of(error))
    if form.get("key") == "generate":
        return await show(request, new_key=key["signing_key"])
    return _shown(name, "saved", changed.notes, key.get("signing_key", ""))


def _conflict(form: Mapping[str, str]) -> str:
    return f"{_CONFLICT} {_UNSEEN_KEY}" if form.get("key") == "generate" else _CONFLICT


async def _health(request: PageRequest) -> ReceiverHealth:
    name, now = request.identifier, time.time()
    return await request.read(lambda store: read_health(store.database.read, name, now))


@get("/notifications/{id}/send")
async def ask_to_send(request: PageRequest) -> Reply:
    await request.call("get_notification", request.identifier)
    health = await _health(request)
    return request.page("notification_send.html", name=request.identifier, waiting=health.waiting)


@post("/notifications/{id}/send", "send_waiting")
async def send(request: PageRequest) -> Reply:
    await request.call("send_waiting", request.identifier)
    return redirect(f"{path_to('notifications', request.identifier)}?done=replayed")


def _key_change(form: Mapping[str, str]) -> dict[str, str]:
    """Nothing, if the key stays. A key that was typed replaces the present one. Raises BadRequest."""
    choice, typed = form.get("key", "keep"), form.get("signing_key", "")
    if typed and choice in ("remove", "generate"):
        raise BadRequest(_TWO_CHOICES)
    if choice == "replace" and not typed:
        raise BadRequest(_NO_KEY)
    if choice == "generate":
        return {"signing_key": secrets.token_urlsafe(32)}
    return {"signing_key": typed} if typed or choice == "remove" else {}


@post("/notifications/{id}/test", "test_notification")
async def send_test(request: PageRequest) -> Reply:
    event = await request.call("test_notification", request.identifier)
    return redirect(f"{path_to('deliveries', event.data['id'])}?done=sent")
