"""Creates, changes and deletes records from JSON documents, by the same steps as an apply file.

The admin API and the commands share this module. Everything runs inside the caller's transaction.
"""

from relaydeck.admin import queries
from relaydeck.admin.collections import COLLECTIONS
from relaydeck.admin.documents import Json
from relaydeck.admin.merge_patch import require_match
from relaydeck.admin.record_documents import changed_document, new_document
from relaydeck.admin.views import RecordView
from relaydeck.provisioning import record_changes
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.references import Resolver
from relaydeck.provisioning.url_rules import NO_RULES, UrlRules
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.change_context import ChangeContext


def read_record(context: ChangeContext, resource: Resource, name: str) -> RecordView:
    """Raises the collection's error when there is no such record."""
    return queries.find(context.transaction.all, context.vault, COLLECTIONS[resource], name)


def create(
    context: ChangeContext,
    resource: Resource,
    document: Json,
    resolver: Resolver | None = None,
    addresses: KnownAddresses | None = None,
    urls: UrlRules = NO_RULES,
) -> RecordView:
    """Raises BadRequest, or RecordExists."""
    record = new_document(resource, document, resolver, urls)
    notes = record_changes.create_record(context, record, addresses)
    return _with_notes(read_record(context, resource, record.name), notes)


def patch(
    context: ChangeContext,
    resource: Resource,
    name: str,
    change: Json,
    if_match: str | None,
    resolver: Resolver | None = None,
    addresses: KnownAddresses | None = None,
    urls: UrlRules = NO_RULES,
) -> RecordView:
    """Apply a merge patch (RFC 7396). Raises BadRequest, OutOfDate, or that there is no such record."""
    before = read_record(context, resource, name)
    require_match(before, if_match)
    record = changed_document(resource, name, before, change, resolver, urls)
    notes = record_changes.change_record(context, record, addresses)
    return _with_notes(read_record(context, resource, name), notes)


def _with_notes(view: RecordView, notes: list[str]) -> RecordView:
    return view._replace(notes=(*notes, *view.notes))


def delete(context: ChangeContext, resource: Resource, name: str, if_match: str | None) -> None:
    """Raises StillInUse, OutOfDate, or that there is no such record."""
    require_match(read_record(context, resource, name), if_match)
    record_changes.remove_record(context, resource, name)
