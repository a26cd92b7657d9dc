"""What drivers have to be asked before a relayer is created or changed, for the admin API and the commands."""

from relaydeck.admin import queries
from relaydeck.admin.collections import RELAYERS
from relaydeck.admin.documents import Json
from relaydeck.admin.record_documents import changed_document, new_document
from relaydeck.provisioning.references import Resolver
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import Questions
from relaydeck.store.open_store import Store


def creation_questions(
    store: Store, document: Json, bound_types: frozenset[str], resolver: Resolver | None = None
) -> Questions:
    """Raises BadRequest."""
    record = new_document("relayers", document, resolver)
    return record.questions(Stored(store.database.read, store.vault), bound_types)


def patch_questions(
    store: Store, name: str, change: Json, bound_types: frozenset[str], resolver: Resolver | None = None
) -> Questions:
    """Raises BadRequest, or RelayerNotFound."""
    before = queries.find(store.database.read, store.vault, RELAYERS, name)
    record = changed_document("relayers", name, before, change, resolver)
    return record.questions(Stored(store.database.read, store.vault), bound_types)
