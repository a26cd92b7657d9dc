"""`relaydeck network|signer|notification|relayer …`: the admin API's own code, without a running service."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relaydeck.admin import commands, queries
from relaydeck.admin.commands import COLLECTIONS
from relaydeck.cli.assignments import document
from relaydeck.cli.local_store import existing_store, local_change
from relaydeck.cli.output import print_json, print_note, print_notes, print_record, print_table
from relaydeck.cli.resource_columns import COLUMNS
from relaydeck.cli.signer_keys import ask_now
from relaydeck.errors import OperatorError
from relaydeck.http.paging import Page
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.references import Resolver
from relaydeck.settings import read_settings
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.key_answers import Questions
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.open_store import Store


def show_all(resource: Resource, filters: dict[str, str], limit: int, as_json: bool) -> None:
    page = Page("1", limit, coerced=False)
    with existing_store() as store:
        found = queries.list_page(store.database.read, store.vault, COLLECTIONS[resource], filters, page)
    views = [view.body for view in found.records]
    if as_json:
        print_json(views)
    else:
        print_table(views, COLUMNS[resource])
    print_notes(note for view in found.records for note in view.notes)
    if found.total > len(views):
        print_notes([f"{found.total - len(views)} more are not shown; see --limit"])


def show(resource: Resource, name: str, as_json: bool) -> None:
    with existing_store() as store:
        view = queries.find(store.database.read, store.vault, COLLECTIONS[resource], name)
    if as_json:
        print_json(view.body)
    else:
        print_record(view.body)
    print_notes(view.notes)


def create(resource: Resource, source: str, assignments: tuple[str, ...], as_json: bool) -> None:
    content = document(source, assignments)
    addresses = _known_addresses(
        resource, lambda store, bound: commands.creation_questions(store, content, bound, _resolver())
    )
    with local_change() as change:
        if resource == "signers":
            view = commands.create_signer(change, commands.read_signer_document(content))
        else:
            view = commands.create(change, resource, content, _resolver(), addresses)
    print_notes(view.notes)
    _print_result(f"created {resource[:-1]} {view.body[COLLECTIONS[resource].identity]}", view.body, as_json)


def update(resource: Resource, name: str, source: str, assignments: tuple[str, ...], as_json: bool) -> None:
    content = document(source, assignments)
    if not content:
        raise OperatorError("there is nothing to change", "Give FIELD=TEXT or FIELD:=JSON arguments, or --from FILE.")
    addresses = _known_addresses(
        resource, lambda store, bound: commands.patch_questions(store, name, content, bound, _resolver())
    )
    with local_change() as change:
        view = commands.patch(change, resource, name, content, None, _resolver(), addresses)
    print_notes(view.notes)
    _print_result(f"updated {resource[:-1]} {name}", view.body, as_json)


def _known_addresses(resource: Resource, questions: Callable[[Store, frozenset[str]], Questions]) -> KnownAddresses:
    """Ask drivers, before the transaction, for what a change of a relayer depends on."""
    settings = read_settings()
    bound = KeyAccess(settings).bound_types
    if resource != "relayers" or not KnownAddresses(bound).asked_types:
        return KnownAddresses(bound)
    with existing_store() as store:
        asked = questions(store, bound)
    return KnownAddresses(bound, ask_now(settings, asked))


def delete(resource: Resource, name: str) -> None:
    with local_change() as change:
        commands.delete(change, resource, name, None)
    print_note(f"deleted {resource[:-1]} {name}")


def _resolver() -> Resolver:
    """The operator of a command may refer to environment variables and files, as an apply file does."""
    return Resolver(os.environ, Path())


def _print_result(text: str, view: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_note(text)
