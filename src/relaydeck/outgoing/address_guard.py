"""The addresses that Relaydeck connects to: public ones, and those that the operator allows.

Receivers of events, nodes, key systems and token endpoints pass this guard, whoever set their URLs.
"""

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from relaydeck.errors import RelaydeckError
from relaydeck.settings.values import AddressRange

Address = IPv4Address | IPv6Address


def _networks(ranges: str) -> tuple[AddressRange, ...]:
    return tuple(map(ip_network, ranges.split()))


# The special-purpose registry of IANA, plus the metadata service of a cloud at a public address.
_REFUSED_V4 = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24"
    " 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3"
)
# The only range of public addresses: mapped, compatible, NAT64, unique-local and link-local ones are outside.
_PUBLIC_V6 = ip_network("2000::/3")
# Protocol assignments (Teredo among them), documentation, 6to4, and two more.
_REFUSED_V6 = _networks("2001::/23 2001:db8::/32 2002::/16 3ffe::/16 3fff::/20")
# Link-local addresses and the metadata services of clouds: they hand out credentials to anyone who can reach them.
_METADATA = _networks(
    "169.254.0.0/16 168.63.129.16/32 100.100.100.200/32 192.0.0.192/32"
    " fe80::/10 fd00:42::42/128 fd00:c1::a9fe:a9fe/128 fd00:ec2::/32 fd20:ce::254/128"
)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # an IPv4 address follows in the last 32 bits
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}")
LOOPBACK: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
# `localhost`, names under it, and the other names of the machine that systems put into /etc/hosts.
_LOOPBACK_NAMES = re.compile(r"([^%]*\.)?localhost|localhost[46]?(\.localdomain[46]?)?|ip6-(localhost|loopback)")


class AddressRefused(RelaydeckError):
    """The address is not public, and the operator does not allow it."""


class AddressGuard:
    """Permits public addresses and those in `allow`; with `private`, loopback and private addresses too.

    Nothing permits link-local and metadata addresses.
    """

    def __init__(self, allow: Sequence[AddressRange] = (), *, private: bool = False) -> None:
        self._allow = tuple(allow)
        self._private = private

    def permits(self, address: Address) -> bool:
        """The allow list applies to an address as it is: `127.0.0.0/8` does not cover `::ffff:127.0.0.1`."""
        if _is_metadata(address):
            return False
        return self._private or _is_in(self._allow, address) or _is_public(address)

    def require(self, text: str) -> None:
        """Raises AddressRefused."""
        try:
            address = ip_address(text.partition("%")[0])  # without the zone
        except ValueError:
            raise AddressRefused("not an address") from None
        if not self.permits(address):
            raise AddressRefused("the address is not public and not in the allow list")

    def socket_for(self, info: Any) -> socket.socket:
        """A socket for one resolved address, unless it is refused: the last check before the connection."""
        family, kind, protocol, _, where = info
        self.require(where[0])
        return socket.socket(family, kind, protocol)


def stated_addresses(host: str) -> tuple[Address, ...]:
    """The addresses that a host in lower case states without a name server: none for names of other machines."""
    if _LOOPBACK_NAMES.fullmatch(host):
        return LOOPBACK
    try:
        # As the system's resolver reads it: `127.1` and `0x7f000001` are addresses.
        return (
            IPv4Address(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else ip_address(host.partition("%")[0]),
        )
    except (OSError, ValueError):
        return ()


ANYWHERE = AddressGuard(private=True)  # for servers that the operator chose: link-local and metadata ones are refused


def _is_in(networks: Sequence[AddressRange], address: Address) -> bool:
    return any(address in each for each in networks)


def _is_metadata(address: Address) -> bool:
    spellings: list[Address] = [address, *(_embedded_v4(address) if isinstance(address, IPv6Address) else ())]
    return any(_is_in(_METADATA, each) for each in spellings)


def _embedded_v4(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address may lead to.

    6to4, Teredo and ISATAP have public prefixes. Others (mapped, compatible, translated, NAT64 with a prefix of the
    operator's own) are recognised by their last 32 bits, where nearly all of them have the IPv4 address.
    """
    found = [address.sixtofour, *(address.teredo or ())]
    high, low = int(address) >> 32, int(address) & 0xFFFF_FFFF
    if address not in _PUBLIC_V6 or high & 0xFFFF_FFFF in _ISATAP:
        found.append(IPv4Address(low))
    return [each for each in found if each is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _is_in(_REFUSED_V4, address)
    if address not in _PUBLIC_V6 or _is_in(_REFUSED_V6, address):
        return False
    return int(address) >> 32 & 0xFFFF_FFFF not in _ISATAP
