"""Shows what saving a form would change, before it is saved: one page for every kind of record.

A form that is sent leads to this page, whose buttons send it again: to save exactly what is shown, or to return to the
form. The changes are planned as those of an apply file with this record. What somebody else has changed since the form
was opened is shown, too: as it was, as it is and by whom, and as it was typed. A field that was not touched in the form
follows what is stored, so that saving takes back nobody's change unseen.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.forms import Input, label_of, text_of
from relaydeck.console.page_request import PageRequest
from relaydeck.errors import BadRequest, MistakenRecord, NotPossible, OutOfDate, RecordExists
from relaydeck.http.pipeline import Reply
from relaydeck.identifiers import new_identifier
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, Resource, settable_fields
from relaydeck.provisioning.document import RecordDocument, merged
from relaydeck.provisioning.plan import FieldChange, Step, shown_labels
from relaydeck.provisioning.planner import NODE_FIELDS
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import find_addresses
from relaydeck.store.open_store import Store

_CONFLICT = 412
_MOST_ENTRIES = 100  # of the audit log, to find who changed a field
_GENERATED = ("signers", "relayers")  # have an id made for them, unless one is given
_PAUSED = "paused"  # no field of a form: it has a button of its own


class Edit(NamedTuple):
    """A form that was sent to change a record."""

    resource: Resource
    stored: Result
    patch: Json
    typed: list[Input]
    now: list[Input]  # with what is stored
    path: str  # that the form is sent to
    sealed: str = ""  # secrets that were typed
    kept: Json = {}  # noqa: RUF012 (no one changes it)  # what else the form contains
    shown: Mapping[str, str] = {}  # what happens to a secret, by field
    warning: str = ""

    @property
    def name(self) -> str:
        return str(self.stored.data[IDENTITY[self.resource]])

    @property
    def document(self) -> Json:
        """The whole record, as it would be. Raises NotPossible."""
        if self.resource == "signers":
            return dict(merged(self.stored.data, self.patch))
        field, names = (
            NODE_FIELDS.get(self.resource),
            [each.name for each in settable_fields(RECORD_TYPES[self.resource])],
        )
        if field and field not in self.stored.data and field not in self.patch:
            raise NotPossible(f"the stored {field} cannot be opened: set it again")
        before = {name: value for name, value in self.stored.data.items() if name in names}
        return dict(merged(before, self.patch))


class Difference(NamedTuple):
    """A field that somebody else has changed since the form was opened."""

    label: str
    before: str
    theirs: str
    mine: str
    entry: Json | None  # of the audit log: who did it, and when


def opened(inputs: Iterable[Input]) -> str:
    """What a form contains when it is opened, to be compared if somebody else changes the record meanwhile."""
    return msgspec.json.encode({each.name: each.value for each in inputs}).decode()


def values_when_opened(form: Mapping[str, str]) -> dict[str, str]:
    """Empty: the form does not say. Raises BadRequest."""
    try:
        return msgspec.json.decode(form.get("opened") or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        raise BadRequest("the form cannot be read: load the page again") from None


def followed(form: Mapping[str, str], now: Iterable[Input]) -> dict[str, str]:
    """The form, with what is stored now in each field that is as it was when the form was opened.

    Raises BadRequest.
    """
    before = values_when_opened(form)
    untouched = [
        each for each in now if each.name in before and _typed(form.get(each.name, "")) == _typed(before[each.name])
    ]
    return {**form, **{each.name: each.value for each in untouched}}


def _typed(text: str) -> str:
    """As it was typed: a browser ends lines with CR LF, and leaves out an end of line before the first one."""
    return text.replace("\r\n", "\n").removeprefix("\n")


async def save(
    request: PageRequest, resource: Resource, edit_of: Callable[[Result], Awaitable[Edit]]
) -> Reply | Sequence[str]:
    """The page that shows the changes; or, after they were confirmed there and saved, the notes about them.

    `edit_of` makes the edit of the record as it is stored. If somebody else changes that at the same moment, the
    changes are shown again. Raises RequestError.
    """
    word = resource[:-1]
    while True:
        stored = await request.call(f"get_{word}", request.identifier)
        edit = await edit_of(stored)
        if page := await _unconfirmed(request, edit):
            return page
        with suppress(OutOfDate):
            saved = await request.call(f"update_{word}", edit.name, document=edit.patch, if_match=stored.etag)
            return saved.notes


async def _unconfirmed(request: PageRequest, edit: Edit) -> Reply | None:
    """The page that shows the changes; None: they were shown, and are to be saved. Raises RequestError."""
    form = request.form
    is_same = form.get("etag", "*") in ("*", edit.stored.etag)
    if form.get("do") == "save" and is_same:
        return None
    steps = await _plan(request, edit)
    most = str(request.at_most(_MOST_ENTRIES))
    entries = (await request.call("list_audit", record=edit.name, order="newest", per_page=most)).data
    kind = edit.resource[:-1]
    changes = [] if is_same else [each for each in entries if each["action"].startswith(f"{kind}.")]
    before = {} if is_same else values_when_opened(form)
    return request.page(
        "confirm.html",
        status=200 if is_same else _CONFLICT,
        edit=edit,
        kind=kind,
        steps=steps,
        is_same=is_same,
        conflict=_conflict(before, edit, changes),
        pause=_pause(before, edit, changes),
        change=changes[0] if changes else None,
        etag=edit.stored.etag,
        opened=form.get("opened", "") if is_same else opened(edit.now),
        kept={each.name: each.value for each in edit.typed if each.kind not in ("secret", "json")} | edit.kept,
    )


async def planned(
    request: PageRequest, resource: Resource, name: str, document: Json, mistakes: Iterable[tuple[str, str]] = ()
) -> Step | None:
    """The step that makes this record. Raises MistakenRecord, with these mistakes and all others."""
    keys, record = request.services.keys, RecordDocument(resource, name, document, request.services.urls)
    questions = await request.read(lambda store: record.questions(_stored(store), keys.bound_types))
    addresses = await find_addresses(keys, questions)
    found, step = list(mistakes), None
    try:
        step, _ = await request.read(lambda store: record.step(_stored(store), addresses))
    except MistakenRecord as error:
        found += [(place or IDENTITY[resource], problem) for place, problem in error.mistakes]
    if found:
        raise MistakenRecord(found)
    return step


async def create(
    request: PageRequest, resource: Resource, document: Json, mistakes: Iterable[tuple[str, str]] = ()
) -> Result:
    """Create a record. Raises MistakenRecord, with these mistakes and all others: a taken identity is one of them."""
    identity, word, found = IDENTITY[resource], resource[:-1], list(mistakes)
    name, taken = document.get(identity, ""), (identity, f"is the {identity} of another {word}")
    if is_taken := bool(name) and await request.read(lambda store: _stored(store).exists(resource, name)):
        found.append(taken)
    if is_taken or (not name and resource in _GENERATED):  # planned under another name: it must not change what exists
        name = new_identifier()
    await planned(request, resource, name, document | ({identity: name} if name else {}), found)
    try:
        return await request.call(f"create_{word}", document=document)
    except RecordExists:  # outside the scope of the session, or made at this moment
        raise MistakenRecord([taken]) from None


def _stored(store: Store) -> Stored:
    return Stored(store.database.read, store.vault)


async def _plan(request: PageRequest, edit: Edit) -> list[Json]:
    if edit.resource == "signers":
        labels = (shown_labels(each.get("labels") or UNSET) for each in (edit.stored.data, edit.document))
        changes = (FieldChange("labels", *labels),)
        step = Step("change", "signers", edit.name, fields=changes) if changes[0].before != changes[0].after else None
    else:
        step = await planned(request, edit.resource, edit.name, edit.document)
    fields = worded([each._asdict() for each in (step.fields if step else ())], edit.now, edit.typed, edit.shown)
    return [{"action": step.action, "kind": step.resource[:-1], "name": step.name, "fields": fields}] if step else []


def worded(
    fields: Iterable[Json], now: Iterable[Input], typed: Iterable[Input], shown: Mapping[str, str] | None = None
) -> list[Json]:
    """Changed fields in the words of a form: labels, and amounts in the operator's units beside those in Wei."""
    before, after = ({each.name: each for each in inputs} for inputs in (now, typed))
    return [_field(each, before, after, shown or {}) for each in fields]


