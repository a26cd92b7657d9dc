"""Changes of networks, each with its entry in the audit log."""

from relaydeck.errors import Damaged, RecordNotFound
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.facts import Facts, Hidden, record_facts


def create(context: ChangeContext, network: Network) -> None:
    network_rows.create(context.transaction, context.vault, network, origin=context.origin, now=context.now)
    context.created("network", network.name, _facts(network))


def update(context: ChangeContext, network: Network) -> None:
    before = _stored_facts(context, network.name)
    network_rows.update(context.transaction, context.vault, network)
    context.changed("network.updated", network.name, before, _facts(network))


def delete(context: ChangeContext, name: str) -> None:
    """Raises StillInUse while a relayer is on it."""
    context.remove("network", name, _stored_facts(context, name), identity="name")


def _stored_facts(context: ChangeContext, name: str) -> Facts:
    row = context.transaction.one(f"SELECT {network_rows.COLUMNS} FROM networks WHERE name = :name", {"name": name})
    if row is None:
        raise RecordNotFound("network")
    try:
        return _facts(network_rows.from_row(row, context.vault))
    except Damaged:
        sealed = network_rows.TABLE.sealed_value(row, "rpc_urls")
        return _facts(network_rows.without_urls(row)) | {"rpc_urls": Hidden(sealed, "damaged")}


def _facts(network: Network) -> Facts:
    return record_facts(network, "name")
