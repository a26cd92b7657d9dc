"""URLs of webhooks, nodes and key systems, and the headers of requests to nodes."""

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from relaydeck.fields import TextForm, value_type
from relaydeck.secret import Secret

LONGEST_ADDRESS = 2048
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
# A URL that begins with its shown form, and has no problem. Most do, and parsing one costs ten times as much as this
# match. A user name or password before the host does not match: the host must end at the path, the query, the fragment
# or the end.
_PLAIN_ORIGIN = re.compile(r"((?:http|ws)s?)://[a-z0-9.-]+(?::[1-9][0-9]{0,3})?(?=[/?#]|\Z)")
# The address of a key system or token endpoint: nothing in it can be read in two ways, or swallow what follows it.
_PLAIN_ADDRESS = re.compile(
    r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:/(?!\.{1,2}(?:/|\Z))[a-z0-9._~-]+)*/?", re.IGNORECASE
)
_HOST = re.compile(r"[^\s/?#@\[\]<>^`{|}%:\"]+")


def web_address_problem(value: str) -> str:
    """What is wrong with `value` as an absolute http(s) URL; empty when nothing is."""
    return _address_problem(value, ("http", "https"), "http:// or https://")


def node_address_problem(value: str) -> str:
    """What is wrong with `value` as the URL of a node; empty when nothing is."""
    return _address_problem(value, ("http", "https", "ws", "wss"), "http://, https://, ws:// or wss://")


def key_system_address_problem(value: str) -> str:
    """What is wrong with `value` as the address of a key system; empty when nothing is."""
    if problem := web_address_problem(value):
        return problem
    return "" if _PLAIN_ADDRESS.fullmatch(value) else "must consist of a scheme, a host, a port and a plain path"


def _address_problem(value: str, schemes: tuple[str, ...], beginnings: str) -> str:
    if len(value) > LONGEST_ADDRESS:
        return f"must have at most {LONGEST_ADDRESS} characters"
    # urlsplit silently drops tabs, newlines and leading blanks: refuse them before it sees them.
    if _FORBIDDEN.search(value):
        return "must not contain blanks, control characters or backslashes"
    if (plain := _PLAIN_ORIGIN.match(value)) and plain[1] in schemes:
        return ""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "must be an absolute http(s) URL"
    if parts.scheme not in schemes:
        return f"must begin with {beginnings}"
    if not host or not _is_host(host, bracketed="[" in parts.netloc):
        return "must name a host"
    return ""


def _is_host(host: str, *, bracketed: bool) -> bool:
    if not bracketed:
        return bool(_HOST.fullmatch(host))
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def shown_address(value: str) -> str:
    """Scheme, host and port: the part of a URL that may appear in logs, errors, events and audit."""
    if plain := _PLAIN_ORIGIN.match(value):
        return plain[0]
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port  # each read parses again
    except ValueError:
        return "an unreadable URL"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"


def may_contain_key(value: str) -> bool:
    """Whether a URL has a user part, a path or a query."""
    _, _, rest = value.partition("://")
    _, _, path = rest.partition("/")
    return bool(path) or any(mark in rest for mark in "@?#")


def _address(problem: Callable[[str], str], form: str, pattern: str) -> Meta:
    return value_type(
        problem, TextForm(form, show=shown_address), format="uri", maxLength=LONGEST_ADDRESS, pattern=pattern
    )


WebAddress = Annotated[str, _address(web_address_problem, "an absolute http(s) URL", "^[Hh][Tt][Tt][Pp][Ss]?://")]
NodeAddress = Annotated[
    str,
    _address(node_address_problem, "an absolute http(s) or ws(s) URL", "^([Hh][Tt][Tt][Pp]|[Ww][Ss])[Ss]?://"),
]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Headers of the connection itself: another value would change what a request is, not who sends it.
_OWN_HEADERS = re.compile(
    r"host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|accept-encoding|sec-websocket-.*",
    re.IGNORECASE,
)


def header_name_problem(value: str) -> str:
    """What is wrong with `value` as the name of a header that an operator may set; empty when nothing is."""
    if not _TOKEN.fullmatch(value):
        return "must be the name of an HTTP header: letters, digits and hyphens"
    return "must not be a header that the service sets itself" if _OWN_HEADERS.fullmatch(value) else ""


def header_value_problem(value: str) -> str:
    """What is wrong with `value` as the value of a header; empty when nothing is."""
    if not value or value != value.strip(" \t"):
        return "must not be empty, and must not begin or end with a blank"
    return "" if _HEADER_TEXT.fullmatch(value) else "must contain printable ASCII characters only"


_HEADER_TEXT = re.compile(r"[\x20-\x7e\t]+")
HeaderValue = Annotated[Secret, value_type(header_value_problem)]
HeaderName = Annotated[
    str, value_type(header_name_problem, TextForm("the name of a header"), pattern="^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
