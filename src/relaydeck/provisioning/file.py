"""Reads what a file declares, and notes every mistake that the file alone can show."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from relaydeck.fields import fields_of
from relaydeck.identifiers import identifier_problem
from relaydeck.provisioning.declared_records import (
    IDENTITY,
    RECORD_TYPES,
    Declared,
    DeclaredRecord,
    Mention,
    Resource,
)
from relaydeck.provisioning.mistakes import Mistake, Mistakes, TooManyMistakes
from relaydeck.provisioning.reader import Values, read_values
from relaydeck.provisioning.record_readers import read_network, read_signer
from relaydeck.provisioning.references import Resolver
from relaydeck.provisioning.table import Table
from relaydeck.provisioning.toml_document import parse_toml


class ReadFile(NamedTuple):
    declared: Declared
    mistakes: list[Mistake]


def read_file(content: bytes, resolver: Resolver) -> ReadFile:
    document = parse_toml(content)
    if isinstance(document, Mistake):
        return ReadFile(Declared(), [document])
    return read_parsed(document, resolver)


def read_parsed(document: dict[str, Any], resolver: Resolver) -> ReadFile:
    """The content of a file, however it was written."""
    mistakes = Mistakes()
    try:
        return ReadFile(_read_document(Table(document, "", mistakes, resolver)), mistakes)
    except TooManyMistakes:
        return ReadFile(Declared(), mistakes)


def _read_document(root: Table) -> Declared:
    declared = Declared()
    for name, table in _networks(root, declared):
        _add(declared, table, "networks", partial(read_network, name))
    for table in root.tables("signers"):
        _add(declared, table, "signers", read_signer)
    for table in root.tables("notifications"):
        _add(declared, table, "notifications", partial(read_values, record=RECORD_TYPES["notifications"]))
    for table in root.tables("relayers"):
        _add(declared, table, "relayers", partial(read_values, record=RECORD_TYPES["relayers"]))
    _note_shared_names(root, declared)
    root.close()
    return declared


def _networks(root: Table, declared: Declared) -> Iterator[tuple[str, Table]]:
    networks = root.table("networks")
    if networks is None:
        return
    for name in networks.names():
        if problem := identifier_problem(name):
            networks.note(name, f"the name of a network {problem}")
        declared.places["networks"][name] = networks.at(name)
        if (table := networks.table(name)) is not None:
            yield name, table


def _add(declared: Declared, table: Table, resource: Resource, read: Callable[[Table], Values]) -> None:
    seen = len(table.mistakes)
    values = read(table)
    name = values.get(IDENTITY[resource], "")
    _register(declared, table, resource, name)
    declared.mentions += _mentions(table, resource, values)
    if len(table.mistakes) == seen:
        declared.records.append(DeclaredRecord(table.place, resource, name, values))


def _register(declared: Declared, table: Table, resource: Resource, name: str) -> None:
    if not name:
        return
    first = declared.places[resource].setdefault(name, table.place)
    if first != table.place:
        table.note(IDENTITY[resource], f"is already the id of {first}")


def _mentions(table: Table, resource: Resource, values: Values) -> Iterator[Mention]:
    record = RECORD_TYPES.get(resource)
    for field in fields_of(record) if record else ():
        if field.traits.refers_to and field.name in values:
            yield Mention(table.at(field.name), field.traits.refers_to, values[field.name])  # type: ignore[arg-type]


def _note_shared_names(root: Table, declared: Declared) -> None:
    """A relayer without an id is found again by its name, so two of them must not share one."""
    first: dict[str, str] = {}
    for relayer in declared.of("relayers"):
        owner = relayer.place if relayer.name else first.setdefault(relayer.values["name"], relayer.place)
        if owner != relayer.place:
            root.mistakes.append(Mistake(f"{relayer.place}.name", f"is already the name of {owner}; give both an id"))
