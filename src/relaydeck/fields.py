"""Field declarations: what is known about a field of a record, next to its type.

A record is a msgspec Struct with fields of the form `Annotated[type, field("Description.", example=…)]`. Everything
else is derived from the Struct: wire decoding, both OpenAPI documents, database columns, admin views, audit entries
and apply files. A check that belongs to a kind of value, such as an identifier, is part of a named type
(`Identifier`, `WebAddress`, `EvmAddress`) and applies to every field of that type.
"""

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType
from msgspec.structs import FieldInfo

from relaydeck.basis import Basis

# Returns what is wrong with a value, or an empty string.
Check = Callable[[str], str]
BASIS = "x-relaydeck-basis"  # in the OpenAPI document: the words that each part rests on


class TextForm(NamedTuple):
    """How a kind of value is written in documents for people: apply files, admin requests and command arguments."""

    expected: str = "a string"
    parse: Callable[[str], Any] = str  # called after the check
    write: Callable[[Any], str] = str
    show: Callable[[Any], str] = str  # the part that may appear in logs and plans
    sample: str = "…"


class Traits(NamedTuple):
    """What a declaration adds to the type, the description and the example."""

    basis: Basis | None  # on whose word it rests; None: an addition of this service, which /api/v1 never has
    read_only: bool = False  # the service sets it, a request cannot
    write_only: bool = False  # a request sets it, no response contains it; both: it is only stored, and not described
    generated: bool = False  # the service fills it in when a request leaves it out
    sealed_as: str = ""  # the database column that holds it encrypted
    stored: bool = True  # whether it has a column
    keyed_by: str = ""  # documents write the list as a table, by this field of its records
    refers_to: str = ""  # the resource whose record it names
    given_by: str = ""  # the field that gives it a value when a request leaves it out

    @property
    def own(self) -> bool:
        return self.basis is None

    @property
    def only_stored(self) -> bool:
        return self.read_only and self.write_only


class Field(msgspec.Struct, frozen=True, dict=True):
    """One declared field of a record. What follows from its type is computed once: a large file has many values."""

    name: str
    type: Any  # without Annotated and without UnsetType
    default: Any  # NODEFAULT for a required field
    description: str
    example: Any  # UNSET: see `example_of`
    check: Check | None
    traits: Traits
    form: TextForm | None = None  # None: the value is written as its type
    minimum: float | None = None
    maximum: float | None = None
    longest: int | None = None  # characters of a text, entries of a list
    unit: str = ""  # of an amount in Wei, what people write it in: `coin` or `gwei`

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT

    @property
    def may_be_unset(self) -> bool:
        return self.default is UNSET

    @cached_property
    def record(self) -> type[msgspec.Struct] | None:
        """The Struct of a nested record, or of each item in a list of records."""
        item = get_args(self.type)[0] if get_origin(self.type) is tuple else self.type
        bare = bare_type(item)
        return bare if isinstance(bare, type) and issubclass(bare, msgspec.Struct) else None

    @cached_property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @cached_property
    def is_table(self) -> bool:
        """Whether its value is a table of texts."""
        return get_origin(self.type) is dict

    @cached_property
    def item(self) -> "Field":
        """The items of a list, as if they were a required field."""
        return _described(self.name, get_args(self.type)[0], NODEFAULT)

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The values of a Literal."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @cached_property
    def variants(self) -> tuple[type[msgspec.Struct], ...]:
        """The records of a union of records, of which a value is one."""
        kinds = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else ()
        return tuple(each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct))


class Shape(msgspec.Struct, frozen=True):
    """Base of what commands print with `--json` where the admin API has no such record.

    `make docs` describes each in `docs/reference/json.md`.
    """


def about(description: str) -> Meta:
    """Describes a field of a shape."""
    return Meta(description=description)


def field(
    description: str,
    *,
    basis: Basis | None,
    example: Any = UNSET,
    schema: dict[str, Any] | None = None,
    **given: Any,
) -> Meta:
    """Declare a field with what is given of its `Traits`. `schema`: more keywords for its JSON schema."""
    traits = Traits(basis, **given)
    keywords: dict[str, Any] = {} if basis is None else {BASIS: basis.parts()}
    keywords |= {"readOnly": True} if traits.only_stored else {}
    keywords |= {"writeOnly": True} if traits.write_only else {}
    return Meta(
        description=description,
        examples=None if example is UNSET else [example],
        extra_json_schema=keywords | (schema or {}) or None,
        extra={"traits": traits},
    )


# Declares a field that the described interface does not have.
own_field = partial(field, basis=None)


def value_type(check: Check, form: TextForm | None = None, **schema: Any) -> Meta:
    """Annotate a named type of value with its check, its text form and the JSON schema keywords that describe it."""
    return Meta(extra_json_schema=schema or None, extra={"check": check, "form": form})


