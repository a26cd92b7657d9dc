"""The database table of a record type: columns and conversion, derived from the record's declared fields.

A value that a column can hold is stored as it is, any other as JSON text; a field declared with `sealed_as` is stored
encrypted in that column. An unset field is NULL. The audit log records the facts of a record: its fields, with secrets
replaced by what may be shown.
"""

import hashlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged
from relaydeck.fields import Field, fields_of
from relaydeck.secret import Secret, decode_secret, reveal_secret
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.sealed_columns import VERSION
from relaydeck.store.sealing import Keyring, Place
from relaydeck.store.vault import Vault

R = TypeVar("R", bound=msgspec.Struct)
Convert = Callable[[Any], Any]
StoredValues = dict[str, Any]  # of a record, by column
_PLAIN = (str, int)


Facts = dict[str, Any]
LONGEST_FACT = 1024  # bytes
_encode = msgspec.json.Encoder().encode


class Hidden(NamedTuple):
    """A value that is compared but not recorded; `shown` is recorded in its place."""

    value: Any
    shown: Any


def record_facts(record: msgspec.Struct, identity: str, *, settable_only: bool = False) -> Facts:
    """The facts of a record, from its declared fields. Those of a nested record are named `policies.min_balance`."""
    facts: Facts = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if field.name == identity or value is UNSET or (settable_only and field.traits.read_only):
            continue
        if field.traits.sealed_as:
            facts[field.name] = Hidden(value, msgspec.to_builtins([each.redacted for each in value]))
        elif isinstance(value, msgspec.Struct) and not field.may_be_unset:
            facts |= {f"{field.name}.{name}": each for name, each in record_facts(value, "").items()}
        else:
            facts[field.name] = msgspec.to_builtins(value)
    return facts


def to_json(facts: Facts) -> str:
    """The facts as JSON text."""
    return _encode({name: _shown(value) for name, value in facts.items()}).decode()


def difference(before: Facts, after: Facts) -> tuple[str, str]:
    """The facts that differ, before and after, as JSON. A hidden value that looks the same after is `changed`."""
    old: Facts = {}
    new: Facts = {}
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if was != now:
            old[name], new[name] = _shown(was), _shown(now)
            if old[name] == new[name]:
                new[name] = "changed"
    return _encode(old).decode(), _encode(new).decode()


def secret_fact(sealed: object) -> Hidden:
    """A secret: records only whether it is set. Its sealed form is compared, to notice that it changed."""
    return Hidden(sealed, None if sealed is None else "set")


def _shown(value: Any) -> Any:
    return _brief(value.shown if isinstance(value, Hidden) else value)


def _brief(value: Any) -> Any:
    """A value as it is recorded: a long one as its digest, because entries are kept for ever."""
    if value is None or (isinstance(value, str) and len(value) <= LONGEST_FACT):
        return value
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
    else:
        text = _encode(value) if isinstance(value, list | dict) else b""
    if len(text) <= LONGEST_FACT:
        return value
    return f"sha256:{hashlib.sha256(text).hexdigest()} of {len(text)} bytes"


