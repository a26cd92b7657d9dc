"""Shows what saving a form would change, before it is saved: one page for every kind of record.

A form that is sent leads to this page, whose buttons send it again: to save exactly what is shown, or to return to the
form. The changes are planned as those of an apply file with this record. What somebody else has changed since the form
was opened is shown, too: as it was, as it is and by whom, and as it was typed. A field that was not touched in the form
follows what is stored, so that saving takes back nobody's change unseen.

Plans, proposals and audit entries are shown in the same words: the labels of forms, and amounts in their units.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.formats import exact_amount
from relaydeck.console.forms import Input, in_coin, inputs_of, label_of, text_of
from relaydeck.console.page_request import PageRequest
from relaydeck.errors import BadRequest, MistakenRecord, NotPossible, OutOfDate, RecordExists
from relaydeck.http.pipeline import Reply
from relaydeck.identifiers import new_identifier
from relaydeck.networks.model import FeeToken, Network
from relaydeck.notifications.model import Notification
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, Resource, settable_fields
from relaydeck.provisioning.document import RecordDocument, merged
from relaydeck.provisioning.export import keyed_documents
from relaydeck.provisioning.plan import FieldChange, Step, shown_labels
from relaydeck.provisioning.planner import NODE_FIELDS
from relaydeck.provisioning.stored import Stored
from relaydeck.quantities import parse_wei
from relaydeck.relayers.model import Relayer
from relaydeck.signers.known_addresses import find_addresses
from relaydeck.store.open_store import Store
from relaydeck.store.rows import in_list

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
    kind = edit.resource[:-1]
    asked: Json = {"action": kind, "record": edit.name, "order": "newest", "per_page": most}
    changes = [] if is_same else (await request.call("list_audit", **asked)).data
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
    """Changed fields in the words of a form: labels, and amounts in the operator's units, with Wei as their titles."""
    before, after = ({each.name: each for each in inputs} for inputs in (now, typed))
    return [words for each in fields for words in _words(each, before, after, shown or {})]


def _words(
    field: Json, now: Mapping[str, Input], typed: Mapping[str, Input], shown: Mapping[str, str]
) -> Iterator[Json]:
    name, before, after = (field[each] for each in ("name", "before", "after"))
    if name in shown:
        yield {"name": label_of(name), "before": "", "after": shown[name]}
    elif name.partition(".")[0] == "fee_tokens" and (tokens := _both_tokens(before, after)):
        yield from _token_words(*tokens, nothing="" if "" in (before, after) else _UNSET)
    else:
        yield {
            "name": label_of(name),
            "before": _value(now.get(name), before),
            "after": _value(typed.get(name), after),
        }


def _value(field: Input | None, value: Any) -> Any:
    """A value as it is shown. That of an audit entry is JSON, that of a plan is text."""
    if field is not None and field.kind == "amount" and str(value).isdigit():
        return exact_amount(text_of(field, int(value)), int(value))
    if field is not None and field.kind in ("labels", "lines", "nodes"):
        return _listed(_decoded(value))
    return value


def _decoded(value: Any) -> Any:
    """A proposal has lists and tables as JSON text."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in ("[", "{") else value
    except msgspec.DecodeError:
        return value


def _listed(value: Any) -> Any:
    """A list or a table as a plan writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_listed_item, value))}]"
    return ", ".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, dict) else value


def _listed_item(value: Any) -> str:
    return f"{value['url']} weight {value['weight']}" if isinstance(value, dict) else str(value)


def _both_tokens(before: Any, after: Any) -> tuple[dict[str, Json], dict[str, Json]] | None:
    """Fee tokens by symbol, as documents write them. None: one of the values does not have them whole."""
    values = [[] if each in ("", _UNSET) else _decoded(each) for each in (before, after)]
    lists = [each if isinstance(each, list) else [each] for each in values]
    try:
        old, new = (msgspec.convert(each, tuple[FeeToken, ...], strict=False) for each in lists)
    except msgspec.ValidationError:
        return None
    return keyed_documents(old, "symbol"), keyed_documents(new, "symbol")


def _token_words(before: dict[str, Json], after: dict[str, Json], *, nothing: str) -> Iterator[Json]:
    """One line for a token that is added or removed, and one for each part that changes of another."""
    if before == after or not (before or after):
        yield {"name": label_of("fee_tokens")} | _pair(f"[{', '.join(each)}]" for each in (before, after))
    for symbol in dict.fromkeys([*before, *after]):
        was, now = (_parts(each.get(symbol, {})) for each in (before, after))
        if was and now:
            for part in (each for each in dict.fromkeys([*was, *now]) if was.get(each) != now.get(each)):
                values = _pair(each.get(part, nothing) for each in (was, now))
                yield {"name": f"Fee token {symbol}: {part}"} | values
        else:
            whole = (", ".join(f"{part} {value}" for part, value in each.items()) for each in (was, now))
            yield {"name": f"Fee token {symbol}"} | _pair(each or nothing for each in whole)


def _pair(values: Iterable[Any]) -> Json:
    return dict(zip(("before", "after"), values, strict=True))


def _parts(token: Json) -> dict[str, str]:
    """The parts of a token and of its rate, in words."""
    parts = {name: value for name, value in token.items() if name != "rate"} | token.get("rate", {})
    return {
        name.replace("_", " "): value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in parts.items()
    }


