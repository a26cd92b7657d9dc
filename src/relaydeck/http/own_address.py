"""The address of this service, as the sender of a request reached it."""

import re

from relaydeck.http.pipeline import Call

PLACEHOLDER = "http://HOST:PORT"  # stands in a page for the address
_HOST = re.compile(rb"[A-Za-z0-9.:\[\]_-]{1,255}")


def with_own_address(page: bytes, call: Call) -> bytes:
    """The page with the address instead of the placeholder, which stays when the request does not name a host."""
    host = call.headers.get(b"host", b"")
    if not _HOST.fullmatch(host):
        return page
    scheme = b"https" if call.headers.get(b"x-forwarded-proto") == b"https" else call.scheme.encode()
    return page.replace(PLACEHOLDER.encode(), scheme + b"://" + host)
