"""`[[notifications]]` and `[[relayers]]`."""

import re
from typing import cast

from msgspec import UNSET

from relaydeck.identifiers import identifier_problem
from relaydeck.networks.evm.address import address_problem, checksummed, is_evm_address
from relaydeck.notifications.model import NotificationType
from relaydeck.provisioning.declared import DeclaredNotification, DeclaredRelayer
from relaydeck.provisioning.read_networks import read_network_type, read_urls
from relaydeck.provisioning.tables import Table, found
from relaydeck.relayers.model import Policies
from relaydeck.web_addresses import web_address_problem

_DIGITS = re.compile(r"[0-9]{1,1000}")


def read_notification(table: Table) -> DeclaredNotification:
    notification = DeclaredNotification(
        place=table.place,
        id=table.text("id", check=identifier_problem),
        type=cast(
            NotificationType,
            table.one_of("type", ["webhook"], 'the string "webhook", the one notification type there is'),
        ),
        url=table.text("url", check=web_address_problem),
        signing_key=table.secret("signing_key", required=False),
    )
    table.close()
    return notification


def read_relayer(table: Table) -> DeclaredRelayer:
    address = table.text("address", required=False, check=address_problem)
    relayer = DeclaredRelayer(
        place=table.place,
        id=table.text("id", required=False, check=identifier_problem),
        name=table.text("name", check=identifier_problem),
        network=table.text("network", check=identifier_problem),
        network_type=read_network_type(table),
        address=checksummed(address) if is_evm_address(address) else "",
        signer_id=table.text("signer_id", check=identifier_problem),
        notification_id=table.text("notification_id", required=False, check=identifier_problem) or UNSET,
        custom_rpc_urls=read_urls(table, "custom_rpc_urls"),
        policies=_read_policies(table.table("policies")),
    )
    table.close()
    return relayer


def _read_policies(table: Table | None) -> Policies:
    usual = Policies()
    if table is None:
        return usual
    policies = Policies(
        eip1559_pricing=table.flag("eip1559_pricing", usual.eip1559_pricing),
        gas_limit_estimation=table.flag("gas_limit_estimation", usual.gas_limit_estimation),
        gas_price_cap=UNSET if (cap := _read_wei(table, "gas_price_cap")) is None else cap,
        min_balance=_read_wei(table, "min_balance") or usual.min_balance,
        private_transactions=table.flag("private_transactions", usual.private_transactions),
        whitelist_receivers=_read_receivers(table),
    )
    table.close()
    return policies


def _read_receivers(table: Table) -> tuple[str, ...]:
    receivers = table.texts("whitelist_receivers", address_problem)
    return tuple(checksummed(each) for each in receivers if is_evm_address(each))


def _read_wei(table: Table, key: str) -> int | None:
    """Wei as an integer, or as digits in a string for tools whose TOML integers end at 64 bits."""
    expected = "a whole number of Wei of at least 0"
    value = table.take(key, expected, required=False)
    if value is None:
        return None
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            table.note(key, f"expected {expected}")
        return value
    wrong = " other than digits alone" if isinstance(value, str) else ""
    table.note(key, f"expected {expected}, found {found(value)}{wrong}")
    return None
