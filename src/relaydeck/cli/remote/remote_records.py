"""Records of a server."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from relaydeck.cli.backend import Collection, Json, Resource, View, Views
from relaydeck.cli.remote.connection import Connection
from relaydeck.client.models import AuditEntry, Body, Network, Notification, Pagination, Relayer, Signer, Token
from relaydeck.errors import OperatorError

_PAGE = 1000
_KINDS: dict[Collection, Any] = {
    "networks": Network,
    "signers": Signer,
    "notifications": Notification,
    "relayers": Relayer,
    "tokens": Token,
    "audit": AuditEntry,
}
_REDUCED = "per_page was reduced"  # the server's note about a page, of no use to the reader of a whole list


class RemoteRecords:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_records(
        self, collection: Collection, filters: dict[str, str], limit: int, *, newest: bool = False
    ) -> Views:
        query: dict[str, object] = {**filters, **({"order": "newest"} if newest else {})}
        pages = list(self._pages(_KINDS[collection], collection, query, limit))
        bodies = [body for page in pages for body in page.data]
        notes = [note for page in pages for note in page.meta.logs if not note.startswith(_REDUCED)]
        return Views(bodies[:limit], _place(pages[-1]).total_items, tuple(notes))

    def _pages(self, kind: Any, collection: Collection, query: dict[str, object], limit: int) -> Iterator[Body]:
        """The first pages, until they hold `limit` records. The server may reduce the size of a page."""
        size, seen = min(limit, _PAGE), 0
        for number in count(1):
            found = self._connection.get(list[kind], collection, page=number, per_page=size, **query)
            yield found
            size, seen = _place(found).per_page, seen + len(found.data)
            if not found.data or seen >= min(limit, _place(found).total_items):
                return

    def find(self, resource: Resource, name: str) -> View:
        return _view(self._connection.get(_KINDS[resource], resource, name))

    def create(self, resource: Resource, document: Json) -> View:
        return _view(
            self._connection.request(_KINDS[resource], "POST", resource, document=_resolved(resource, document))
        )

    def update(self, resource: Resource, name: str, patch: Json) -> View:
        return _view(
            self._connection.request(_KINDS[resource], "PATCH", resource, name, document=_resolved(resource, patch))
        )

    def delete(self, resource: Resource, name: str) -> None:
        self._connection.request(None, "DELETE", resource, name)


def _place(page: Body) -> Pagination:
    if page.pagination is None:
        raise OperatorError("the server's response has no pagination", "Check that it is a Relaydeck service.")
    return page.pagination


def _view(found: Body) -> View:
    return View(found.data, found.meta.logs)


def _resolved(resource: Resource, document: Json) -> Json:
    """References are resolved here: the server must not read its own environment or files for a caller."""
    if resource == "signers" or not any(isinstance(value, dict | list) for value in document.values()):
        return document
    return {name: _resolve(value, name) for name, value in document.items()}


def _resolve(value: Any, place: str) -> Any:
    from relaydeck.provisioning.references import Missing, Resolver, as_reference, reference_problem

    if reference := as_reference(value):
        if problem := reference_problem(reference):
            raise OperatorError(f"{place}: {problem}")
        found = Resolver(os.environ, Path()).resolve(reference, place)
        if isinstance(found, Missing):
            raise OperatorError(f"{found.place}: {found.why}")
        return found.reveal()
    if isinstance(value, dict):
        return {name: _resolve(each, f"{place}.{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [_resolve(each, f"{place}[{number}]") for number, each in enumerate(value)]
    return value
