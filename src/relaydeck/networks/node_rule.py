"""Which URLs of nodes may be set over HTTP: those that do not lead into the operator's own network.

An operator on the machine may set any URL. A URL that somebody sets over HTTP is judged by its host: by its address,
in any spelling, or by a name that only private networks have. A public name may still lead to a private address. No
connection is made to judge it; `RELAYDECK_RPC_GUARD=on` checks every connection.
"""

from typing import NamedTuple

from yarl import URL

from relaydeck.address_guard import AddressGuard, stated_addresses
from relaydeck.setting_values import AddressRange

NOT_PUBLIC = "is not public: set it with a command on the server's machine, or allow it with RELAYDECK_RPC_ALLOW"
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
        addresses = stated_addresses(host)
        guard = AddressGuard(self.allow)
        permitted = any(map(guard.permits, addresses)) if addresses else self._permits_name(host)
        return "" if permitted else NOT_PUBLIC

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


ANYWHERE = NodeRule()
