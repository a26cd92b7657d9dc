"""What a relayer is. Amounts are Wei, as integers of any size."""

import msgspec

from relaydeck.networks.model import RpcUrl


class Policies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effective policies of a relayer on an EVM network."""

    eip1559_pricing: bool = True
    gas_limit_estimation: bool = True
    gas_price_cap: int | None = None
    min_balance: int = 0
    private_transactions: bool = False
    whitelist_receivers: tuple[str, ...] = ()


class DisabledReason(msgspec.Struct, frozen=True):
    type: str
    details: str


class Relayer(msgspec.Struct, frozen=True):
    id: str
    name: str
    network: str
    network_type: str
    address: str
    signer_id: str
    notification_id: str | None = None
    paused: bool = False
    system_disabled: bool = False
    disabled_reason: DisabledReason | None = None
    custom_rpc_urls: tuple[RpcUrl, ...] = ()
    policies: Policies = Policies()
