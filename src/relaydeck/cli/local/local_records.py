"""Records in the home: the admin API's own code, without a running service."""

import os
from pathlib import Path

from relaydeck.admin import queries, record_commands, relayer_questions
from relaydeck.admin.collections import COLLECTIONS
from relaydeck.admin.signer_commands import create_signer
from relaydeck.admin.signer_request import read_signer_document
from relaydeck.admin.views import RecordView
from relaydeck.cli.backend import Collection, Json, Resource, View, Views
from relaydeck.cli.local.signer_addresses import relayer_addresses
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.cli.local.url_rules import url_rules
from relaydeck.http.paging import Page
from relaydeck.provisioning.references import Resolver


class LocalRecords:
    def list_records(
        self, collection: Collection, filters: dict[str, str], limit: int, *, newest: bool = False
    ) -> Views:
        page, which = Page("1", limit, coerced=False), COLLECTIONS[collection]
        with existing_store() as store:
            found = queries.list_page(store.database.read, store.vault, which, filters, page, newest=newest)
        notes = tuple(note for view in found.records for note in view.notes)
        return Views([view.body for view in found.records], found.total, notes)

    def find(self, resource: Resource, name: str) -> View:
        with existing_store() as store:
            return _view(queries.find(store.database.read, store.vault, COLLECTIONS[resource], name))

    def create(self, resource: Resource, document: Json) -> View:
        addresses = None
        if resource == "relayers":
            addresses = relayer_addresses(
                lambda store, bound: relayer_questions.creation_questions(store, document, bound, _resolver())
            )
        with local_change() as change:
            if resource == "signers":
                return _view(create_signer(change, read_signer_document(document)))
            return _view(record_commands.create(change, resource, document, _resolver(), addresses, url_rules()))

    def update(self, resource: Resource, name: str, patch: Json) -> View:
        addresses = None
        if resource == "relayers":
            addresses = relayer_addresses(
                lambda store, bound: relayer_questions.patch_questions(store, name, patch, bound, _resolver())
            )
        with local_change() as change:
            return _view(
                record_commands.patch(change, resource, name, patch, None, _resolver(), addresses, url_rules())
            )

    def delete(self, resource: Resource, name: str) -> None:
        with local_change() as change:
            record_commands.delete(change, resource, name, None)


def _view(found: RecordView) -> View:
    return View(found.body, found.notes)


def _resolver() -> Resolver:
    """The operator of a command may refer to environment variables and files, as an apply file does."""
    return Resolver(os.environ, Path())
