"""Notifications: the list, and the page of a receiver: its health, what waits for it, its key, tests, deliveries."""

import base64
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.chart import attempts_chart
from relaydeck.console.confirmation import Edit, followed, newest_entries, opened, planned, save
from relaydeck.console.confirmation import create as create_record
from relaydeck.console.forms import document_of, filled, inputs_of, new_document, refused, submitted, without_others
from relaydeck.console.page_request import RELAYERS, PageRequest, deletion, get, post
from relaydeck.console.pages.apply import carried, carry
from relaydeck.console.rendering import path_to, redirect
from relaydeck.errors import BadRequest, MistakenRecord, RequestError
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
_SHORT = "The signing key has fewer than 24 bytes and may be guessed. A random one is safer: go back to choose it."
_UNSEEN_KEY = "If you sent the form twice, a random key was saved that you did not see: save again for another."
_LOST_KEY = "Type the signing key again: it was typed before you signed in anew."
_KEY = "signing_key"
Mistakes = list[tuple[str, str]]  # each with its field
_BOTH_SIGN = "; for a day, the present one signs as well"
_DONE = {  # by choice
    "generate": "{} a random one, which is shown once",
    "replace": "{} the one that was typed",
    "remove": "removed: events are no longer signed",
}
_PREVIOUS = "SELECT previous_key_until FROM notifications WHERE id = :id AND previous_key_until > :now"

deletion("notifications", "One that a relayer uses cannot be removed.")


@get("/notifications", shows=("notifications", "deliveries"))
async def show_list(request: PageRequest) -> Reply:
    found = await request.listed("list_notifications")
    names = [each["id"] for each in found["listed"]]
    failing = await request.read(lambda store: failing_receivers(store.database.read, len(names), names))
    return request.page("notifications.html", failing={each.notification_id for each in failing}, **found)


@get("/notifications/new", shows=())
async def show_new(request: PageRequest) -> Reply:
    return request.page("notification_new.html", inputs=_NEW, problem="")


@post("/notifications", "create_notification")
async def create(request: PageRequest) -> Reply:
    form = request.form
    try:
        choice, key, mistakes = _key_choice(request)
        document = new_document(_NEW, form) | {"type": "webhook"} | ({_KEY: key} if key else {})
        created = await create_record(request, "notifications", document, mistakes)
    except RequestError as error:
        return request.page("notification_new.html", **refused(_NEW, form, error))
    if choice == "generate":
        return await show(request._replace(argument=quote(document["id"], safe="")), new_key=key or "")
    return _shown(document["id"], "created", created.notes, key or "")


def _shown(name: str, done: str, notes: Sequence[str], key: str) -> Reply:
    hints = "".join(f"&hint={each}" for each, hint in _HINTS.items() if f"url {hint}" in notes)
    short = "&key=short" if _is_short(key) else ""
    return redirect(f"{path_to('notifications', name)}?done={done}{hints}{short}")


def _is_short(key: str | None) -> bool:
    return 0 < len((key or "").encode()) < _SAFE_KEY_BYTES


@get("/notifications/{id}", shows=(*RELAYERS, "notifications", "deliveries"))
async def show(
    request: PageRequest, status: int = 200, *, is_typed: bool = False, new_key: str = "", **given: Any
) -> Reply:
    """`is_typed`: the form has what was sent. `new_key`: shown once. `given`: of a form that was refused."""
    name = request.identifier
    found = await request.call("get_notification", name)
    used = await request.used_by("notification_id", name)
    deliveries = await request.call("list_deliveries", notification_id=name, order="newest", per_page="10")
    pending: Json = {"notification_id": name, "state": "pending", "per_page": str(_MOST_WAITING)}
    waiting = await request.call("list_deliveries", **pending)
    health = await _health(request)
    inputs = submitted(_EDITED, request.form) if is_typed else filled(_EDITED, found.data)
    form: Json = {"inputs": inputs, "problem": "", "key_problem": ""}
    return request.page(
        "notification.html",
        status=status,
        notification=found.data,
        etag=request.form.get("etag", "") if is_typed else found.etag,
        opened=request.form.get("opened", "") if is_typed else opened(filled(_EDITED, found.data)),
        new_key=new_key,
        previous_until=await _previous_key(request),
        choice=request.form.get("key", "keep") if is_typed else "keep",
        used=used,
        entries=await newest_entries(request, "notification", name),
        deliveries=deliveries.data,
        waiting=waiting.data,
        health=health,
        chart=attempts_chart(health.hours),
        example=_EXAMPLE,
        hint=_HINTS.get(request.query.get("hint", "")),
        **form | given,
    )


