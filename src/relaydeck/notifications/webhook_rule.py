"""A hint about a webhook that the service refuses to send events to, as far as its URL alone shows that."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from yarl import URL

from relaydeck.address_guard import Address, AddressGuard
from relaydeck.setting_values import AddressRange

REFUSED = (
    "leads to an address that is not public: the service sends events there only if its RELAYDECK_WEBHOOK_ALLOW"
    " allows the address"
)
_LOOPBACK: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class WebhookRule(NamedTuple):
    allow: tuple[AddressRange, ...] | None = None  # None: not known, so there is no hint

    def hint(self, url: str) -> str:
        """Empty for a name other than `localhost`: where it leads is only known when it is resolved."""
        addresses = _addresses(url)
        if self.allow is None or not addresses:
            return ""
        guard = AddressGuard(self.allow)
        return "" if any(guard.permits(each) for each in addresses) else REFUSED


def _addresses(url: str) -> tuple[Address, ...]:
    """Of which the host has at least one; none if they are not known. The host is the one that the client reads."""
    try:
        host = URL(url).raw_host or ""
        return _LOOPBACK if host == "localhost" else (ip_address(host.partition("%")[0]),)
    except ValueError:
        return ()
