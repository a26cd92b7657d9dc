"""Writes the stored records as a file that `apply` accepts, with references in place of secrets.

Records are in the order of their creation and fields in the order of their declaration, so that the same state gives
the same text.
"""

import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged, OperatorError
from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, RESOURCES, TABLES, Resource, settable_fields
from relaydeck.provisioning.reader import is_address
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES, secret_fields
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store

# -- Writes the TOML of an export. The standard library reads TOML but does not write it --

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_GREATEST_INTEGER = 2**63 - 1  # the largest that every TOML reader accepts
Content = dict[str, Any]


def written_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else written_text(key)


def written_text(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    """Escape what a terminal could interpret, not only what TOML requires: an export is often read on a terminal."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if character < "\U00010000" else f"\\U{ord(character):08x}"


def written(value: object) -> str:
    """A value on one line: a table as an inline table, an integer beyond 64 bits as digits in a string."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value <= _GREATEST_INTEGER else f'"{value}"'
        case str():
            return written_text(value)
        case dict():
            inner = ", ".join(f"{written_key(key)} = {written(item)}" for key, item in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(written(item) for item in value)}]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")


def written_table(header: str, content: Content) -> str:
    """A table with its header; the keys keep their order."""
    return "\n".join([header, *(_line(key, value) for key, value in content.items()), ""])


