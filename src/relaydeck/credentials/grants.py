"""What a credential grants: its role, and what limits it to less.

The column `kind` of a token contains its whole grant, so that the proof of the row covers it, and a version that does
not know a limit takes the token for one of an unknown kind, which grants nothing.
"""

from functools import cached_property
from typing import Annotated

import msgspec
from msgspec import Meta

from relaydeck.credential import Limits
from relaydeck.fields import own_field as field
from relaydeck.roles import Role, permissions_of
from relaydeck.scope import Scope
from relaydeck.settings.values import address_ranges

FIRST_KINDS = {"api", "readonly", "admin"}  # those that every version knows
_MOST_RATE = 1_000_000
_MOST_ADDRESSES = 100
Rate = Annotated[int, Meta(ge=0, le=_MOST_RATE)]


class Restrictions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What makes a credential differ from others of its role."""

    scope: Annotated[
        Scope | None,
        field("The records that it is limited to; null: it may see every record.", example={"networks": ["sepolia"]}),
    ] = None
    addresses: Annotated[
        Annotated[tuple[str, ...], Meta(max_length=_MOST_ADDRESSES)],
        field("Addresses or CIDR ranges that it may be used from. Empty: any.", example=["10.0.0.0/8"]),
    ] = ()
    rate: Annotated[
        Rate, field("Requests per second, in place of the common limit; 0: the common one.", example=50)
    ] = 0
    burst: Annotated[Rate, field("Most requests at once, with a rate of its own; 0: as the rate.", example=100)] = 0
    approve: Annotated[bool, field("Whether it may also approve proposed changes, as owners may.", example=False)] = (
        False
    )


class Grant(Restrictions, frozen=True, omit_defaults=True, forbid_unknown_fields=True, dict=True, kw_only=True):
    role: str  # or one that only a newer version knows, which grants nothing

    @cached_property
    def permissions(self) -> frozenset[str]:
        return permissions_of(self.role) | ({"approve"} if self.approve else set())

    @cached_property
    def limits(self) -> Limits | None:
        """None: none."""
        if not self.addresses and not self.rate:
            return None
        return Limits(address_ranges(",".join(self.addresses)), self.rate, self.burst or self.rate)

    @cached_property
    def restrictions(self) -> dict[str, object]:
        """Those that it has, by their names, as JSON values."""
        found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return {name: value for name, value in found.items() if name != "role"}

    @property
    def stored(self) -> str:
        """The kind of a token: the role, and its restrictions if it has any."""
        restrictions = self.restrictions
        return f"{self.role} {msgspec.json.encode(restrictions).decode()}" if restrictions else str(self.role)

    @property
    def problem(self) -> str:
        """What is wrong with it; empty when nothing is."""
        if self.scope is not None and self.scope.problem:
            return f"scope {self.scope.problem}"
        if self.scope is not None and self.role in (Role.OWNER, Role.ADMIN):
            return "scope cannot limit an owner, who decides what others may do: use the role editor"
        if self.burst and not self.rate:
            return "burst needs a rate"
        try:
            address_ranges(",".join(self.addresses))
        except ValueError as error:
            return f"addresses must be {error}"
        return ""


def read_grant(kind: str) -> Grant:
    """That of a stored token. One that only a newer version can read grants nothing."""
    role, _, restrictions = kind.partition(" ")
    if not restrictions:
        return Grant(role=role)
    try:
        found = msgspec.convert({**msgspec.json.decode(restrictions), "role": role}, Grant)
    except (msgspec.DecodeError, TypeError):
        return Grant(role=kind)
    return Grant(role=kind) if found.problem else found
