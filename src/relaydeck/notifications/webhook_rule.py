"""Hints about a webhook that the service cannot or may not send events to, as far as its URL alone shows that.

No name is resolved: where a public name leads is only known when an event is sent.
"""

import re
from ipaddress import ip_address
from typing import NamedTuple

from relaydeck.outgoing.address_guard import AddressGuard, stated_addresses
from relaydeck.settings.values import AddressRange

REFUSED = (
    "leads to an address that is not public: the service sends events there only if its RELAYDECK_WEBHOOK_ALLOW"
    " allows the address"
)
UNREADABLE = "has a host that the service cannot connect to, so it sends no events there"
# A name of another machine. Most URLs begin like this, and reading one in full costs fifty times as much.
_PUBLIC_NAME = re.compile(
    r"https?://(?:[a-z0-9-]{1,63}\.)+[a-z]{2,63}(?<!localhost)(?<!localdomain)(?::[0-9]+)?(?=[/?#]|\Z)"
)


class WebhookRule(NamedTuple):
    allow: tuple[AddressRange, ...] | None = None  # None: not known, so there is no hint

    def hint(self, url: str) -> str:
        """What follows `url` in a sentence; empty if there is nothing to say."""
        if self.allow is None or _PUBLIC_NAME.match(url):
            return ""
        host = _host(url)
        if host is None:
            return UNREADABLE
        addresses, guard = stated_addresses(host), AddressGuard(self.allow)
        return "" if not addresses or any(map(guard.permits, addresses)) else REFUSED


def _host(url: str) -> str | None:
    """The host as the client that sends events reads it; None if it cannot connect to it."""
    from yarl import URL

    try:
        host = (URL(url).raw_host or "").lower()
        if host.replace(".", "").isdigit():
            ip_address(host)  # of the spellings in digits, the client takes no other than four decimal parts
        host = host.removesuffix(".")
        host.encode("idna")  # as for the resolver, which takes no empty and no overlong label
    except ValueError:
        return None
    return host