def _field(field: Json, now: Mapping[str, Input], typed: Mapping[str, Input], shown: Mapping[str, str]) -> Json:
    name = field["name"]
    if name in shown:
        return {"name": label_of(name), "before": "", "after": shown[name]}
    return {
        "name": label_of(name),
        "before": _amount(now.get(name), field["before"]),
        "after": _amount(typed.get(name), field["after"]),
    }


def _amount(field: Input | None, text: str) -> str:
    if field is None or field.kind != "amount" or not text.isdigit():
        return text
    amount = text_of(field, int(text))
    return amount if amount.endswith(" wei") or text == "0" else f"{amount} ({int(text):,} wei)"


def _conflict(before: Mapping[str, str], edit: Edit, changes: Sequence[Json]) -> list[Difference]:
    """What somebody else has changed, in the order of the form. `changes`: entries of the audit log, newest first."""
    now, typed = ({each.name: each.value for each in inputs} for inputs in (edit.now, edit.typed))
    names = [each for each in dict.fromkeys([*now, *before]) if before and each != _PAUSED]
    return [
        Difference(label_of(name), was, theirs, typed.get(name, ""), _newest(changes, name))
        for name, was, theirs in ((name, before.get(name, ""), now.get(name, "")) for name in names)
        if was != theirs
    ]


def _pause(before: Mapping[str, str], edit: Edit, changes: Sequence[Json]) -> Json | None:
    """The entry of the pause, or of its end, since the form was opened. None: there was none."""
    now = next((each.value for each in edit.now if each.name == _PAUSED), "")
    return _newest(changes, _PAUSED) if before and before.get(_PAUSED, "") != now else None


def _newest(changes: Sequence[Json], name: str) -> Json | None:
    """The newest entry that changed a field: of one in a list, such as `rpc_urls[0].url`, the list."""
    field = name.partition("[")[0]
    return next((each for each in changes if field in (each.get("after") or ())), None)
