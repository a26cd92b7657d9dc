"""Creates, changes and removes one record by the steps of a plan, inside the transaction of the caller."""

from relaydeck.errors import RecordExists
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.document import RecordDocument
from relaydeck.provisioning.plan import Remove
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.change_context import ChangeContext


def create_record(context: ChangeContext, record: RecordDocument, addresses: KnownAddresses | None) -> list[str]:
    """Return notes for the caller. Raises BadRequest, or RecordExists."""
    if Stored(context.transaction.all, context.vault).exists(record.resource, record.name):
        raise RecordExists(record.resource[:-1])
    return change_record(context, record, addresses)


def change_record(context: ChangeContext, record: RecordDocument, addresses: KnownAddresses | None) -> list[str]:
    """Return notes for the caller. Raises BadRequest."""
    stored = Stored(context.transaction.all, context.vault)
    step, notes = record.step(stored, addresses or KnownAddresses())
    if step is not None:
        take_step(step, context)
    return notes


def remove_record(context: ChangeContext, resource: Resource, name: str) -> None:
    """Raises StillInUse."""
    take_step(Remove(resource, name), context)
