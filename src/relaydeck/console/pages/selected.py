"""What is done to several relayers at once: those that were ticked in the list, or all that match its filters.

Pausing and resuming is one change each. Notification, policies and labels of all of them change together: as the plan
of an apply file, which is shown, pinned, and applied in one transaction or not at all.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from relaydeck.api.operations import BY_NAME
from relaydeck.console.admin_calls import Json
from relaydeck.console.confirmation import worded
from relaydeck.console.fleet import RelayerOverview, read_overviews
from relaydeck.console.forms import Input, in_coin, inputs_of, refused, submitted, value_of
from relaydeck.console.page_request import PageRequest, post
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, MistakenDocument, MistakenRecord, PlanChanged, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.provisioning.document import merged
from relaydeck.provisioning.export import stored_document
from relaydeck.quantities import counted
from relaydeck.relayers.balance_history import CONFIRM_SECONDS
from relaydeck.relayers.model import Relayer
from relaydeck.store.open_store import Store

MOST_SELECTED = 500
_OPPOSITES = {"pause": "resume", "resume": "pause"}
_KEPT = "as it is"
_NONE = "none"  # typed for a field that is to be unset
_SWITCH = (_KEPT, "on", "off")
_LEFT_EMPTY = re.compile(r" ?Left empty[^.]*\.")  # what that means for one relayer
_CHANGED = ("notification_id", "runway_warn_hours", "policies", "labels")


def _inputs() -> Iterator[Input]:
    """Those of a relayer that may be alike for several. Left empty, a field stays as it is."""
    for each in inputs_of(Relayer):
        if each.name.partition(".")[0] in _CHANGED:
            words = _LEFT_EMPTY.sub("", each.description)
            plain = each._replace(value="", required=False, description=words)
            yield plain._replace(kind="choice", choices=_SWITCH) if each.kind == "flag" else plain
    yield Input("removed_labels", "lines", "Keys of labels to remove.")


_FIELDS = list(_inputs())


async def read_selected(request: PageRequest, relayers: list[str]) -> dict[str, RelayerOverview]:
    """With the moment of a balance only where that is known: see `_known_moment`."""
    found = await request.read(lambda store: read_overviews(store.database.read, relayers))
    interval, now = request.services.settings.monitor_interval_seconds, time.time()
    return {name: each._replace(saved_at=_known_moment(each, interval, now)) for name, each in found.items()}


def _known_moment(relayer: RelayerOverview, interval: float, now: float) -> int | None:
    """None while the monitor checks the relayer: it has read the balance again, and saves that after an hour."""
    is_checked = interval and not relayer.paused
    is_due = relayer.saved_at is None or now - relayer.saved_at >= CONFIRM_SECONDS + interval
    return relayer.saved_at if is_due or not is_checked else None


@post("/relayers/selected", "pause_relayer")
async def act_on_selected(request: PageRequest) -> Reply:
    """Pause or resume several relayers: first a page that names those that change, then one result for each."""
    form = request.form
    verb, selected = form.get("verb", ""), await _selected(request)
    if verb not in _OPPOSITES:
        raise BadRequest("choose pause or resume")
    if form.get("confirmed") != "yes":
        more = await read_selected(request, selected)
        already = [each for each in selected if each in more and more[each].paused == (verb == "pause")]
        changing = [each for each in selected if each not in already]
        return request.page("relayers_confirm.html", verb=verb, selected=changing, already=already, more=more)
    results = [(each, await _outcome(request, each, verb)) for each in selected]
    done = [each for each, problem in results if not problem]
    return request.page("relayers_results.html", verb=verb, results=results, done=done, opposite=_OPPOSITES[verb])


async def _selected(request: PageRequest) -> list[str]:
    """Those that were ticked, or with `every` all that match its filters. Raises BadRequest."""
    most = request.at_most(MOST_SELECTED)
    if (every := request.form.get("every")) is None:
        selected = [value for name, value in request.fields if name == "relayer"]
        if len(selected) > most:
            raise BadRequest(f"at most {most} relayers can change at once")
        return selected
    filters = BY_NAME["list_relayers"].parameters
    query: Json = {name: value for name, value in parse_qsl(every) if name in filters and name != "page"}
    found = await request.call("list_relayers", **query | {"per_page": str(most)})
    if found.total > most:
        raise BadRequest(f"{found.total:,} relayers match, and at most {most} can change at once: filter them")
    return [each["id"] for each in found.data]


async def _outcome(request: PageRequest, relayer_id: str, verb: str) -> str:
    """Empty when it succeeded."""
    try:
        await request.call(f"{verb}_relayer", relayer_id)
    except RequestError as error:
        return reason_of(error)
    return ""


@post("/relayers/selected/change", "apply")
async def change_selected(request: PageRequest) -> Reply:
    """A form, then the plan of the changes, and then the same applied."""
    form, selected = request.form, await _selected(request)
    symbols = {each.symbol for each in (await read_selected(request, selected)).values()}
    inputs = in_coin(_FIELDS, symbols.pop() if len(symbols) == 1 else "coins")
    if "do" not in form or form["do"] == "back" or not selected:
        return await _form_page(request, selected, inputs=submitted(inputs, form))
    try:
        plan = await _plan(request, selected, _patch(inputs, form), plan_only=True)
        if form["do"] != "apply" or not form.get("revision") or not plan["steps"]:
            return _plan_page(request, inputs, selected, plan)
        done = await _plan(request, selected, _patch(inputs, form), form["revision"], plan_only=False)
    except PlanChanged:
        return _plan_page(request, inputs, selected, plan, is_same=False)
    except RequestError as error:
        return await _form_page(request, selected, **refused(inputs, form, error))
    return await _done_page(request, inputs, plan["revision"], done)


async def _form_page(request: PageRequest, selected: list[str], **given: Any) -> Reply:
    options = {"notification_id": await request.names("notifications")}
    values: Json = {"problem": "", "options": options, "selected": selected}
    return request.page("relayers_change.html", **values | given)


def _patch(inputs: list[Input], form: Mapping[str, str]) -> Json:
    """A merge patch of every relayer. Raises MistakenRecord."""
    patch: Json = {}
    for each in (each for each in inputs if form.get(each.name, "").strip() not in ("", _KEPT)):
        text, (*parents, last) = form[each.name].strip(), each.name.split(".")
        place = patch.setdefault(parents[0], {}) if parents else patch
        if each.kind == "choice":
            place[last] = text == "on"
        else:
            place[last] = None if text == _NONE else value_of(each, text)
    removed = patch.pop("removed_labels", None) or []
    if removed:
        patch["labels"] = dict.fromkeys(removed) | (patch.get("labels") or {})
    if not patch:
        raise MistakenRecord([("", "nothing was chosen: fill in what is to change")])
    return patch


async def _plan(request: PageRequest, selected: list[str], patch: Json, revision: str = "", *, plan_only: bool) -> Json:
    """Raises RequestError: MistakenRecord with what is wrong in the form."""

    def documents(store: Store) -> list[Json]:
        found = (stored_document(store, "relayers", each) for each in selected)
        return [dict(merged(each, patch)) for each in found if each is not None]

    asked: Json = {"document": {"relayers": await request.read(documents)}, "prune": False}
    try:
        found = await request.call(
            "apply", document=asked | {"plan_only": plan_only}, if_match=revision and f'"{revision}"'
        )
    except MistakenDocument as error:
        places = (
            (each["place"].partition("].")[2] or each["place"], each["problem"]) for each in error.members["mistakes"]
        )
        raise MistakenRecord(list(dict.fromkeys(places))) from None
    plan: Json = found.data
    return plan


def _worded(plan: Json, inputs: list[Input]) -> list[Json]:
    return [step | {"fields": worded(step["fields"], inputs, inputs)} for step in plan["steps"]]


def _plan_page(
    request: PageRequest, inputs: list[Input], selected: list[str], plan: Json, *, is_same: bool = True
) -> Reply:
    steps = _worded(plan, inputs)
    return request.page(
        "relayers_change_plan.html",
        status=200 if is_same else 412,
        is_same=is_same,
        steps=steps,
        counts=Counter(field["name"] for step in steps for field in step["fields"]),
        revision=plan["revision"],
        selected=selected,
        kept={each.name: each.value for each in submitted(inputs, request.form)},
    )


async def _done_page(request: PageRequest, inputs: list[Input], planned: str, done: Json) -> Reply:
    """With the way back: the entries that this change made in the audit log."""
    names = {each["name"] for each in done["steps"]}
    asked: Json = {"after": planned.partition("-")[0], "actor": request.operator.actor, "per_page": "1000"}
    entries = (await request.call("list_audit", **asked)).data
    made = [each["sequence"] for each in entries if each["record"] in names and each["action"] == "relayer.updated"]
    title = counted(len(names), "relayer")
    steps = _worded(done, inputs)
    return request.page("relayers_changed.html", title=title, steps=steps, first=min(made), last=max(made))
