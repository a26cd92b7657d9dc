"""Reads records from a document, guided by the declared fields of their types."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import settable_fields
from relaydeck.provisioning.mistakes import Mistake, Mistakes, kind_of, listed, place_in, suggestion
from relaydeck.provisioning.references import Reference, Resolve, as_reference, reference_problem
from relaydeck.scope import label_problem
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.web_addresses import shown_address

TEXT_OR_REFERENCE = 'a string, { env = "NAME" } or { file = "path" }'
_MOST_UNKNOWN = 20  # keys of one table that are named: finding similar names takes time
_DIGITS = re.compile(r"[0-9]{1,1000}")
Content = dict[str, Any]
Values = dict[str, Any]


class Missing(Mistake):
    """A reference that leads nowhere. It is no mistake in a stored record, which keeps the secret it has."""


class Partial(NamedTuple):
    """A nested record that cannot be built yet, because a reference in it leads nowhere."""

    record: type[msgspec.Struct]
    values: Values


def missing_in(value: Any) -> Iterator[Missing]:
    """Every reference in a value that leads nowhere."""
    if isinstance(value, Missing):
        yield value
    elif isinstance(value, Partial):
        yield from missing_in(tuple(value.values.values()))
    elif isinstance(value, tuple):
        yield from (each for inner in value for each in missing_in(inner))


def may_be(value: Any, stored: Any) -> bool:
    """Whether a value with references that lead nowhere does not differ from the stored one in any known part."""
    if isinstance(value, Missing):
        return stored is not UNSET
    if isinstance(value, msgspec.Struct):
        value = Partial(type(value), msgspec.structs.asdict(value))
    if isinstance(value, Partial):
        fields = {each.name: value.values.get(each.name, each.default) for each in settable_fields(value.record)}
        return isinstance(stored, value.record) and all(may_be(fields[name], getattr(stored, name)) for name in fields)
    if isinstance(value, tuple) and isinstance(stored, tuple):
        return len(value) == len(stored) and all(may_be(*pair) for pair in zip(value, stored, strict=True))
    return bool(value == stored)


class Reader:
    """Notes every mistake. A value that is absent or mistaken is UNSET."""

    def __init__(self, resolve: Resolve | None) -> None:
        """`resolve`: None if the document must not contain references."""
        self.mistakes = Mistakes()
        self._resolve = resolve

    @property
    def reads_file(self) -> bool:
        """Whether it is a whole file, and not the document of one record."""
        return self._resolve is not None

    def note(self, place: str, problem: str) -> UnsetType:
        self.mistakes.append(Mistake(place, problem))
        return UNSET

    def is_table(self, value: Any, place: str) -> bool:
        if type(value) is not dict:
            self.note(place, f"expected a table, found {kind_of(value)}")
        return type(value) is dict

    def values(
        self, content: Content, place: str, fields: Sequence[Field], *, others: Sequence[str] = (), sealed: bool = False
    ) -> Values:
        """The given fields of a record. `others`: keys that are not fields of these."""
        values = {each.name: self._field(each, content, f"{place}.{each.name}", sealed) for each in fields}
        self.note_unknown(content, place, [*values, *others], fields)
        return {name: value for name, value in values.items() if value is not UNSET}

    def note_unknown(self, content: Content, place: str, known: Sequence[str], fields: Sequence[Field] = ()) -> None:
        """A mistyped key must not be lost silently. `fields`: those in their records are suggested, too."""
        unknown = [key for key in content if key not in known]
        names = [*known, *(_names_inside(fields) if unknown else ())]
        for key in unknown[:_MOST_UNKNOWN]:
            self.note(place_in(place, key), f"is not a known key{suggestion(key, names)}")
        if len(unknown) > _MOST_UNKNOWN:
            self.note(place, f"has {len(unknown) - _MOST_UNKNOWN} more unknown keys")

    def _field(self, field: Field, content: Content, place: str, sealed: bool) -> Any:
        """URLs and parts of sealed values may be references."""
        sealed = sealed or bool(field.traits.sealed_as)
        if field.name in content:
            return self._value(field, content[field.name], place, sealed)
        if not field.required or field.traits.generated:
            return UNSET
        if sealed and field.type is Secret:
            return Missing(place, "is missing")  # as no response contains it, that means the stored one
        return self.note(place, f"is missing; expected {_expected(field, sealed)}")

    def _value(self, field: Field, value: Any, place: str, sealed: bool) -> Any:
        if value is None:  # which only JSON has
            return self.note(place, "must not be null")
        if field.type is msgspec.Raw:
            return self._object(value, place)
        if field.is_table:
            return self._labels(field, value, place)
        if field.is_list or field.record or field.variants:
            return self._nested(field, value, place, sealed)
        if field.form is None and field.type is int:
            return self._integer(field, value, place)
        if field.form is None and field.type is bool:
            is_flag = isinstance(value, bool)
            return value if is_flag else self.note(place, f"expected true or false, found {kind_of(value)}")
        return self._text(field, value, place, sealed)

    def _integer(self, field: Field, value: Any, place: str) -> Any:
        """One without an upper bound may also be digits in a string: many TOML writers stop at 64 bits."""
        if isinstance(value, str) and field.maximum is None and _DIGITS.fullmatch(value):
            value = int(value)
        if type(value) is not int:
            return self.note(place, f"expected {expected_value(field)}, found {kind_of(value)}")
        is_below = field.minimum is not None and value < field.minimum
        if is_below or (field.maximum is not None and value > field.maximum):
            return self.note(place, f"expected {expected_value(field)}")
        return value

    def _text(self, field: Field, value: Any, place: str, sealed: bool) -> Any:
        may_refer = field.type is Secret or (field.type is str and (sealed or is_address(field)))
        if may_refer and (reference := as_reference(value)):
            resolved = self._resolved(reference, place)
            if not isinstance(resolved, Secret):
                return resolved
            value = resolved.reveal()
        if type(value) is not str:
            return self.note(place, f"expected {_expected(field, sealed)}, found {kind_of(value)}")
        if problem := _text_problem(field, value):
            return self.note(place, problem)
        if field.type is Secret:
            return Secret(value)
        return field.form.parse(value) if field.form else value

    def _resolved(self, reference: Reference, place: str) -> Secret | Missing | UnsetType:
        if self._resolve is None:
            return self.note(place, "must be a string: references are for files")
        if problem := reference_problem(reference):
            return self.note(place, problem)
        found = self._resolve(reference)
        return found if isinstance(found, Secret) else Missing(place, found)

    def _object(self, value: Any, place: str) -> Any:
        """A nested JSON object, which is stored as it is, from a table or from a reference to its JSON text."""
        if reference := as_reference(value):
            resolved = self._resolved(reference, place)
            return self._from_json(resolved.reveal(), place) if isinstance(resolved, Secret) else resolved
        if not isinstance(value, dict):
            return self.note(place, f"expected a table, or a reference to JSON text; found {kind_of(value)}")
        if problem := _not_json(value):
            return self.note(place, f"contains {problem}, which JSON cannot express")
        return msgspec.Raw(msgspec.json.encode(value))

    def _from_json(self, text: str, place: str) -> Any:
        try:
            msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError):
            return self.note(place, "the text it refers to is not a JSON object")
        return msgspec.Raw(text.strip().encode())

    def _nested(self, field: Field, value: Any, place: str, sealed: bool) -> Any:
        """The length is checked first: reading each entry of a list that is refused anyway takes time."""
        if field.longest is not None and isinstance(value, list | dict) and len(value) > field.longest:
            return self.note(place, f"must have at most {field.longest} entries")
        if field.is_list and not field.traits.keyed_by:
            return self._list(field, value, place, sealed)
        if not self.is_table(value, place):
            return UNSET
        if field.traits.keyed_by:
            return self._keyed(field, value, place)
        if field.variants:
            return self._variant(field, value, place)
        assert field.record is not None
        return self._record(field.record, value, place, sealed=sealed)

    def _labels(self, field: Field, value: Any, place: str) -> Any:
        if not self.is_table(value, place):
            return UNSET
        if field.longest is not None and len(value) > field.longest:
            return self.note(place, f"must have at most {field.longest} entries")
        for key, text in value.items():
            if problem := label_problem(key):
                self.note(place_in(place, key), f"is not the key of a label, which {problem}")
            elif type(text) is not str or (problem := label_problem(text)):
                self.note(place_in(place, key), problem or f"expected a string, found {kind_of(text)}")
        return value or UNSET

    def _list(self, field: Field, value: Any, place: str, sealed: bool) -> Any:
        if type(value) is not list:
            items = " of tables" if field.record else ""
            return self.note(place, f"expected an array{items}, found {kind_of(value)}")
        read = [self._value(field.item, each, f"{place}[{number}]", sealed) for number, each in enumerate(value)]
        return tuple(each for each in read if each is not UNSET)

    def _record(
        self,
        record: type[msgspec.Struct],
        content: Content,
        place: str,
        *,
        sealed: bool = False,
        known: Values | None = None,
    ) -> Any:
        """A nested record: built, Partial, or UNSET when there is a mistake in it. `known`: fields outside of it."""
        seen = len(self.mistakes)
        fields = [each for each in settable_fields(record) if each.name not in (known or {})]
        values = (known or {}) | self.values(content, place, fields, sealed=sealed)
        if len(self.mistakes) > seen:
            return UNSET
        return Partial(record, values) if any(missing_in(tuple(values.values()))) else record(**values)

    def _keyed(self, field: Field, content: Content, place: str) -> Any:
        """A list of records that documents write as a table, by one of their fields."""
        record, key = field.record, field.traits.keyed_by
        assert record is not None
        check = next(each.check for each in fields_of(record) if each.name == key)
        read = []
        for name, value in content.items():
            at = place_in(place, name)
            if check and (problem := check(name)):
                self.note(at, f"the {key} {problem}")
            if self.is_table(value, at):
                read.append(self._record(record, value, at, known={key: name}))
        return tuple(each for each in read if each is not UNSET)

    def _variant(self, field: Field, content: Content, place: str) -> Any:
        """One of several record types, recognised by the required fields that only it has."""
        marks = {each: _marks(each, field.variants) for each in field.variants}
        given = {name for each in marks.values() for name in each if name in content}
        for record, own in marks.items():
            if given == own:
                return self._record(record, content, place)
        return self.note(place, f"expected one of {_outlines(field)}")


def _text_problem(field: Field, text: str) -> str:
    if field.choices and text not in field.choices:
        return f"expected {expected_value(field)}{suggestion(text, field.choices)}"
    longest = LONGEST_SECRET if field.type is Secret else field.longest
    if longest is not None and len(text) > longest:
        return f"must have at most {longest} characters"
    return field.check(text) if field.check else ""


def _not_json(value: Any) -> str:
    """The first part of a TOML value that JSON cannot express; empty when there is none."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next((found for part in parts if (found := _not_json(part))), "")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "an infinite number or nan"
    return "" if value is None or isinstance(value, str | bool | int | float) else "a date or time"