def _conflict(before: Mapping[str, str], edit: Edit, changes: Sequence[Json]) -> list[Difference]:
    """What somebody else has changed, in the order of the form. `changes`: entries of the audit log, newest first."""
    now, typed = ({each.name: each.value for each in inputs} for inputs in (edit.now, edit.typed))
    inputs = {each.name: each for each in edit.typed}
    names = [each for each in dict.fromkeys([*now, *before]) if before and each != _PAUSED]
    return [
        Difference(label_of(name), was, theirs, mine, _newest(changes, name))
        for name in names
        for was, theirs, mine in [[_in_unit(inputs.get(name), each.get(name, "")) for each in (before, now, typed)]]
        if was != theirs
    ]


def _in_unit(field: Input | None, text: str) -> str:
    """The text of a field; an amount as it is written when it is stored: one that is typed may have no unit."""
    wei = parse_wei(text, field.unit, field.coin) if field is not None and field.kind == "amount" else None
    return text if field is None or wei is None else text_of(field, wei)


def _pause(before: Mapping[str, str], edit: Edit, changes: Sequence[Json]) -> Json | None:
    """The entry of the pause, or of its end, since the form was opened. None: there was none."""
    now = next((each.value for each in edit.now if each.name == _PAUSED), "")
    return _newest(changes, _PAUSED) if before and before.get(_PAUSED, "") != now else None


def _newest(changes: Sequence[Json], name: str) -> Json | None:
    """The newest entry that changed a field: of one in a list, such as `rpc_urls[0].url`, the list."""
    field = name.partition("[")[0]
    return next((each for each in changes if field in (each.get("after") or ())), None)


# -- The steps of plans, and the entries of the audit log --

_UNSET = "unset"
_COINS = "coins"  # of a network that is not known any more
_MOST_NAMED = 500  # in one statement
_SIDES = (("before", "after"), ("after", "before"))


class _Coins(NamedTuple):
    """The symbol of each network, and the network of each relayer."""

    symbols: Mapping[str, str] = {}
    networks: Mapping[str, str] = {}

    def of(self, relayer: str, network: str) -> str:
        """`network`: the one that the change names, if it does."""
        return self.symbols.get(network or self.networks.get(relayer, ""), _COINS)


async def worded_steps(request: PageRequest, steps: Sequence[Json]) -> list[Json]:
    """The steps of a plan or a proposal in the words of forms."""
    coins = await _read_coins(request, [each["name"] for each in steps if each["kind"] == "relayer"])

    def word() -> list[Json]:
        return [each | {"fields": _worded_change(each["kind"], each["name"], each["fields"], coins)} for each in steps]

    return await asyncio.to_thread(word)  # a plan may have many thousands


async def worded_entries(request: PageRequest, entries: Sequence[Json]) -> list[Json]:
    """Entries of the audit log with their `fields` in the words of forms."""
    kinds = [each["action"].partition(".")[0] for each in entries]
    named = zip(kinds, entries, strict=True)
    coins = await _read_coins(request, [each["record"] for kind, each in named if kind == "relayer"])
    return [
        each | {"fields": _worded_change(kind, each["record"], _facts(each), coins)}
        for kind, each in zip(kinds, entries, strict=True)
    ]


async def newest_entries(request: PageRequest, kind: str, record: str) -> list[Json]:
    """What changed a record last, and not one of another kind with the same id."""
    found = await request.call("list_audit", action=kind, record=record, order="newest", per_page="10")
    return await worded_entries(request, found.data)


def _facts(entry: Json) -> list[Json]:
    """The facts of an entry as the fields of a step."""
    before, after = entry["before"] or {}, entry["after"] or {}
    nothing = _UNSET if before and after else ""
    return [
        {"name": name} | _pair(nothing if each.get(name) is None else each[name] for each in (before, after))
        for name in dict.fromkeys([*before, *after])
    ]


def _worded_change(kind: str, record: str, fields: Sequence[Json], coins: _Coins) -> list[Json]:
    if kind != "relayer":
        return worded(fields, _inputs_of(kind), _inputs_of(kind))
    moved: Json = next((each for each in fields if each["name"] == "network"), {"before": "", "after": ""})
    now, typed = (coins.of(record, moved[each] or moved[other]) for each, other in _SIDES)
    return worded(fields, _inputs_of(kind, now), _inputs_of(kind, typed))


@lru_cache(256)
def _inputs_of(kind: str, coin: str = "") -> tuple[Input, ...]:
    if kind in ("relayer", "network"):
        return tuple(in_coin(inputs_of(Relayer if kind == "relayer" else Network), coin))
    return tuple(each for each in inputs_of(Notification) if each.name == "labels")  # those of every kind of record


async def _read_coins(request: PageRequest, relayers: Sequence[str]) -> _Coins:
    def read(store: Store) -> _Coins:
        rows, networks = store.database.read("SELECT name, native_symbol FROM networks", {}), dict[str, str]()
        for start in range(0, len(relayers), _MOST_NAMED):
            listed, values = in_list(relayers[start : start + _MOST_NAMED])
            found = store.database.read(f"SELECT id, network FROM relayers WHERE id IN ({listed})", values)
            networks |= {row.id: row.network for row in found}
        return _Coins({row.name: row.native_symbol for row in rows}, networks)

    return await request.read(read) if relayers else _Coins()
