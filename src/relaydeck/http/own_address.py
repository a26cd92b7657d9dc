"""The address of this service, as the sender of a request reached it."""

import re

from relaydeck.http.pipeline import Call, Reply

HTML = (b"content-type", b"text/html; charset=utf-8")
PLACEHOLDER = "http://HOST:PORT"  # stands in a page for the address
_HOST = re.compile(rb"[A-Za-z0-9.:\[\]_-]{1,255}")


def page_with_own_address(page: bytes, call: Call) -> Reply:
    """The page with the address instead of the placeholder, which stays when the request does not name a host.

    No cache may keep it: one sender's Host would be shown to others.
    """
    host, headers = call.headers.get(b"host", b""), ((b"cache-control", b"no-store"),)
    if not _HOST.fullmatch(host):
        return Reply(200, page, HTML, headers)
    scheme = b"https" if call.headers.get(b"x-forwarded-proto") == b"https" else call.scheme.encode()
    return Reply(200, page.replace(PLACEHOLDER.encode(), scheme + b"://" + host), HTML, headers)