def is_address(field: Field) -> bool:
    """Whether a field is a URL, which may contain a key."""
    return field.form is not None and field.form.show is shown_address


def _expected(field: Field, sealed: bool) -> str:
    return TEXT_OR_REFERENCE if sealed and field.type is str else expected_value(field)


def expected_value(field: Field) -> str:
    """What a field accepts, in words."""
    if field.form is not None:
        return field.form.expected
    if field.choices:
        return f'"{field.choices[0]}"' if len(field.choices) == 1 else f"one of {listed(field.choices)}"
    if field.type is Secret:
        return TEXT_OR_REFERENCE
    return {bool: "true or false", int: _expected_integer(field), str: "a string"}.get(field.type, "a table")


def _expected_integer(field: Field) -> str:
    if field.minimum is None:
        return "an integer"
    if field.maximum is None:
        return f"an integer of at least {field.minimum}"
    return f"an integer from {field.minimum} to {field.maximum}"


def _marks(record: type[msgspec.Struct], variants: tuple[type[msgspec.Struct], ...]) -> set[str]:
    return set(_required(record)).difference(*(_required(each) for each in variants if each is not record))


def _required(record: type[msgspec.Struct]) -> list[str]:
    return [each.name for each in fields_of(record) if each.required]


def _outlines(field: Field) -> str:
    return listed([f"{{ {', '.join(_samples(each))} }}" for each in field.variants])


def _samples(record: type[msgspec.Struct]) -> Iterator[str]:
    for field in fields_of(record):
        if field.required:
            form = field.item.form if field.is_list else field.form
            sample = f'"{form.sample if form else "…"}"'
            yield f"{field.name} = {f'[{sample}]' if field.is_list else sample}"


def _names_inside(fields: Sequence[Field]) -> Iterator[str]:
    for each in fields:
        if each.record and not each.is_list and not each.traits.keyed_by:
            yield from (f"{each.name}.{inner.name}" for inner in settable_fields(each.record))
