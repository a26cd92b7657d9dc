"""The description of an interface, as `make docs` wrote it: `openapi.json` for machines, `docs` for people."""

import re
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from relaydeck.http.pipeline import JSON, Call, Reply

HTML = (b"content-type", b"text/html; charset=utf-8")
PLACEHOLDER = "http://HOST:PORT"  # stands in a page for the address of the service
_HOST = re.compile(rb"[A-Za-z0-9.:\[\]_-]{1,255}")


class Description:
    """That of `/api/v1` or `/admin/v1`.

    `serves_operations`: whether the operations are on the same port, so that the page can name their address.
    """

    def __init__(self, interface: Literal["api", "admin"], *, serves_operations: bool = True) -> None:
        self._interface = interface
        self._serves_operations = serves_operations

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, _document(self._interface), JSON)

    async def docs(self, call: Call) -> Reply:
        page = _file(f"{self._interface}.html")
        return _with_own_address(page, call) if self._serves_operations else Reply(200, page, HTML)


@cache
def _document(interface: str) -> bytes:
    """Without the lines that the file has for its readers."""
    return msgspec.json.format(_file(f"{interface}.json"), indent=-1)


@cache
def _file(name: str) -> bytes:
    return files("relaydeck.api").joinpath("documents", name).read_bytes()


def _with_own_address(page: bytes, call: Call) -> Reply:
    """The page with the address as the sender reached it; the placeholder stays when the request names no host.

    No cache may keep it: one sender's Host would be shown to others.
    """
    host, headers = call.headers.get(b"host", b""), ((b"cache-control", b"no-store"),)
    if not _HOST.fullmatch(host):
        return Reply(200, page, HTML, headers)
    scheme = b"https" if call.headers.get(b"x-forwarded-proto") == b"https" else call.scheme.encode()
    return Reply(200, page.replace(PLACEHOLDER.encode(), scheme + b"://" + host), HTML, headers)