class RecordTable(Generic[R]):
    """Converts rows that have the columns in `columns`, whatever else they have."""

    more_columns: tuple[str, ...] = ()  # for which a derived class has values in `stored_values`

    def __init__(self, name: str, record: type[R], identity: str = "id") -> None:
        self.name = name
        self.identity = identity
        self.record = record
        self._fields = tuple(field for field in fields_of(record) if field.traits.stored)
        assert self._fields == fields_of(record)[: len(self._fields)], "fields without a column come last"
        self.column_names = tuple(_column(field) for field in self._fields)
        self._stored_values = attrgetter(*self.column_names)
        self._sealed = [(at, field) for at, field in enumerate(self._fields) if field.traits.sealed_as]
        self.columns = ", ".join([*self.column_names, *([VERSION] if self._sealed else []), *self.more_columns])
        self.sealed_fields = tuple(field.name for _, field in self._sealed)
        self._openers = {field.name: _opener(field) for _, field in self._sealed}
        self._converters = [(at, _reader(field)) for at, field in enumerate(self._fields) if not _is_plain(field)]
        kept = {_column(field) for field in self._fields if field.traits.read_only or field.name == identity}
        self.changeable = tuple(column for column in self.columns.split(", ") if column not in kept)

    def place(self, identity: str, field: str, version: int) -> Place:
        return Place(self.name, identity, field, version)

    def from_row(self, row: Row, vault: Vault) -> R:
        """Raises Damaged when a sealed field does not open."""
        values = list(self._stored_values(row))
        for at, field in self._sealed:
            values[at] = self._opened(field, values[at], vault, row)
        return self._made(values)

    def find(self, read: ReadRows, vault: Vault, identity: str) -> R | None:
        """Raises Damaged when a sealed field does not open."""
        rows = read(f"SELECT {self.columns} FROM {self.name} WHERE {self.identity} = :name", {"name": identity})
        return self.from_row(rows[0], vault) if rows else None

    def without_sealed(self, row: Row) -> R:
        """The record with its sealed fields left at their defaults."""
        values = list(self._stored_values(row))
        for at, field in self._sealed:
            values[at] = field.default
        return self._made(values)

    def _opened(self, field: Field, sealed: bytes | None, vault: Vault, row: Row) -> Any:
        if sealed is None:
            return field.default
        place = self.place(getattr(row, self.identity), field.name, getattr(row, VERSION))
        return self._openers[field.name](vault.open(sealed, place))

    def _made(self, values: list[Any]) -> R:
        for at, convert in self._converters:
            values[at] = convert(values[at])
        return self.record(*values)

    def stored_facts(self, row: Row, vault: Vault, *, settable_only: bool = False) -> Facts:
        """The facts of a stored record, also of one with sealed fields that do not open."""
        try:
            return record_facts(self.from_row(row, vault), self.identity, settable_only=settable_only)
        except Damaged:
            facts = record_facts(self.without_sealed(row), self.identity, settable_only=settable_only)
            return facts | {each.name: Hidden(getattr(row, _column(each)), "damaged") for _, each in self._sealed}

    def stored_values(self, record: R, keyring: Keyring, version: int) -> StoredValues:
        """By column. `version` is the one that sealed values get: see `sealed_columns.py`."""
        identity, values = getattr(record, self.identity), {}
        for field in self._fields:
            value = getattr(record, field.name)
            if field.traits.sealed_as:
                plain, place = _to_seal(value), self.place(identity, field.name, version)
                values[_column(field)] = keyring.seal(plain, place) if plain else None
            else:
                values[_column(field)] = stored_value(field, value)
        return values | {VERSION: version} if self._sealed else values


def _to_seal(value: Any) -> bytes:
    """What to seal of a value: the text of a secret, the JSON of any other. Empty: nothing is stored."""
    if isinstance(value, Secret):
        return value.reveal().encode()
    return msgspec.json.encode(value, enc_hook=reveal_secret) if value else b""


def _opener(field: Field) -> Convert:
    if field.type is Secret:
        return lambda plain: Secret(plain.decode())
    return msgspec.json.Decoder(field.type, dec_hook=decode_secret).decode


def stored_value(field: Field, value: Any) -> Any:
    """The value of a field as its column holds it."""
    if value is UNSET:
        return None
    return value if _is_column_type(field) else msgspec.json.encode(value).decode()


def _column(field: Field) -> str:
    return field.traits.sealed_as or field.name


def _is_column_type(field: Field) -> bool:
    return field.type in (*_PLAIN, bool) or (bool(get_args(field.type)) and isinstance(get_args(field.type)[0], str))


def _is_plain(field: Field) -> bool:
    """Whether a column's value is the field's value as it is."""
    if field.traits.sealed_as:
        return True  # opened before
    return _is_column_type(field) and field.type is not bool and not field.may_be_unset


def _reader(field: Field) -> Convert:
    kind = field.type if field.type in (*_PLAIN, bool) else str
    read = kind if _is_column_type(field) else json_reader(field.type)
    if not field.may_be_unset:
        return read
    return lambda value: UNSET if value is None else read(value)


def json_reader(kind: Any) -> Convert:
    """A decoder that accepts what earlier versions wrote: they stored null for an unset field."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: str) -> Any:
        try:
            return decode(text)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(text)), kind)

    return read


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
