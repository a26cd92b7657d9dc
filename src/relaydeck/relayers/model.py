"""A relayer and its policies. Amounts are in Wei, as integers of any size."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck import basis
from relaydeck.basis import contract, shown
from relaydeck.fields import field, own_field
from relaydeck.identifiers import Identifier
from relaydeck.networks.evm.address import EvmAddress
from relaydeck.networks.model import NetworkType, RpcUrls, WarnHours
from relaydeck.quantities import GasPrice, Wei
from relaydeck.scope import OwnLabels

_SHOWN = shown("2.4").but(presence=basis.RELAYER_PRESENCE)
_NAMED = _SHOWN.but(value=basis.IDENTIFIER_FORM)
_POLICY = _SHOWN.but(meaning=basis.ALL_POLICIES)


# sentence: 2.4-policies
class Policies(msgspec.Struct, frozen=True):
    """The effective policies of a relayer on an EVM network."""

    eip1559_pricing: Annotated[
        bool, field("Price by base fee and priority fee; false: by the legacy gas price.", basis=_POLICY, example=True)
    ] = True
    gas_limit_estimation: Annotated[
        bool, field("Ask the node for the gas limit; false: trust the transaction's own.", basis=_POLICY, example=True)
    ] = True
    gas_price_cap: Annotated[
        GasPrice | UnsetType,
        field(
            "Highest gas price, in Wei. Left out while unset.",
            basis=_POLICY.but(value=basis.AMOUNT_UNITS),
            example=100_000_000_000,
        ),
    ] = UNSET
    min_balance: Annotated[
        Wei,
        field(
            "Lowest balance, in Wei. Nothing under `/api/v1` acts on it; the monitor sends an "
            "event when the balance falls below it.",
            basis=_SHOWN.but(value=basis.AMOUNT_UNITS, meaning=basis.UNUSED_POLICIES),
            example=0,
        ),
    ] = 0
    private_transactions: Annotated[
        bool,
        field(
            "Stored and shown. Nothing under `/api/v1` acts on it.",
            basis=_SHOWN.but(meaning=basis.UNUSED_POLICIES),
            example=False,
        ),
    ] = False
    whitelist_receivers: Annotated[
        Annotated[tuple[EvmAddress, ...], Meta(max_length=1000)],
        field(
            "The receivers that are allowed. Empty: any receiver.",
            basis=_POLICY.but(value=basis.FIELD_LENGTH),
            example=[],
        ),
    ] = ()


# sentence: 2.4-disabled-reason
class DisabledReason(msgspec.Struct, frozen=True):
    """Why the service disabled a relayer."""

    details: Annotated[
        str, field("What happened.", basis=shown("2.4"), example="no RPC URL returned the nonce in 3 rounds")
    ]
    type: Annotated[
        Literal["NonceSyncFailed"],
        field(
            "The kind of reason. The service sets `NonceSyncFailed` and no other.",
            basis=shown("2.4").but(value=contract("2.4") + basis.DISABLED_REASONS),
            example="NonceSyncFailed",
        ),
    ]


# sentence: 2.4-strings 2.4-flags 3-indicators
class Relayer(msgspec.Struct, frozen=True):
    id: Annotated[Identifier, field("Identifier.", basis=_NAMED, example="sepolia-1", generated=True)]
    name: Annotated[Identifier, field("Name for people.", basis=_NAMED, example="Sepolia one")]
    network: Annotated[
        Identifier, field("Name of the network it works on.", basis=_NAMED, example="sepolia", refers_to="networks")
    ]
    network_type: Annotated[
        NetworkType,
        field("Kind of that network.", basis=_SHOWN.but(value=contract("2.4") + basis.NETWORK_TYPES), example="evm"),
    ]
    address: Annotated[
        EvmAddress,
        field(
            "Its address on the network.",
            basis=_SHOWN,
            example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
            generated=True,
        ),
    ]
    signer_id: Annotated[
        Identifier, field("Identifier of the signer it uses.", basis=_NAMED, example="ops", refers_to="signers")
    ]
    notification_id: Annotated[
        Identifier | UnsetType,
        field(
            "Identifier of its notification. Left out while unset.",
            basis=_NAMED,
            example="pager",
            refers_to="notifications",
        ),
    ] = UNSET
    paused: Annotated[
        bool,
        field(
            "Whether an operator has paused it.", basis=_SHOWN.but(meaning=basis.PAUSED), example=False, read_only=True
        ),
    ] = False
    system_disabled: Annotated[
        bool,
        field(
            "Whether the service has disabled it.",
            basis=_SHOWN.but(meaning=basis.SYSTEM_DISABLED),
            example=False,
            read_only=True,
        ),
    ] = False
    disabled_reason: Annotated[
        DisabledReason | UnsetType, field("Why it is disabled. Left out while it is not.", basis=_SHOWN, read_only=True)
    ] = UNSET
    custom_rpc_urls: Annotated[
        RpcUrls,
        field(
            "Nodes to use instead of the network's. Left out, with a log entry, when its sealed form does not open.",
            basis=_SHOWN.but(value=basis.FIELD_LENGTH, meaning=basis.NODE_URLS),
            sealed_as="sealed_rpc_urls",
        ),
    ] = ()
    runway_warn_hours: Annotated[
        WarnHours | UnsetType,
        own_field(
            "At how many hours of runway the monitor warns; 0: never. Left out: the value of its network, or else of "
            "the service.",
            example=48,
        ),
    ] = UNSET
    labels: OwnLabels = UNSET
    policies: Annotated[Policies, field("The policies in effect.", basis=_SHOWN)] = Policies()
