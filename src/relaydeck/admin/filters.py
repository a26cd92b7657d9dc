"""The filters of each list, declared once.

The admin API, its OpenAPI document and the options of `relaydeck … list` are derived from these declarations. This
module imports nothing heavy, because `relaydeck --help` needs it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from relaydeck.credentials.kinds import TokenKind


class Filter(NamedTuple):
    """A query parameter and its SQL condition, which refers to the value as `:name` and to the time as `:now`."""

    name: str
    description: str
    condition: str = ""
    choices: Mapping[str, str] = MappingProxyType({})  # the allowed values, each with its condition
    folded: bool = False  # whether upper and lower case of ASCII letters are the same
    whole: bool = False  # whether the value is a whole number

    def condition_for(self, value: str) -> str:
        return self.choices[value] if self.choices else self.condition


def _contains(name: str) -> Filter:
    description = f"Only those with this text in their {name}, in upper or lower case."
    return Filter(name, description, f"instr(lower({name}), :{name}) > 0", folded=True)


def _equals(name: str, description: str) -> Filter:
    return Filter(name, description, f"{name} = :{name}")


_AFTER = Filter("after", "Only those after this sequence number.", "seq > :after", whole=True)
_EXPIRED = "expires_at IS NOT NULL AND expires_at <= :now"

FILTERS: dict[str, tuple[Filter, ...]] = {
    "networks": (_contains("name"),),
    "signers": (
        _contains("id"),
        Filter("type", "Only those of this type.", "type = CASE :type WHEN 'local' THEN 'plain' ELSE :type END"),
        Filter(
            "check",
            "Only those with this latest check.",
            choices={
                "ok": "id IN (SELECT signer_id FROM signer_checks WHERE outcome = 'ok')",
                "failing": "id IN (SELECT signer_id FROM signer_checks WHERE outcome <> 'ok')",
                "none": "id NOT IN (SELECT signer_id FROM signer_checks)",
            },
        ),
    ),
    "notifications": (_contains("id"),),
    "relayers": (
        _contains("name"),
        _equals("network", "Only those on this network."),
        Filter(
            "state",
            "Only those in this state.",
            choices={
                "active": "NOT paused AND NOT system_disabled",
                "paused": "paused",
                "disabled": "system_disabled",
            },
        ),
        _equals("signer_id", "Only those that use this signer."),
        _equals("notification_id", "Only those with events for this notification."),
    ),
    "tokens": (
        _contains("name"),
        Filter(
            "kind", "Only those of this kind.", choices={each.value: f"kind = '{each.value}'" for each in TokenKind}
        ),
        Filter(
            "state",
            "Only those in this state.",
            choices={
                "live": f"revoked_at IS NULL AND NOT ({_EXPIRED})",
                "expired": f"revoked_at IS NULL AND {_EXPIRED}",
                "revoked": "revoked_at IS NOT NULL",
            },
        ),
    ),
    "events": (
        _AFTER,
        Filter("before", "Only those before this sequence number.", "e.seq < :before", whole=True),
        Filter("relayer_id", "Only those about this relayer.", "e.relayer_id = :relayer_id"),
    ),
    "deliveries": (
        _AFTER,
        Filter("before", "Only those before this sequence number.", "d.seq < :before", whole=True),
        Filter(
            "state",
            "Only those in this state.",
            choices={state: f"d.state = '{state}'" for state in ("pending", "delivered", "dead")},
        ),
        Filter("notification_id", "Only those to this notification.", "d.notification_id = :notification_id"),
        Filter("relayer_id", "Only those about this relayer.", "d.relayer_id = :relayer_id"),
    ),
    "audit": (
        _equals("actor", "Only changes by this actor."),
        _equals("action", "Only this action."),
        _equals("record", "Only changes of this record."),
        _AFTER,
    ),
}
