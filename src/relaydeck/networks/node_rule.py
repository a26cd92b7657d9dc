"""Which URLs of nodes may be set over HTTP, and which addresses nodes may have.

An operator on the machine may set any URL. A URL that somebody sets over HTTP is judged by its host: by its address,
in any spelling, or by a name that only private networks have. A public name may still lead to a private address, which
only a connection shows: a name that could have been set over HTTP is not connected to unless each of its addresses is
public or allowed.
"""

from typing import NamedTuple

from yarl import URL

from relaydeck.address_guard import ANYWHERE, AddressGuard, stated_addresses
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
        return "" if self.allow is None or self.permits_host(_host(url)) else NOT_PUBLIC

    def permits_host(self, host: str) -> bool:
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
        return _comparable(URL(url).raw_host or "")
    except ValueError:
        return ""


def _comparable(host: str) -> str:
    return host.lower().rstrip(".")


def _is_private_name(host: str) -> bool:
    return "." not in host or host.rpartition(".")[2] in _PRIVATE_NAMES


class _NodeGuard(AddressGuard):
    """An address, and a name whose addresses are known, was judged when it was set."""

    def __init__(self, allow: tuple[AddressRange, ...]) -> None:
        super().__init__(private=True)
        self._rule, self._strict = NodeRule(allow), AddressGuard(allow)

    def for_name(self, host: str) -> AddressGuard:
        name = _comparable(host)
        return self._strict if not stated_addresses(name) and self._rule.permits_host(name) else self


def node_guard(mode: str, allow: tuple[AddressRange, ...]) -> AddressGuard:
    """`mode`: as `RELAYDECK_RPC_GUARD` has it."""
    return {"on": AddressGuard(allow), "http": _NodeGuard(allow)}.get(mode, ANYWHERE)


EVERY_NODE = NodeRule()
