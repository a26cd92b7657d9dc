"""Relayers in the database."""

import msgspec

from relaydeck.networks.model import RpcUrl
from relaydeck.relayers.model import DisabledReason, Policies, Relayer
from relaydeck.store.database import Row, Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

COLUMNS = (
    "id, name, network, network_type, address, signer_id, notification_id,"
    " paused, system_disabled, disabled_reason, sealed_rpc_urls, policies"
)

_urls_from_json = msgspec.json.Decoder(tuple[RpcUrl, ...]).decode
_policies_from_json = msgspec.json.Decoder(Policies).decode
_reason_from_json = msgspec.json.Decoder(DisabledReason).decode


def place(relayer_id: str) -> Place:
    return Place("relayers", relayer_id, "custom_rpc_urls")


def from_row(row: Row, vault: Vault) -> Relayer:
    """A relayer from `COLUMNS`. Raises Damaged when its sealed URLs do not open."""
    sealed = row[10]
    urls = _urls_from_json(vault.open(sealed, place(row[0]))) if sealed is not None else ()
    return without_urls(row, urls)


def without_urls(row: Row, urls: tuple[RpcUrl, ...] = ()) -> Relayer:
    """A relayer from `COLUMNS`, its sealed URLs not opened but given."""
    (
        identity,
        name,
        network,
        network_type,
        address,
        signer_id,
        notification_id,
        paused,
        disabled,
        reason,
        _,
        policies,
    ) = row
    return Relayer(
        id=identity,
        name=name,
        network=network,
        network_type=network_type,
        address=address,
        signer_id=signer_id,
        notification_id=notification_id,
        paused=bool(paused),
        system_disabled=bool(disabled),
        disabled_reason=None if reason is None else _reason_from_json(reason),
        custom_rpc_urls=urls,
        policies=_policies_from_json(policies),
    )


def values(transaction: Transaction, vault: Vault, relayer: Relayer) -> dict[str, object]:
    """A relayer as the parameters of an INSERT or UPDATE."""
    urls = relayer.custom_rpc_urls
    reason = relayer.disabled_reason
    return {
        "id": relayer.id,
        "name": relayer.name,
        "network": relayer.network,
        "network_type": relayer.network_type,
        "address": relayer.address,
        "signer_id": relayer.signer_id,
        "notification_id": relayer.notification_id,
        "paused": relayer.paused,
        "system_disabled": relayer.system_disabled,
        "disabled_reason": msgspec.json.encode(reason).decode() if reason else None,
        "sealed_rpc_urls": vault.seal(msgspec.json.encode(urls), place(relayer.id), transaction) if urls else None,
        "policies": msgspec.json.encode(relayer.policies).decode(),
        "revision": transaction.revision,
    }


def create(transaction: Transaction, vault: Vault, relayer: Relayer, *, origin: str, now: int) -> None:
    transaction.execute(
        f"INSERT INTO relayers ({COLUMNS}, origin, created_at, revision)"
        " VALUES (:id, :name, :network, :network_type, :address, :signer_id, :notification_id,"
        " :paused, :system_disabled, :disabled_reason, :sealed_rpc_urls, :policies, :origin, :now, :revision)",
        values(transaction, vault, relayer) | {"origin": origin, "now": now},
    )


def update(transaction: Transaction, vault: Vault, relayer: Relayer) -> None:
    """Everything but the identity and the state indicators."""
    transaction.execute(
        "UPDATE relayers SET name = :name, network = :network, network_type = :network_type, address = :address,"
        " signer_id = :signer_id, notification_id = :notification_id, sealed_rpc_urls = :sealed_rpc_urls,"
        " policies = :policies, revision = :revision WHERE id = :id",
        values(transaction, vault, relayer),
    )
