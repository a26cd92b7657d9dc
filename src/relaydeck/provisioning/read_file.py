"""From the text of a file to what it declares, with every mistake that the file alone can show."""

import tomllib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from relaydeck.identifiers import identifier_problem
from relaydeck.provisioning.declared import Declared, DeclaredRelayer, Mention, Resource
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.provisioning.read_networks import read_network
from relaydeck.provisioning.read_relayers import read_notification, read_relayer
from relaydeck.provisioning.read_signers import read_signer
from relaydeck.provisioning.references import Resolver
from relaydeck.provisioning.tables import Table

Item = TypeVar("Item")


class Read(NamedTuple):
    declared: Declared
    mistakes: list[Mistake]


def read_file(content: bytes, resolver: Resolver) -> Read:
    mistakes: list[Mistake] = []
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Read(Declared(), [Mistake("", "it is not UTF-8 text")])
    except (ValueError, RecursionError) as error:
        return Read(Declared(), [Mistake("", f"it is not TOML: {error}")])
    return Read(read_document(Table(document, "", mistakes, resolver)), mistakes)


def read_document(root: Table) -> Declared:
    declared = Declared()
    _read_networks(root, declared)
    _read_all(root, "signers", read_signer, declared, declared.signers)
    _read_all(root, "notifications", read_notification, declared, declared.notifications)
    _read_all(root, "relayers", read_relayer, declared, declared.relayers)
    _note_names_shared(root, declared.relayers)
    root.close()
    return declared


def _read_networks(root: Table, declared: Declared) -> None:
    networks = root.table("networks")
    if networks is None:
        return
    for name in networks.keys():  # noqa: SIM118 (a Table is no dict)
        if problem := identifier_problem(name):
            networks.note(name, f"the name of a network {problem}")
        declared.places["networks"][name] = networks.at(name)
        if (table := networks.table(name)) is None:
            continue
        seen = len(root.mistakes)
        network = read_network(name, table)
        if len(root.mistakes) == seen:
            declared.networks.append(network)


def _read_all(
    root: Table, resource: Resource, read: Callable[[Table], Item], declared: Declared, into: list[Item]
) -> None:
    for table in root.tables(resource):
        seen = len(root.mistakes)
        item = read(table)
        _register(table, resource, getattr(item, "id", ""), declared)
        if isinstance(item, DeclaredRelayer):
            _mention(table, item, declared)
        if len(root.mistakes) == seen:
            into.append(item)


def _register(table: Table, resource: Resource, record: str, declared: Declared) -> None:
    if not record:
        return
    first = declared.places[resource].setdefault(record, table.place)
    if first != table.place:
        table.note("id", f"is the id of {first} already")


def _mention(table: Table, relayer: DeclaredRelayer, declared: Declared) -> None:
    mentioned: list[tuple[str, Resource, str | None]] = [
        ("network", "networks", relayer.network),
        ("signer_id", "signers", relayer.signer_id),
        ("notification_id", "notifications", relayer.notification_id or None),
    ]
    declared.mentions += [Mention(table.at(key), resource, record) for key, resource, record in mentioned if record]


def _note_names_shared(root: Table, relayers: list[DeclaredRelayer]) -> None:
    """A relayer without an id is found again by its name."""
    first: dict[str, str] = {}
    for relayer in relayers:
        if relayer.id:
            continue
        owner = first.setdefault(relayer.name, relayer.place)
        if owner != relayer.place:
            root.mistakes.append(Mistake(f"{relayer.place}.name", f"is the name of {owner} already; give both an id"))
