"""Responses of the console, with the headers that every page has."""

import hashlib
from collections.abc import AsyncGenerator
from functools import cache
from pathlib import Path
from urllib.parse import quote

from relaydeck.errors import UnknownPath
from relaydeck.http.pipeline import Reply

ROOT = "/console"
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8", ".svg": b"image/svg+xml"}
_HTML = (b"content-type", b"text/html; charset=utf-8")
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it, browsers send `Origin: null` with a form.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
Headers = tuple[tuple[bytes, bytes], ...]


def page(html: str, status: int = 200, headers: Headers = ()) -> Reply:
    return Reply(status, html.encode(), _HTML, (*_PAGE_HEADERS, *headers))


def event_stream(stream: AsyncGenerator[bytes]) -> Reply:
    return Reply(200, b"", (b"content-type", b"text/event-stream"), _PAGE_HEADERS, stream)


def redirect(path: str, headers: Headers = ()) -> Reply:
    """To a path below the console, as a GET."""
    location = (b"location", f"{ROOT}{path}".encode())
    return Reply(303, b"", _HTML, (*_PAGE_HEADERS, location, *headers))


def path_to(*parts: str) -> str:
    """The path of a page, with identifiers percent-encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


@cache
def asset_version() -> str:
    """Part of the address of every asset, so that a browser may keep it until it changes."""
    digest = hashlib.sha256()
    for path in sorted(_STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def asset(name: str) -> Reply:
    """A style sheet or script. Raises UnknownPath."""
    path = _STATIC / name
    if path.parent != _STATIC or not path.is_file():
        raise UnknownPath("no such asset")
    headers = (
        (b"cache-control", b"public, max-age=31536000, immutable"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )
    return Reply(200, path.read_bytes(), (b"content-type", _TYPES[path.suffix]), headers)
