"""Networks, signers, notifications and relayers: list, read, create, change and delete.

Records are created and changed from JSON documents, by the same steps as an apply file. A change is a merge patch
(RFC 7396), on the condition that the record is as the caller knows it.
"""

from collections.abc import Callable
from functools import partial

from relaydeck.admin.documents import Json
from relaydeck.admin.handling import Change, Content, Request, Services, handles
from relaydeck.admin.views import COLLECTIONS, Collection, find, list_page, read_record
from relaydeck.api.operations import BY_NAME, GET_PROPOSAL
from relaydeck.api.records import Created
from relaydeck.errors import BadRequest, NotPossible, OutOfDate
from relaydeck.fields import fields_of
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.networks.chains import PRESET_FIELDS
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, RESOURCES, Resource
from relaydeck.provisioning.document import RecordDocument, merged, remove_record
from relaydeck.provisioning.planner import NO_RULES, NODE_FIELDS, UrlRules
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store


def _register(resource: Resource) -> None:
    """A signer is created by `signers.py`, because its config depends on its type; only its labels change."""
    word = resource[:-1]
    handles(BY_NAME[f"delete_{word}"])(partial(_delete, resource))
    if resource != "signers":
        handles(BY_NAME[f"create_{word}"])(partial(_create, resource))
        handles(BY_NAME[f"update_{word}"])(partial(_update, resource))


async def _get(collection: Collection, services: Services, request: Request) -> Content:
    name = request.identifier
    return await services.read(lambda store: find(store.database.read, store.vault, collection, name))


async def _create(resource: Resource, services: Services, request: Request) -> Change:
    document = request.read_document()
    if resource == "relayers":
        document = {"id": new_identifier(), **document}
    addresses = await _addresses(services, resource, lambda store: _new_document(resource, document, NO_RULES))

    def work(context: ChangeContext) -> Content:
        record = _new_document(resource, document, services.urls)
        notes = record.write(context, addresses, is_new=True)
        return _with_notes(read_record(context, resource, record.name), notes)

    return work


async def _update(resource: Resource, services: Services, request: Request) -> Change:
    name, change, if_match, urls = request.identifier, request.read_document(), request.if_match, services.urls

    def stored_record(store: Store) -> RecordDocument:
        before = find(store.database.read, store.vault, COLLECTIONS[resource], name)
        return _changed_document(resource, name, before, change, NO_RULES)

    addresses = await _addresses(services, resource, stored_record)

    def work(context: ChangeContext) -> Content:
        before = read_record(context, resource, name)
        require_match(before, if_match)
        record = _changed_document(resource, name, before, change, urls)
        notes = record.write(context, addresses)
        after = read_record(context, resource, name)
        return _with_notes(after, notes)._replace(changed=after.etag != before.etag)

    return work


async def _delete(resource: Resource, _services: Services, request: Request) -> Change:
    name, if_match = request.identifier, request.if_match

    def work(context: ChangeContext) -> Content:
        require_match(read_record(context, resource, name), if_match)
        remove_record(context, resource, name)
        return Content(None)

    return work


def _with_notes(view: Content, notes: list[str]) -> Content:
    return view._replace(notes=(*notes, *view.notes))


async def _addresses(
    services: Services, resource: Resource, record: Callable[[Store], RecordDocument]
) -> KnownAddresses:
    """The addresses that a change of a relayer depends on: drivers are asked before the transaction."""
    bound = services.keys.bound_types if resource == "relayers" else frozenset[str]()
    unknown = KnownAddresses(bound)
    if not unknown.asked_types:
        return unknown

    def questions(store: Store) -> Questions:
        return record(store).questions(Stored(store.database.read, store.vault), bound)

    return await find_addresses(services.keys, await services.read(questions), locally=bool(services.local_actor))


def _new_document(resource: Resource, document: Json, urls: UrlRules) -> RecordDocument:
    identity = IDENTITY[resource]
    name = document.get(identity)
    if not isinstance(name, str) or (problem := identifier_problem(name)):
        raise BadRequest(f"{identity} {problem if isinstance(name, str) else 'must be given, as a string'}")
    return RecordDocument(resource, name, document, urls)


def _changed_document(resource: Resource, name: str, before: Content, change: Json, urls: UrlRules) -> RecordDocument:
    document = _patched_document(resource, before, change)
    # A change that does not name the URLs of nodes does not set them.
    marks_nodes = urls.marks_nodes or NODE_FIELDS.get(resource) not in change
    urls = urls._replace(marks_nodes=marks_nodes, hints_at_unchanged="url" in change)
    return RecordDocument(resource, name, document, urls)


def require_match(view: Content, if_match: str | None) -> None:
    if if_match is None or if_match.strip() == "*":
        return
    if view.etag not in [each.strip() for each in if_match.split(",")]:
        raise OutOfDate("the record has changed: read it again")


def _patched_document(resource: Resource, before: Content, change: Json) -> Json:
    """The whole document after the patch. A patch may repeat a read-only field, but not change it."""
    identity, read_only = IDENTITY[resource], _read_only(resource)
    for name in (identity, *read_only):
        if name in change and change[name] != before.data.get(name):
            raise BadRequest(f"{name} cannot be changed here")
    for name in _sealed(resource):
        if name not in before.data and name not in change:
            raise NotPossible(f"the stored {name} cannot be opened: set it again")
    base = _without(before.data, read_only)
    if resource == "relayers" and change.get("signer_id", base["signer_id"]) != base["signer_id"]:
        base.pop("address")  # it belongs to the previous signer
    if resource == "networks" and change.get("chain") is not None:
        base = _without(base, PRESET_FIELDS)  # they belong to the previous chain
    document: Json = merged(base, _without(change, read_only))
    if resource == "notifications" and "signing_key" in change and change["signing_key"] is None:
        document["signing_key"] = ""  # removes the key
    return document


def _without(document: Json, names: tuple[str, ...]) -> Json:
    return {name: value for name, value in document.items() if name not in names}


def _read_only(resource: Resource) -> tuple[str, ...]:
    return (
        *(field.name for field in fields_of(RECORD_TYPES[resource]) if field.traits.read_only),
        *Created.__struct_fields__,
    )


def _sealed(resource: Resource) -> tuple[str, ...]:
    """The fields that a response leaves out when they do not open."""
    return tuple(
        each.name for each in fields_of(RECORD_TYPES[resource]) if each.traits.sealed_as and not each.traits.write_only
    )


for _resource in RESOURCES:
    _register(_resource)
for _collection in COLLECTIONS.values():
    handles(BY_NAME[f"list_{_collection.table}"])(partial(list_page, _collection))
    _reading = BY_NAME.get(f"get_{_collection.table[:-1]}")
    if _reading and _reading is not GET_PROPOSAL:  # which `proposals.py` shows to its author
        handles(_reading)(partial(_get, _collection))
