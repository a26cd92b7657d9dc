"""Creates, changes and deletes records from documents, by the same steps as an apply file.

The admin API and the commands both end here. Everything runs inside the caller's transaction.
"""

from typing import Any, NamedTuple

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.queries import Collection
from relaydeck.admin.views import Item, View
from relaydeck.errors import BadRequest, NotPossible, OutOfDate, RecordExists
from relaydeck.http.decoding import reason_of
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.provisioning.declared import Resource
from relaydeck.provisioning.making import take
from relaydeck.provisioning.plan import Remove
from relaydeck.provisioning.references import Resolver
from relaydeck.provisioning.single import Document, NoReferences, Single, merged
from relaydeck.provisioning.stored import Stored
from relaydeck.secret import decode_secret
from relaydeck.signers import signer_changes
from relaydeck.signers.hints import hints
from relaydeck.signers.shapes import SHAPES, nested_object_problem
from relaydeck.signers.signer_rows import NewSigner
from relaydeck.store.change_context import ChangeContext

COLLECTIONS: dict[Resource, Collection] = {
    "networks": queries.NETWORKS,
    "signers": queries.SIGNERS,
    "notifications": queries.NOTIFICATIONS,
    "relayers": queries.RELAYERS,
}
# Shown, but not set by a document.
_READ_ONLY = ("created_at", "paused", "system_disabled", "disabled_reason", "has_signing_key")
# Sealed parts that a document cannot leave as they are once they no longer open.
_SEALED = {"networks": "rpc_urls", "relayers": "custom_rpc_urls"}


class NewSignerDocument(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    config: msgspec.Raw
    id: str | msgspec.UnsetType = msgspec.UNSET


def found(context: ChangeContext, resource: Resource, name: str) -> Item:
    return queries.find(context.transaction.all, context.vault, COLLECTIONS[resource], name)


def create(context: ChangeContext, resource: Resource, document: Document, resolver: Resolver | None = None) -> Item:
    """Raises BadRequest, or RecordExists."""
    identity = COLLECTIONS[resource].identity
    if resource == "relayers":
        document = {"id": new_identifier(), **document}
    name = document.get(identity)
    if not isinstance(name, str) or (problem := identifier_problem(name)):
        raise BadRequest(f"{identity} {problem if isinstance(name, str) else 'must be given, as a string'}")
    single = Single(resource, name, document, resolver or NoReferences())
    stored = Stored(context.transaction.all, context.vault)
    if stored.exists(resource, name):
        raise RecordExists(resource[:-1])
    return _made(context, resource, name, single, stored)


def patch(
    context: ChangeContext,
    resource: Resource,
    name: str,
    change: Document,
    if_match: str | None,
    resolver: Resolver | None = None,
) -> Item:
    """A merge patch (RFC 7396). Raises BadRequest, OutOfDate, or that there is no such record."""
    before = found(context, resource, name)
    require_match(before, if_match)
    document = _whole(resource, before, change)
    single = Single(resource, name, document, resolver or NoReferences())
    return _made(context, resource, name, single, Stored(context.transaction.all, context.vault))


def _made(context: ChangeContext, resource: Resource, name: str, single: Single, stored: Stored) -> Item:
    step, notes = single.step(stored)
    if step is not None:
        take(step, context)
    item = found(context, resource, name)
    return item._replace(notes=(*notes, *item.notes))


def delete(context: ChangeContext, resource: Resource, name: str, if_match: str | None) -> None:
    """Raises StillInUse, OutOfDate, or that there is no such record."""
    require_match(found(context, resource, name), if_match)
    take(Remove(resource, name), context)


def require_match(item: Item, if_match: str | None) -> None:
    if if_match is None or if_match.strip() == "*":
        return
    if item.etag not in [each.strip() for each in if_match.split(",")]:
        raise OutOfDate("it has changed since: read it again")


def _whole(resource: Resource, before: Item, change: Document) -> Document:
    """The record as it is to be. A field that is only shown may be sent back, but not changed."""
    identity = COLLECTIONS[resource].identity
    for name in (identity, *_READ_ONLY):
        if name in change and change[name] != before.view.get(name):
            raise BadRequest(f"{name} cannot be changed here")
    sealed = _SEALED.get(resource, "")
    if sealed and sealed not in before.view and sealed not in change:
        raise NotPossible(f"{sealed} does not open any more: give it anew")
    base = _settable(before.view)
    if resource == "relayers" and change.get("signer_id", base["signer_id"]) != base["signer_id"]:
        base.pop("address")  # of the signer before
    whole: Document = merged(base, _settable(change))
    if resource == "notifications" and "signing_key" in change and change["signing_key"] is None:
        whole["signing_key"] = ""  # removes it
    return whole


def _settable(view: View) -> Document:
    return {name: value for name, value in view.items() if name not in _READ_ONLY}


def create_signer(context: ChangeContext, new: NewSigner) -> Item:
    signer_changes.create(context, new)
    return found(context, "signers", new.id)._replace(notes=tuple(hints(new.config)))


def read_signer(document: NewSignerDocument) -> NewSigner:
    """Raises BadRequest, or msgspec's ValidationError for a config of another shape."""
    shape = SHAPES.get(document.type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    signer_id = new_identifier() if document.id is msgspec.UNSET else document.id
    if problem := identifier_problem(signer_id):
        raise BadRequest(f"id {problem}")
    config = msgspec.json.decode(document.config, type=shape, dec_hook=decode_secret)
    if problem := nested_object_problem(config):
        raise BadRequest(problem)
    return NewSigner(signer_id, document.type, config)


def read_signer_document(document: Document) -> NewSigner:
    """Raises BadRequest."""
    try:
        return read_signer(msgspec.json.decode(msgspec.json.encode(document), type=NewSignerDocument))
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error)) from None


class Result(NamedTuple):
    """What a change answers: the record as it is now, or something else to tell."""

    view: Any
    status: int = 200
    etag: str = ""
    notes: tuple[str, ...] = ()


def result(item: Item, status: int = 200) -> Result:
    return Result(item.view, status, item.etag, item.notes)
