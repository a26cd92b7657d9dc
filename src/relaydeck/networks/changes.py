"""Changes of networks, each with its row in the audit log."""

import msgspec

from relaydeck.errors import RecordNotFound
from relaydeck.networks import records
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.store.acting import Acting, remove_row
from relaydeck.store.database import Row, Transaction
from relaydeck.store.facts import Facts, Hidden
from relaydeck.store.references import refuse_while_used
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault


def url_fact(urls: tuple[RpcUrl, ...]) -> Hidden:
    """Of an RPC URL the scheme and the host may be told."""
    return Hidden(urls, [{"url": each.shown, "weight": each.weight} for each in urls])


def create(acting: Acting, network: Network) -> None:
    records.create(acting.transaction, acting.vault, network, origin=acting.origin, now=acting.now)
    acting.created("network", network.name, _facts(network))


def update(acting: Acting, network: Network) -> None:
    before = _stored_facts(_row(acting.transaction, network.name), acting.vault)
    records.update(acting.transaction, acting.vault, network)
    acting.changed("network.updated", network.name, before, _facts(network))


def delete(acting: Acting, name: str) -> None:
    """Raises StillInUse while a relayer is on it."""
    before = _stored_facts(_row(acting.transaction, name), acting.vault)
    refuse_while_used(acting.transaction, "network", name)
    remove_row(acting.transaction, "networks", "name", name)
    acting.removed("network", name, before)


def _row(transaction: Transaction, name: str) -> Row:
    row = transaction.one(f"SELECT {records.COLUMNS} FROM networks WHERE name = :name", {"name": name})
    if row is None:
        raise RecordNotFound("network")
    return row


def _stored_facts(row: Row, vault: Vault) -> Facts:
    try:
        return _facts(records.from_row(row, vault))
    except Damaged:
        return _facts(records.without_urls(row)) | {"rpc_urls": Hidden(row[4], "damaged")}


def _facts(network: Network) -> Facts:
    return {
        "network_type": network.network_type,
        "chain_id": network.chain_id,
        "native_symbol": network.native_symbol,
        "rpc_urls": url_fact(network.rpc_urls),
        "fee_tokens": msgspec.to_builtins(network.fee_tokens),
    }
