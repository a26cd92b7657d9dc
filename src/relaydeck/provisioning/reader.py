"""Reads a record from a table, guided by the declared fields of its type."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import settable_fields
from relaydeck.provisioning.json_objects import read_object
from relaydeck.provisioning.mistakes import Mistake, kind_of, listed, suggestion
from relaydeck.provisioning.references import Missing
from relaydeck.provisioning.table import TEXT_OR_REFERENCE, Table
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.web_addresses import shown_address

Values = dict[str, Any]
_DIGITS = re.compile(r"[0-9]{1,1000}")


class Partial(NamedTuple):
    """A nested record that cannot be built yet, because a reference in it leads nowhere."""

    record: type[msgspec.Struct]
    values: Values

    @property
    def fields(self) -> tuple[Field, ...]:
        return settable_fields(self.record)


def missing_in(value: Any) -> Iterator[Mistake]:
    """Every reference in a value that leads nowhere."""
    if isinstance(value, Missing):
        yield Mistake(value.place, value.why)
    elif isinstance(value, Partial):
        yield from (each for inner in value.values.values() for each in missing_in(inner))
    elif isinstance(value, tuple):
        yield from (each for inner in value for each in missing_in(inner))


def may_be(value: Any, stored: Any) -> bool:
    """Whether a value with references that lead nowhere does not differ from the stored one in any known part."""
    if isinstance(value, Missing):
        return stored is not UNSET
    if isinstance(value, msgspec.Struct):
        value = Partial(type(value), msgspec.structs.asdict(value))
    if isinstance(value, Partial):
        return isinstance(stored, value.record) and all(_may_be_field(each, value, stored) for each in value.fields)
    if isinstance(value, tuple) and isinstance(stored, tuple):
        return len(value) == len(stored) and all(may_be(*pair) for pair in zip(value, stored, strict=True))
    return bool(value == stored)


def _may_be_field(field: Field, value: Partial, stored: Any) -> bool:
    return may_be(value.values.get(field.name, field.default), getattr(stored, field.name))


def read_values(table: Table, record: type[msgspec.Struct], *, key: str = "", sealed: bool = False) -> Values:
    """The given fields of a record. `key`: a field that stands outside the table, as its name."""
    values = {
        each.name: read_field(table, each, sealed=sealed or bool(each.traits.sealed_as))
        for each in settable_fields(record)
        if each.name != key
    }
    table.close()
    return {name: value for name, value in values.items() if value is not UNSET}


def read_field(table: Table, field: Field, *, sealed: bool = False) -> Any:
    """The value of a field; UNSET when it is absent or a mistake. URLs and parts of sealed values may be references."""
    required = field.required and not field.traits.generated
    if field.type is Secret:
        return _read_secret(table, field, required, sealed)
    if field.type is msgspec.Raw:
        return read_object(table, field.name)
    if field.is_list or field.record or field.variants:
        return _read_bounded(table, field, sealed)
    if field.type is str and (sealed or (is_address(field) and table.has_reference(field.name))):
        return _read_sealed_text(table, field, required)
    return _read_scalar(table, field, required)


def is_address(field: Field) -> bool:
    """Whether a field is a URL, which may contain a key."""
    return field.form is not None and field.form.show is shown_address


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


def _read_scalar(table: Table, field: Field, required: bool) -> Any:
    if field.form is None and field.type is bool:
        return table.typed(field.name, bool, expected_value(field), required=required)
    if field.form is None and field.type is int:
        return _read_integer(table, field, required)
    text = table.typed(field.name, str, expected_value(field), required=required)
    return UNSET if text is UNSET else _checked(table, field, text)


def _checked(table: Table, field: Field, text: str) -> Any:
    problem = field.check(text) if field.check else ""
    if field.longest is not None and len(text) > field.longest:
        problem = f"must have at most {field.longest} characters"
    if field.choices and text not in field.choices:
        problem = f"expected {expected_value(field)}{suggestion(text, field.choices)}"
    if problem:
        table.note(field.name, problem)
        return UNSET
    return field.form.parse(text) if field.form else text


def _read_integer(table: Table, field: Field, required: bool) -> Any:
    """An integer without an upper bound may also be digits in a string: many TOML writers stop at 64 bits."""
    value = table.take(field.name, expected_value(field), required=required)
    if isinstance(value, str) and field.maximum is None and _DIGITS.fullmatch(value):
        value = int(value)
    if value is UNSET:
        return UNSET
    if type(value) is not int:
        table.note(field.name, f"expected {expected_value(field)}, found {kind_of(value)}")
    elif not _is_within(field, value):
        table.note(field.name, f"expected {expected_value(field)}")
    else:
        return value
    return UNSET


def _is_within(field: Field, value: int) -> bool:
    return (field.minimum is None or value >= field.minimum) and (field.maximum is None or value <= field.maximum)


def _read_sealed_text(table: Table, field: Field, required: bool) -> Any:
    value = table.secret(field.name, required=required)
    return _checked(table, field, value.reveal()) if isinstance(value, Secret) else value


def _read_secret(table: Table, field: Field, required: bool, sealed: bool) -> Any:
    """One inside a sealed value may be left out: as no response contains it, that means the stored one."""
    if required and sealed and not table.has(field.name):
        table.take(field.name, "")
        return Missing(table.at(field.name), "is missing")
    value = table.secret(field.name, required=required)
    if isinstance(value, Secret) and (problem := _secret_problem(field, value.reveal())):
        table.note(field.name, problem)
        return UNSET
    return value


def _secret_problem(field: Field, value: str) -> str:
    if len(value) > LONGEST_SECRET:
        return f"must have at most {LONGEST_SECRET} characters"
    return field.check(value) if field.check else ""


def _read_bounded(table: Table, field: Field, sealed: bool) -> Any:
    """The length is checked first: reading each entry of a list that is refused anyway takes time."""
    if field.longest is not None and table.count(field.name) > field.longest:
        table.take(field.name, "")
        table.note(field.name, f"must have at most {field.longest} entries")
        return UNSET
    return _read_nested(table, field, sealed)


def _read_nested(table: Table, field: Field, sealed: bool) -> Any:
    if not table.has(field.name) and not field.required:
        table.take(field.name, "")
        return UNSET
    if field.traits.keyed_by:
        return _read_keyed(table, field)
    if field.record and field.is_list:
        return _present(_read_record(each, field.record, sealed=sealed) for each in table.tables(field.name))
    if field.is_list:
        return _read_items(table, field)
    inner = table.table(field.name, required=True)
    if inner is None:
        return UNSET
    return _read_record(inner, field.record, sealed=sealed) if field.record else _read_variant(table, inner, field)


def _read_items(table: Table, field: Field) -> Any:
    items = table.items(field.name)
    if items is None:
        return UNSET
    entries = [msgspec.structs.replace(field.item, name=each) for each in items.names()]
    return _present(_read_scalar(items, each, required=True) for each in entries)


def _present(values: Iterator[Any]) -> tuple[Any, ...]:
    return tuple(value for value in values if value is not UNSET)


def _read_record(
    table: Table, record: type[msgspec.Struct], *, key: str = "", name: str = "", sealed: bool = False
) -> Any:
    """A nested record: built, Partial, or UNSET when there is a mistake in it."""
    seen = len(table.mistakes)
    values = ({key: name} if key else {}) | read_values(table, record, key=key, sealed=sealed)
    if len(table.mistakes) > seen:
        return UNSET
    return Partial(record, values) if any(missing_in(tuple(values.values()))) else record(**values)


def _read_keyed(table: Table, field: Field) -> Any:
    """A list of records that documents write as a table, by one of their fields."""
    inner, record, key = table.table(field.name), field.record, field.traits.keyed_by
    if inner is None or record is None:
        return UNSET
    check = next(each.check for each in fields_of(record) if each.name == key)
    for name in inner.names():
        if check and (problem := check(name)):
            inner.note(name, f"the {key} {problem}")
    entries = [(name, entry) for name in inner.names() if (entry := inner.table(name)) is not None]
    return _present(_read_record(entry, record, key=key, name=name) for name, entry in entries)


def _read_variant(table: Table, inner: Table, field: Field) -> Any:
    """One of several record types, recognised by the required fields that only it has."""
    marks = {each: _marks(each, field.variants) for each in field.variants}
    given = {name for each in marks.values() for name in each if inner.has(name)}
    for record, own in marks.items():
        if given == own:
            return _read_record(inner, record)
    table.note(field.name, f"expected one of {_outlines(field)}")
    return UNSET


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
