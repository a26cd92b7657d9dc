"""Creates, changes and deletes records from JSON documents, by the same steps as an apply file.

The admin API and the commands share this module. Everything runs inside the caller's transaction.
"""

from relaydeck.admin import queries
from relaydeck.admin.collections import COLLECTIONS
from relaydeck.admin.documents import Json
from relaydeck.admin.merge_patch import patched_document, require_match
from relaydeck.admin.views import RecordView
from relaydeck.errors import BadRequest, RecordExists
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.document import RecordDocument
from relaydeck.provisioning.plan import Remove
from relaydeck.provisioning.references import NoReferences, Resolver
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import KnownAddresses, Questions
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store


def read_record(context: ChangeContext, resource: Resource, name: str) -> RecordView:
    """Raises the collection's error when there is no such record."""
    return queries.find(context.transaction.all, context.vault, COLLECTIONS[resource], name)


def create(
    context: ChangeContext,
    resource: Resource,
    document: Json,
    resolver: Resolver | None = None,
    addresses: KnownAddresses | None = None,
) -> RecordView:
    """Raises BadRequest, or RecordExists."""
    name, record = _new_record(resource, document, resolver)
    stored = Stored(context.transaction.all, context.vault)
    if stored.exists(resource, name):
        raise RecordExists(resource[:-1])
    return _apply(context, resource, name, record, stored, addresses)


def creation_questions(
    store: Store, document: Json, bound_types: frozenset[str], resolver: Resolver | None = None
) -> Questions:
    """What drivers have to be asked before a relayer is created. Raises BadRequest."""
    _, record = _new_record("relayers", document, resolver)
    return record.questions(Stored(store.database.read, store.vault), bound_types)


def _new_record(resource: Resource, document: Json, resolver: Resolver | None) -> tuple[str, RecordDocument]:
    identity = COLLECTIONS[resource].identity
    if resource == "relayers":
        document = {"id": new_identifier(), **document}
    name = document.get(identity)
    if not isinstance(name, str) or (problem := identifier_problem(name)):
        raise BadRequest(f"{identity} {problem if isinstance(name, str) else 'must be given, as a string'}")
    return name, RecordDocument(resource, name, document, resolver or NoReferences())


def patch(
    context: ChangeContext,
    resource: Resource,
    name: str,
    change: Json,
    if_match: str | None,
    resolver: Resolver | None = None,
    addresses: KnownAddresses | None = None,
) -> RecordView:
    """Apply a merge patch (RFC 7396). Raises BadRequest, OutOfDate, or that there is no such record."""
    before = read_record(context, resource, name)
    require_match(before, if_match)
    record = RecordDocument(resource, name, patched_document(resource, before, change), resolver or NoReferences())
    stored = Stored(context.transaction.all, context.vault)
    return _apply(context, resource, name, record, stored, addresses)


def patch_questions(
    store: Store, name: str, change: Json, bound_types: frozenset[str], resolver: Resolver | None = None
) -> Questions:
    """What drivers have to be asked before a relayer is changed. Raises BadRequest, or RelayerNotFound."""
    before = queries.find(store.database.read, store.vault, COLLECTIONS["relayers"], name)
    record = RecordDocument("relayers", name, patched_document("relayers", before, change), resolver or NoReferences())
    return record.questions(Stored(store.database.read, store.vault), bound_types)


def _apply(
    context: ChangeContext,
    resource: Resource,
    name: str,
    record: RecordDocument,
    stored: Stored,
    addresses: KnownAddresses | None,
) -> RecordView:
    step, notes = record.step(stored, addresses or KnownAddresses())
    if step is not None:
        take_step(step, context)
    view = read_record(context, resource, name)
    return view._replace(notes=(*notes, *view.notes))


def delete(context: ChangeContext, resource: Resource, name: str, if_match: str | None) -> None:
    """Raises StillInUse, OutOfDate, or that there is no such record."""
    require_match(read_record(context, resource, name), if_match)
    take_step(Remove(resource, name), context)