def _line(key: str, value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 1:
        items = "".join(f"  {written(item)},\n" for item in value)
        return f"{written_key(key)} = [\n{items}]"
    return f"{written_key(key)} = {written(value)}"


_SIMPLE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
Refer = Callable[[str], Content]  # from the name of a sealed value to the reference that stands for it


def exported(store: Store) -> Generator[str, None, None]:
    """The file in pieces, all of one moment. Raises OperatorError for a record that does not open."""
    try:
        with store.database.snapshot():
            yield from export_pieces(store)
    except Damaged as damage:
        raise OperatorError(f"{damage}", "See 'relaydeck doctor'. The export is not complete.") from None


def export_pieces(store: Store, resource: str = "", record: str = "") -> Iterator[str]:
    """The file in pieces, inside a snapshot: all of it, or only the records of this kind or name. Raises Damaged."""
    separator = ""
    for piece in _records(store, resource, record):
        yield separator + piece
        separator = "\n"


def _records(store: Store, only: str, record: str) -> Iterator[str]:
    for resource in (each for each in RESOURCES if only in ("", each)):
        if record:
            found = stored_document(store, resource, record)
            yield from () if found is None else _tables(resource, found)
            continue
        # Streamed: there may be a million.
        for row in store.database.stream(f"SELECT {_columns(resource)} FROM {resource} ORDER BY seq"):
            yield from _tables(resource, _document(resource, row, store))


def _columns(resource: Resource) -> str:
    return "id, type, open_config, labels" if resource == "signers" else TABLES[resource].columns


def stored_document(store: Store, resource: Resource, name: str) -> Content | None:
    """One record as a file declares it. Raises Damaged."""
    sql = f"SELECT {_columns(resource)} FROM {resource} WHERE {IDENTITY[resource]} = :name"
    found = store.database.read(sql, {"name": name})
    return _document(resource, found[0], store) if found else None


def written_record(resource: Resource, content: Content) -> str:
    return "\n".join(_tables(resource, content))


def _document(resource: Resource, row: Row, store: Store) -> Content:
    if resource == "signers":
        return _signer(row)
    if resource == "notifications":
        return _notification(row)
    record = TABLES[resource].from_row(row, store.vault)
    return document_of(record, _refer(resource, getattr(record, IDENTITY[resource])))


def _tables(resource: Resource, content: Content) -> Iterator[str]:
    """A record as a table, followed by a table for each nested record."""
    path = f"networks.{written_key(content.pop('name'))}" if resource == "networks" else resource
    nested = [each for each in fields_of(RECORD_TYPES[resource]) if each.record] if resource in RECORD_TYPES else []
    tables = {each: content.pop(each.name) for each in nested if isinstance(content.get(each.name), dict)}
    yield written_table(f"[{path}]" if resource == "networks" else f"[[{path}]]", content)
    for field, value in tables.items():
        for key, each in (value if field.traits.keyed_by else {"": value}).items():
            yield written_table(f"[{path}.{field.name}{f'.{written_key(key)}' if key else ''}]", each)


def document_of(record: msgspec.Struct, refer: Refer | None = None) -> Content:
    """The record as a document declares it, without the fields that have their default.

    With `refer`, references stand for the sealed texts that may contain a secret.
    """
    return {
        field.name: written_value(field, value, refer if field.traits.sealed_as else None)
        for field, value in _given(record)
    }


def _given(record: msgspec.Struct) -> list[tuple[Field, Any]]:
    fields = [(each, getattr(record, each.name)) for each in settable_fields(type(record))]
    return [(field, value) for field, value in fields if value is not UNSET and value != field.default]


def written_value(field: Field, value: Any, refer: Refer | None = None) -> Any:
    if field.traits.keyed_by:
        return keyed_documents(value, field.traits.keyed_by)
    if isinstance(value, tuple) and field.record:
        return [_sealed_document(each, refer, number) for number, each in enumerate(value, 1)]
    if isinstance(value, tuple):
        return [written_value(field.item, each, refer) for each in value]
    if isinstance(value, msgspec.Struct):
        return document_of(value)
    return field.form.write(value) if field.form else value


def keyed_documents(records: Sequence[msgspec.Struct], key: str) -> dict[str, Content]:
    """The documents of records by one of their fields, which is left out of them."""
    documents = [document_of(each) for each in records]
    return {document.pop(key): document for document in documents}


def _sealed_document(record: msgspec.Struct, refer: Refer | None, number: int) -> Content:
    return {field.name: _sealed_value(field, value, refer, number) for field, value in _given(record)}


def _sealed_value(field: Field, value: Any, refer: Refer | None, number: int) -> Any:
    """A number in the name of a reference is the place of a record in its list."""
    if refer is None:
        return written_value(field, value)
    name = f"{field.name}_{number}"
    return (
        refer(name)
        if _may_be_secret(field, value)
        else written_value(field, value, lambda inner: refer(f"{name}_{inner}"))
    )


def _may_be_secret(field: Field, value: Any) -> bool:
    return field.type is Secret or (is_address(field) and not _is_bare_url(value))


def _is_bare_url(url: str) -> bool:
    """Whether a URL has no path, query or user part, which may contain a key."""
    parts = urlsplit(url)
    bare = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    return bare and not url.endswith(("?", "#")) and bool(parts.scheme and parts.netloc)


def _signer(row: Row) -> Content:
    """The sealed part is not opened: the type determines its fields."""
    shape = SHAPES[row.type]
    refer = _refer("signers", row.id)
    given = msgspec.json.decode(row.open_config) | {name: refer(name) for name in secret_fields(shape)}
    config = {name: given[name] for name in shape.__struct_fields__ if name in given}
    return {"id": row.id, "type": row.type, **_labels(row), "config": config}


def _labels(row: Row) -> Content:
    return {} if row.labels is None else {"labels": msgspec.json.decode(row.labels)}


def _notification(row: Row) -> Content:
    refer = _refer("notifications", row.id)
    content: Content = {"id": row.id, "type": row.type, "url": row.url if row.sealed_url is None else refer("url")}
    if row.sealed_signing_key is not None:
        content["signing_key"] = refer("signing_key")
    return content | _labels(row)


def _refer(resource: Resource, record: str) -> Refer:
    return lambda field: {"env": variable(resource, record, field)}


def variable(resource: str, record: str, field: str) -> str:
    """The name of an environment variable for a secret. It depends on nothing else, and no two secrets share it.

    A double underscore ends the record's part, which contains none. Where characters had to be replaced, three
    underscores and a digest distinguish names that would look alike.
    """
    name = re.sub(r"[^A-Z0-9]", "_", record.upper(), flags=re.ASCII)
    if not _SIMPLE.fullmatch(record):
        digest = hashlib.sha256(record.encode()).hexdigest()[:12].upper()
        name = f"{re.sub('_+', '_', name)[:40].strip('_')}___{digest}"
    return f"{resource[:-1].upper()}_{name}__{field.upper()}"
