"""Networks in the database. Their RPC URLs are sealed: a path or query may hold a key."""

import msgspec

from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.store.database import Row, Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

COLUMNS = "name, network_type, chain_id, native_symbol, sealed_rpc_urls, fee_tokens"

_urls_from_json = msgspec.json.Decoder(tuple[RpcUrl, ...]).decode
_tokens_from_json = msgspec.json.Decoder(tuple[FeeToken, ...]).decode


def place(name: str) -> Place:
    return Place("networks", name, "rpc_urls")


def from_row(row: Row, vault: Vault) -> Network:
    """A network from `COLUMNS`. Raises Damaged when its sealed URLs do not open."""
    name, sealed = row[0], row[4]
    return without_urls(row, () if sealed is None else _urls_from_json(vault.open(sealed, place(name))))


def without_urls(row: Row, urls: tuple[RpcUrl, ...] = ()) -> Network:
    """A network from `COLUMNS`, its sealed URLs not opened but given."""
    name, network_type, chain_id, native_symbol, _, fee_tokens = row
    return Network(
        name=name,
        network_type=network_type,
        chain_id=chain_id,
        native_symbol=native_symbol,
        rpc_urls=urls,
        fee_tokens=_tokens_from_json(fee_tokens),
    )


def values(transaction: Transaction, vault: Vault, network: Network) -> dict[str, object]:
    urls = network.rpc_urls
    return {
        "name": network.name,
        "network_type": network.network_type,
        "chain_id": network.chain_id,
        "native_symbol": network.native_symbol,
        "sealed_rpc_urls": vault.seal(msgspec.json.encode(urls), place(network.name), transaction) if urls else None,
        "fee_tokens": msgspec.json.encode(network.fee_tokens).decode(),
        "revision": transaction.revision,
    }


def create(transaction: Transaction, vault: Vault, network: Network, *, origin: str, now: int) -> None:
    transaction.execute(
        f"INSERT INTO networks ({COLUMNS}, origin, created_at, revision)"
        " VALUES (:name, :network_type, :chain_id, :native_symbol, :sealed_rpc_urls, :fee_tokens,"
        " :origin, :now, :revision)",
        values(transaction, vault, network) | {"origin": origin, "now": now},
    )


def update(transaction: Transaction, vault: Vault, network: Network) -> None:
    transaction.execute(
        "UPDATE networks SET network_type = :network_type, chain_id = :chain_id, native_symbol = :native_symbol,"
        " sealed_rpc_urls = :sealed_rpc_urls, fee_tokens = :fee_tokens, revision = :revision WHERE name = :name",
        values(transaction, vault, network),
    )
