"""Creates, changes and deletes records from JSON documents, by the same steps as an apply file.

The admin API and the commands share this module. Everything runs inside the caller's transaction.
"""

from functools import cache

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.bodies import Created, SignerRequest
from relaydeck.admin.queries import Collection
from relaydeck.admin.views import Json, RecordView
from relaydeck.errors import BadRequest, NotPossible, OutOfDate, RecordExists
from relaydeck.fields import Field, fields_of
from relaydeck.http.decoding import reason_of
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.provisioning.declared_records import RECORD_TYPES, Resource
from relaydeck.provisioning.document import RecordDocument, merged
from relaydeck.provisioning.plan import Remove
from relaydeck.provisioning.references import NoReferences, Resolver
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import Stored
from relaydeck.secret import decode_secret
from relaydeck.signers import signer_changes
from relaydeck.signers.hints import hints
from relaydeck.signers.known_addresses import KnownAddresses, Questions
from relaydeck.signers.signer_types import SHAPES, NewSigner, new_signer
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store

COLLECTIONS: dict[Resource, Collection] = {
    "networks": queries.NETWORKS,
    "signers": queries.SIGNERS,
    "notifications": queries.NOTIFICATIONS,
    "relayers": queries.RELAYERS,
}


@cache
def _fields(resource: Resource) -> tuple[Field, ...]:
    return fields_of(RECORD_TYPES[resource])


@cache
def _read_only(resource: Resource) -> tuple[str, ...]:
    """The fields that a response contains and a document cannot set."""
    return (*(field.name for field in _fields(resource) if field.traits.read_only), *Created.__struct_fields__)


@cache
def _sealed(resource: Resource) -> tuple[str, ...]:
    """The fields that a response leaves out when they do not open."""
    return tuple(each.name for each in _fields(resource) if each.traits.sealed_as and not each.traits.write_only)


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
    record = RecordDocument(resource, name, _patched(resource, before, change), resolver or NoReferences())
    stored = Stored(context.transaction.all, context.vault)
    return _apply(context, resource, name, record, stored, addresses)


def patch_questions(
    store: Store, name: str, change: Json, bound_types: frozenset[str], resolver: Resolver | None = None
) -> Questions:
    """What drivers have to be asked before a relayer is changed. Raises BadRequest, or RelayerNotFound."""
    before = queries.find(store.database.read, store.vault, COLLECTIONS["relayers"], name)
    record = RecordDocument("relayers", name, _patched("relayers", before, change), resolver or NoReferences())
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


def require_match(view: RecordView, if_match: str | None) -> None:
    if if_match is None or if_match.strip() == "*":
        return
    if view.etag not in [each.strip() for each in if_match.split(",")]:
        raise OutOfDate("the record has changed: read it again")


def _patched(resource: Resource, before: RecordView, change: Json) -> Json:
    """The whole document after the patch. A patch may repeat a read-only field, but not change it."""
    identity, read_only = COLLECTIONS[resource].identity, _read_only(resource)
    for name in (identity, *read_only):
        if name in change and change[name] != before.body.get(name):
            raise BadRequest(f"{name} cannot be changed here")
    for name in _sealed(resource):
        if name not in before.body and name not in change:
            raise NotPossible(f"the stored {name} cannot be opened: set it again")
    base = _without(before.body, read_only)
    if resource == "relayers" and change.get("signer_id", base["signer_id"]) != base["signer_id"]:
        base.pop("address")  # it belongs to the previous signer
    document: Json = merged(base, _without(change, read_only))
    if resource == "notifications" and "signing_key" in change and change["signing_key"] is None:
        document["signing_key"] = ""  # removes the key
    return document


def _without(document: Json, names: tuple[str, ...]) -> Json:
    return {name: value for name, value in document.items() if name not in names}


def create_signer(context: ChangeContext, new: NewSigner) -> RecordView:
    signer_changes.create(context, new)
    return read_record(context, "signers", new.id)._replace(notes=tuple(hints(new.config)))


def read_signer(request: SignerRequest) -> NewSigner:
    """Raises BadRequest, or msgspec's ValidationError for a config that does not fit the type."""
    shape = SHAPES.get(request.type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    config = msgspec.json.decode(request.config, type=shape, dec_hook=decode_secret)
    return new_signer(request.type, config, request.id)


def read_signer_document(document: Json) -> NewSigner:
    """Raises BadRequest."""
    try:
        return read_signer(msgspec.json.decode(msgspec.json.encode(document), type=SignerRequest))
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error)) from None