@cache
def fields_of(record: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The declared fields of a record, in order."""
    return tuple(_declared(info) for info in msgspec.structs.fields(record))


def _declared(info: FieldInfo) -> Field:
    default = info.default if info.default_factory is NODEFAULT else info.default_factory()
    return _described(info.name, info.type, default)


def _described(name: str, annotated: Any, default: Any) -> Field:
    metas = list(_metas(annotated))
    extra: dict[str, Any] = {}
    for meta in metas:
        extra |= meta.extra or {}
    examples = [meta.examples[0] for meta in metas if meta.examples]
    return Field(
        name=name,
        type=bare_type(annotated),
        default=default,
        description=next((meta.description for meta in metas if meta.description), ""),
        example=examples[0] if examples else UNSET,
        check=extra.get("check"),
        traits=extra.get("traits", Traits(basis=None)),
        form=extra.get("form"),
        minimum=next((meta.ge for meta in metas if meta.ge is not None), None),
        maximum=next((meta.le for meta in metas if meta.le is not None), None),
        longest=next((meta.max_length for meta in metas if meta.max_length is not None), None),
        unit=extra.get("unit", ""),
    )


def _metas(annotated: Any) -> Iterator[Meta]:
    """Every Meta of a type, from the outside in; that of a list's items is not one of the list."""
    if get_origin(annotated) is Annotated:
        inner, *metas = get_args(annotated)
        yield from (meta for meta in metas if isinstance(meta, Meta))
        yield from _metas(inner)
    elif get_origin(annotated) in (Union, UnionType):
        for each in get_args(annotated):
            yield from _metas(each)


def bare_type(annotated: Any) -> Any:
    """The type without Annotated and without UnsetType."""
    if get_origin(annotated) is Annotated:
        return bare_type(get_args(annotated)[0])
    if get_origin(annotated) in (Union, UnionType):
        kept = [each for each in get_args(annotated) if each is not UnsetType]
        return bare_type(kept[0]) if len(kept) == 1 else Union[tuple(kept)]  # noqa: UP007 (built at run time)
    return annotated


def invalid_field(record: msgspec.Struct) -> str:
    """The first value that fails the check of its type, as `name problem`; empty when there is none."""
    for name, check in _checks(type(record)):
        value = getattr(record, name)
        if value is not UNSET and (problem := check(value)):
            return f"{name} {problem}"
    return ""


@cache
def _checks(record: type[msgspec.Struct]) -> tuple[tuple[str, Check], ...]:
    return tuple(
        (field.name, field.check) for field in fields_of(record) if field.check is not None and field.type is str
    )


def example_of(record: type[msgspec.Struct]) -> dict[str, Any]:
    """A record built from the examples of its fields, as JSON values.

    A field that is unset by default and declares no example is left out.
    """
    examples = {field.name: _example(field) for field in fields_of(record) if not field.traits.only_stored}
    return {name: example for name, example in examples.items() if example is not UNSET}


def _example(field: Field) -> Any:
    if field.example is not UNSET:
        return field.example
    if field.record is None or field.may_be_unset:
        return UNSET if field.required or field.may_be_unset else msgspec.to_builtins(field.default)
    nested = example_of(field.record)
    return [nested] if field.is_list else nested


Unwanted = Literal["own", "write_only"]


def contract_view(value: Any) -> Any:
    """A record without the fields that the described interface does not have."""
    return _without(value, "own")


def response_view(value: Any) -> Any:
    """A record without the fields that no response contains."""
    return _without(value, "write_only")


def _without(value: Any, unwanted: Unwanted) -> Any:
    """Unwanted fields are UNSET, which msgspec does not encode."""
    if isinstance(value, tuple):
        return tuple(_without(each, unwanted) for each in value)
    if not isinstance(value, msgspec.Struct):
        return value
    names, holders = _unwanted_names(type(value), unwanted)
    if not names and not holders:
        return value
    changes: dict[str, Any] = dict.fromkeys(names, UNSET)
    for name in holders:
        changes[name] = _without(getattr(value, name), unwanted)
    return msgspec.structs.replace(value, **changes)


@cache  # a start makes a view of every relayer
def _unwanted_names(record: type[msgspec.Struct], unwanted: Unwanted) -> tuple[list[str], list[str]]:
    """The unwanted fields, and the fields with records that have such fields."""
    names = [each.name for each in fields_of(record) if getattr(each.traits, unwanted)]
    others = [each for each in fields_of(record) if each.record is not None and each.name not in names]
    return names, [each.name for each in others if each.record and any(_unwanted_names(each.record, unwanted))]
