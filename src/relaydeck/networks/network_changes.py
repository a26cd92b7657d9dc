"""Changes of networks, each with its entry in the audit log."""

from relaydeck.errors import RecordNotFound
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Row, Transaction
from relaydeck.store.facts import Facts, Hidden, record_facts
from relaydeck.store.references import refuse_while_used
from relaydeck.store.removals import remove_row
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault


def create(context: ChangeContext, network: Network) -> None:
    network_rows.create(context.transaction, context.vault, network, origin=context.origin, now=context.now)
    context.created("network", network.name, _facts(network))


def update(context: ChangeContext, network: Network) -> None:
    before = _stored_facts(_row(context.transaction, network.name), context.vault)
    network_rows.update(context.transaction, context.vault, network)
    context.changed("network.updated", network.name, before, _facts(network))


def delete(context: ChangeContext, name: str) -> None:
    """Raises StillInUse while a relayer is on it."""
    before = _stored_facts(_row(context.transaction, name), context.vault)
    refuse_while_used(context.transaction, "network", name)
    remove_row(context.transaction, "networks", "name", name)
    context.removed("network", name, before)


def _row(transaction: Transaction, name: str) -> Row:
    row = transaction.one(f"SELECT {network_rows.COLUMNS} FROM networks WHERE name = :name", {"name": name})
    if row is None:
        raise RecordNotFound("network")
    return row


def _stored_facts(row: Row, vault: Vault) -> Facts:
    try:
        return _facts(network_rows.from_row(row, vault))
    except Damaged:
        sealed = network_rows.TABLE.sealed_value(row, "rpc_urls")
        return _facts(network_rows.without_urls(row)) | {"rpc_urls": Hidden(sealed, "damaged")}


def _facts(network: Network) -> Facts:
    return record_facts(network, "name")
