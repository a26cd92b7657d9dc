"""From what is stored to what is shown."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.contract.wire import (
    DisabledReasonView,
    NotificationView,
    PoliciesView,
    RelayerView,
    RpcUrlView,
    SignerView,
)
from relaydeck.notifications.notification_rows import Notification
from relaydeck.relayers.model import Policies, Relayer
from relaydeck.relayers.relayer_rows import from_row, without_urls
from relaydeck.signers.shapes import SHOWN_FIELDS, response_type
from relaydeck.store.database import Row
from relaydeck.store.listing import Encoded
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault

_config_from_json = msgspec.json.Decoder(dict[str, str]).decode


def signer_view(signer_id: str, signer_type: str, config: dict[str, str], *, widened: bool) -> SignerView:
    if config and not widened:
        config = {name: config[name] for name in SHOWN_FIELDS if name in config}
    return SignerView(signer_id, response_type(signer_type), config)


def signer_encoder(*, widened: bool) -> Callable[[Row], Encoded]:
    def encode(row: Row) -> Encoded:
        signer_id, signer_type, config = row
        view = signer_view(signer_id, signer_type, _config_from_json(config), widened=widened)
        return Encoded(msgspec.json.encode(view))

    return encode


def relayer_encoder(vault: Vault, report: Callable[[Damaged], None]) -> Callable[[Row], Encoded]:
    """A relayer whose sealed URLs do not open is shown without them, and said so; the others are whole."""

    def encode(row: Row) -> Encoded:
        try:
            relayer = from_row(row, vault)
        except Damaged as damage:
            report(damage)
            view = relayer_view(without_urls(row), urls=UNSET)
            note = "custom_rpc_urls of a relayer on this page cannot be opened and is left out; see the service's log"
            return Encoded(msgspec.json.encode(view), note)
        return Encoded(msgspec.json.encode(relayer_view(relayer, urls=_urls(relayer))))

    return encode


def _urls(relayer: Relayer) -> tuple[RpcUrlView, ...]:
    return tuple(RpcUrlView(each.url, each.weight) for each in relayer.custom_rpc_urls)


def relayer_view(relayer: Relayer, urls: tuple[RpcUrlView, ...] | UnsetType) -> RelayerView:
    reason = relayer.disabled_reason
    return RelayerView(
        id=relayer.id,
        name=relayer.name,
        network=relayer.network,
        network_type=relayer.network_type,  # type: ignore[arg-type]
        address=relayer.address,
        signer_id=relayer.signer_id,
        notification_id=UNSET if relayer.notification_id is None else relayer.notification_id,
        paused=relayer.paused,
        system_disabled=relayer.system_disabled,
        disabled_reason=UNSET if reason is None else DisabledReasonView(reason.details, reason.type),
        custom_rpc_urls=urls,
        policies=_policies_view(relayer.policies),
    )


def _policies_view(policies: Policies) -> PoliciesView:
    cap = policies.gas_price_cap
    return PoliciesView(
        eip1559_pricing=policies.eip1559_pricing,
        gas_limit_estimation=policies.gas_limit_estimation,
        gas_price_cap=UNSET if cap is None else cap,
        min_balance=policies.min_balance,
        private_transactions=policies.private_transactions,
        whitelist_receivers=policies.whitelist_receivers,
    )


def notification_view(notification: Notification) -> NotificationView:
    return NotificationView(*notification)  # type: ignore[arg-type]