@post("/notifications/{id}", "update_notification")
async def edit(request: PageRequest) -> Reply:
    form, name = request.form, request.identifier
    if form.get("do") == "back":
        return await show(request, is_typed=True)
    choice, key, mistakes = _key_choice(request)
    try:
        found = await save(request, "notifications", partial(_edit_of, request, choice, key, mistakes))
    except RequestError as error:
        return await show(request, is_typed=True, **_refused_edit(form, error))
    if isinstance(found, Reply):
        return found
    if choice == "generate":
        return await show(request, new_key=key or "")
    return _shown(name, "saved", found, key or "")


def _refused_edit(form: dict[str, str], error: RequestError) -> Json:
    """The key has more than one control: its problem is shown below them."""
    if not isinstance(error, MistakenRecord):
        return refused(_EDITED, form, error)
    others = [(place, problem) for place, problem in error.mistakes if place != _KEY]
    of_key = [problem for place, problem in error.mistakes if place == _KEY]
    return refused(_EDITED, form, MistakenRecord(others)) | {"key_problem": " ".join(of_key)}


async def _edit_of(request: PageRequest, choice: str, key: str | None, mistakes: Mistakes, stored: Result) -> Edit:
    """Raises RequestError."""
    now, name = filled(_EDITED, stored.data), request.identifier
    form = followed(request.form, now)
    change: Json = without_others(document_of(_EDITED, form), stored.data) | ({} if key is None else {_KEY: key})
    edit = Edit(
        *("notifications", stored, change, submitted(_EDITED, form), now),
        path_to("notifications", name),
        carry(request.operator.secret, key) if key and choice == "replace" else "",
        {"key": choice},
        {_KEY: _done(choice, replaces=stored.data["has_signing_key"])},
        _SHORT if _is_short(key) else _UNSEEN_KEY if (choice, form.get("do")) == ("generate", "save") else "",
    )
    if mistakes:
        await planned(request, "notifications", name, edit.document, mistakes)
    return edit


def _done(choice: str, *, replaces: bool) -> str:
    said = _DONE.get(choice, "").format("replaced by" if replaces else "set to")
    return said + (_BOTH_SIGN if replaces and choice in ("generate", "replace") else "")


async def _previous_key(request: PageRequest) -> int | None:
    """Until when the key before the present one signs as well, in seconds."""
    asked = {"id": request.identifier, "now": int(time.time())}
    rows = await request.read(lambda store: store.database.read(_PREVIOUS, asked))
    return rows[0].previous_key_until if rows else None


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


def _key_choice(request: PageRequest) -> tuple[str, str | None, Mistakes]:
    """What becomes of the key, the new one, and what is wrong. None: it stays. One that is typed replaces it."""
    form = request.form
    choice, typed = form.get("key", "keep"), form.get(_KEY, "")
    if sealed := form.get("sealed"):
        try:
            typed = carried(request.operator.secret, sealed)
        except BadRequest:
            return choice, None, [(_KEY, _LOST_KEY)]
    if typed and choice in ("remove", "generate"):
        return choice, None, [(_KEY, _TWO_CHOICES)]
    if choice == "replace" and not typed:
        return choice, None, [(_KEY, _NO_KEY)]
    if choice == "generate":
        return choice, f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}", []
    return ("replace", typed, []) if typed else (choice, "" if choice == "remove" else None, [])


@post("/notifications/{id}/test", "test_notification")
async def send_test(request: PageRequest) -> Reply:
    event = await request.call("test_notification", request.identifier)
    return redirect(f"{path_to('deliveries', event.data['id'])}?done=sent")
