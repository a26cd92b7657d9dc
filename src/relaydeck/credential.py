"""The credential of a request, as every layer sees it: a token, a person, or a workload."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple, Protocol

from relaydeck.scope import Scope, Visible
from relaydeck.settings.values import AddressRange

CONSOLE: Final = "console"
VIA: Final = " via token:"  # between a person and the token that they made


def names_in(actor: str) -> tuple[str, ...]:
    """The names of an actor: a person and their token, or just one."""
    person, via, token = actor.partition(VIA)
    return (person, f"token:{token}") if via else (actor,)


class Limits(NamedTuple):
    """What limits a credential besides the records that it may see: where it may be used from, and how often."""

    addresses: tuple[AddressRange, ...] = ()  # that it may be used from; empty: any
    rate: int = 0  # requests per second, in place of the common limit; 0: that one
    burst: int = 0

    def admits(self, address: str) -> bool:
        return not self.addresses or is_within(address, self.addresses)


@lru_cache(maxsize=4096)
def is_within(address: str, ranges: tuple[AddressRange, ...]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any((getattr(found, "ipv4_mapped", None) or found) in each for each in ranges)


class Credential(Protocol):
    seq: int  # its slot in the rate limiter's table; below 0: it is no token, and others may have the same
    digest: bytes  # identifies it to every replica, without revealing it
    name: str
    actor: str  # the actor in the audit log
    origin: str  # the interface that it uses: `api`, or CONSOLE
    logged_name: str  # as a JSON string
    permissions: frozenset[str]
    scope: Scope | None  # what it is limited to; None: it may see every record
    visible: Visible | None  # what the five operations show it; None: every record
    limits: Limits | None
    role: str
    rule: str  # why it has this role: `the token ci`
    expires_at: float


class Unverified(Exception):
    """The credential has to be verified first, which takes time. `verify` raises Unauthorized."""

    def __init__(self, verify: Callable[[], Awaitable[Credential]]) -> None:
        super().__init__("the credential was not verified yet")
        self.verify = verify


# The value of an Authorization header and the current time -> the credential. Raises Unauthorized, Unverified.
FindCredential = Callable[[bytes | None, float], Credential]
