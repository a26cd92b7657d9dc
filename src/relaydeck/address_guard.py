"""The addresses that a URL from outside may lead to: public ones, and those that the operator allows.

The check happens where the connection is made. `guarded_connector` resolves a name once, refuses the name when any of
its addresses is refused, and checks again each address that it opens a socket for. No spelling of a host, no second
response of a name server and no literal address bypasses it. The Host header and the TLS name remain those of the URL.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from relaydeck.errors import RelaydeckError
from relaydeck.settings import AddressRange

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

# The special-purpose registry of IANA, plus the metadata service of a cloud at a public address.
_REFUSED_V4 = tuple(
    ip_network(each)
    for each in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
# The only range of public addresses: mapped, compatible, NAT64, unique-local and link-local ones are outside.
_PUBLIC_V6 = ip_network("2000::/3")
_REFUSED_V6 = tuple(
    ip_network(each)
    for each in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3ffe::/16",
        "3fff::/20",
    )
)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # an IPv4 address follows in the last 32 bits


class AddressRefused(RelaydeckError):
    """The address is not public, and the operator does not allow it."""


class AddressGuard:
    def __init__(self, allow: Sequence[AddressRange] = ()) -> None:
        self._allow = tuple(allow)

    def permits(self, address: Address) -> bool:
        """The allow list applies to an address as it is: `127.0.0.0/8` does not cover `::ffff:127.0.0.1`."""
        if any(address in allowed for allowed in self._allow):
            return True
        return _is_public_v4(address) if isinstance(address, IPv4Address) else _is_public_v6(address)

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


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in refused for refused in _REFUSED_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address not in _PUBLIC_V6 or any(address in refused for refused in _REFUSED_V6):
        return False
    return int(address) >> 32 & 0xFFFF_FFFF not in _ISATAP


class SystemResolver:
    """Resolves names with the system resolver in its own threads, so that a hanging name server delays nothing else."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return [str(where[0]) for _, _, _, _, where in found]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class _GuardedResolver(AbstractResolver):
    def __init__(self, guard: AddressGuard, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host, port)
        if not addresses:
            raise OSError("the name has no address")
        for address in addresses:
            self._guard.require(address)  # one refused address refuses the name
        return [_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        return None


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


def guarded_connector(
    guard: AddressGuard, resolve: Resolve, *, tls: ssl.SSLContext | bool = True, keep_alive_seconds: float = 30
) -> aiohttp.TCPConnector:
    """A connector that checks every connection. A connection that is kept alive was checked when it was opened."""
    return aiohttp.TCPConnector(
        resolver=_GuardedResolver(guard, resolve),
        use_dns_cache=False,
        socket_factory=guard.socket_for,
        limit=0,
        ssl=tls,
        keepalive_timeout=keep_alive_seconds,
    )
