"""The address of a service, read once."""

from typing import NamedTuple
from urllib.parse import urlsplit


class Address(NamedTuple):
    secure: bool
    host: str
    port: int
    prefix: str  # of every path: a service may live below one

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def read_address(url: str) -> Address:
    """Raises ValueError, which does not quote the URL: it may hold a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the service's URL must start with http:// or https:// and name a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the service's URL must hold no user name, query or fragment; the token is an argument")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the service's URL must be percent-encoded and in ASCII, without blanks")
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, parts.port or (443 if secure else 80), parts.path.rstrip("/"))
