"""Which URLs of nodes may be set over HTTP: those that do not lead into the operator's own network.

An operator on the machine may set any URL. A URL that somebody sets over HTTP is judged by its host: by its address,
in any spelling, or by a name that only private networks have. A public name may still lead to a private address. No
connection is made to judge it; `RELAYDECK_RPC_GUARD=on` checks every connection.
"""

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from yarl import URL

from relaydeck.address_guard import Address, AddressGuard
from relaydeck.setting_values import AddressRange

NOT_PUBLIC = "is not public: set it with a command on the server's machine, or allow it with RELAYDECK_RPC_ALLOW"
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}")
_LOOPBACK = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
# `localhost`, names under it, and the other names of the machine that systems put into /etc/hosts.
_LOOPBACK_NAMES = re.compile(r"(.*\.)?localhost|localhost[46]?(\.localdomain[46]?)?|ip6-(localhost|loopback)")
_PRIVATE_NAMES = (
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "svc",
    "arpa",
)


class NodeRule(NamedTuple):
    allow: tuple[AddressRange, ...] | None = None  # None: every URL may be set

    def problem(self, url: str) -> str:
        """Why the URL may not be set; empty when it may."""
        if self.allow is None:
            return ""
        host = _host(url)
        address = _address(host)
        if address is not None:
            return "" if AddressGuard(self.allow).permits(address) else NOT_PUBLIC
        return "" if self._permits_name(host) else NOT_PUBLIC

    def _permits_name(self, host: str) -> bool:
        """An allowed range says nothing of names: where there is one, names of private networks are expected.

        Names of the machine itself are not, because their addresses are known.
        """
        if not host or "%" in host:  # the client cannot read it, or not as one name
            return False
        if _LOOPBACK_NAMES.fullmatch(host):
            return any(AddressGuard(self.allow or ()).permits(each) for each in _LOOPBACK)
        return bool(self.allow) or not _is_private_name(host)


def _host(url: str) -> str:
    """The host that a connection is made to: the client's own reading of the URL, which maps characters such as `。`.

    Empty, which is no public name, for a URL that the client cannot read.
    """
    try:
        return (URL(url).raw_host or "").lower().rstrip(".")
    except ValueError:
        return ""


def _address(host: str) -> Address | None:
    try:
        # As the system's resolver reads it: `127.1` and `0x7f000001` are addresses.
        return IPv4Address(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else ip_address(host.partition("%")[0])
    except (OSError, ValueError):
        return None


def _is_private_name(host: str) -> bool:
    return "." not in host or host.rpartition(".")[2] in _PRIVATE_NAMES


ANYWHERE = NodeRule()
