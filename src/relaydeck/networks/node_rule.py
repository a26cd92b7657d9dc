"""Which URLs of nodes may be set over HTTP, and which addresses nodes may have.

An operator on the machine may set any URL. A URL that somebody sets over HTTP is judged by its host: by its address,
in any spelling, or by a name that only private networks have. A public name may still lead to a private address, which
only a connection shows: for a URL that was set over HTTP, each address must be public or allowed.
"""

from ipaddress import ip_network
from typing import NamedTuple

from yarl import URL

from relaydeck.outgoing.address_guard import ANYWHERE, LOOPBACK, AddressGuard, stated_addresses
from relaydeck.settings.values import AddressRange

NOT_PUBLIC = "is not public: set it with a command on the server's machine, or allow it with RELAYDECK_RPC_ALLOW"
_PRIVATE_NAMES = ["localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "svc", "arpa"]


class NodeRule(NamedTuple):
    allow: tuple[AddressRange, ...] | None = None  # None: every URL may be set

    def problem(self, url: str) -> str:
        """Why the URL may not be set; empty when it may."""
        return "" if self.allow is None or self._permits_host(_host(url)) else NOT_PUBLIC

    def _permits_host(self, host: str) -> bool:
        guard, addresses = AddressGuard(self.allow or ()), stated_addresses(host)
        return any(map(guard.permits, addresses)) if addresses else self._permits_name(host)

    def _permits_name(self, host: str) -> bool:
        """An allowed range says nothing of names: where there is one, names of private networks are expected."""
        if not host or "%" in host:  # the client cannot read it, or not as one name
            return False
        return bool(self.allow) or not _is_private_name(host)


def _host(url: str) -> str:
    """The host that a connection is made to: the client's own reading of the URL, which maps characters such as `。`.

    Empty, which is no public name, for a URL that the client cannot read.
    """
    try:
        return (URL(url).raw_host or "").lower().rstrip(".")
    except ValueError:
        return ""


def _is_private_name(host: str) -> bool:
    return "." not in host or host.rpartition(".")[2] in _PRIVATE_NAMES


class NodeGuards(NamedTuple):
    """The guards of connections to nodes whose URLs were set over HTTP, and of all others."""

    over_http: AddressGuard
    others: AddressGuard = ANYWHERE


UNGUARDED = NodeGuards(ANYWHERE)


def node_guards(mode: str, allow: tuple[AddressRange, ...]) -> NodeGuards:
    """`mode`: as `RELAYDECK_RPC_GUARD` has it."""
    guard = AddressGuard(allow)
    if mode == "on":
        return NodeGuards(guard, guard)
    return UNGUARDED if mode == "off" else NodeGuards(_with_both_loopbacks(guard, allow))


def _with_both_loopbacks(guard: AddressGuard, allow: tuple[AddressRange, ...]) -> AddressGuard:
    """`localhost` has two addresses, and may be set if one of them is allowed."""
    return AddressGuard((*allow, *map(ip_network, LOOPBACK))) if any(map(guard.permits, LOOPBACK)) else guard


EVERY_NODE = NodeRule()
