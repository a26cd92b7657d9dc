"""The address of a client: its peer, or the address that a trusted proxy states in X-Forwarded-For."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address

from relaydeck.setting_values import AddressRange

Peer = tuple[str, object] | None


class ClientAddress:
    def __init__(self, trusted: Sequence[AddressRange]) -> None:
        self._trusted = tuple(trusted)
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def address_of(self, peer: Peer, forwarded: bytes | None) -> str:
        if peer is None:
            return "-"
        if forwarded and self._trusted and self._trusts(peer[0]):
            return self._forwarded(peer[0], forwarded)
        return peer[0]

    def _forwarded(self, peer: str, forwarded: bytes) -> str:
        """The last address that is not a trusted proxy."""
        client = peer
        for hop in reversed(forwarded.decode("latin-1").split(",")):
            try:
                client = _plain_address(hop.strip())
            except ValueError:
                break  # a trusted proxy writes addresses only
            if not self._trusts(client):
                break
        return client

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in trusted for trusted in self._trusted)


def _plain_address(text: str) -> str:
    if "%" in text:
        raise ValueError  # a zone may contain any character, even one that ends a field of the log
    return str(ip_address(text))
