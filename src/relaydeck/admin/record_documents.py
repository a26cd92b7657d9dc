"""The document of one record: of a new one, or of a stored one after a merge patch. All raise BadRequest."""

from relaydeck.admin.documents import Json
from relaydeck.admin.merge_patch import patched_document
from relaydeck.admin.views import RecordView
from relaydeck.errors import BadRequest
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.provisioning.declared_records import IDENTITY, Resource
from relaydeck.provisioning.document import RecordDocument
from relaydeck.provisioning.references import NoReferences, Resolver
from relaydeck.provisioning.url_rules import NO_RULES, NODE_FIELDS, UrlRules


def new_document(
    resource: Resource, document: Json, resolver: Resolver | None, urls: UrlRules = NO_RULES
) -> RecordDocument:
    """`resolver`: finds what references in the document stand for. None: it must have none."""
    identity = IDENTITY[resource]
    if resource == "relayers":
        document = {"id": new_identifier(), **document}
    name = document.get(identity)
    if not isinstance(name, str) or (problem := identifier_problem(name)):
        raise BadRequest(f"{identity} {problem if isinstance(name, str) else 'must be given, as a string'}")
    return RecordDocument(resource, name, document, resolver or NoReferences(), urls)


def changed_document(
    resource: Resource,
    name: str,
    before: RecordView,
    change: Json,
    resolver: Resolver | None,
    urls: UrlRules = NO_RULES,
) -> RecordDocument:
    document = patched_document(resource, before, change)
    # A command that does not name the URLs of nodes does not set them.
    marks_nodes = urls.marks_nodes or NODE_FIELDS.get(resource) not in change
    urls = urls._replace(marks_nodes=marks_nodes, hints_at_unchanged="url" in change)
    return RecordDocument(resource, name, document, resolver or NoReferences(), urls)
