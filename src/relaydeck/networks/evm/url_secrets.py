"""The parts of an RPC URL and its headers that may be a key, in every spelling in which a node may quote them."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urlsplit

_SHORTEST_SEGMENT = 4  # of a path: "v2" and "rpc" are not keys
_SHORTEST_VALUE = 3  # of a query, a user name or a password: hiding "1" would make every message unreadable


def secrets_pattern(url: str, headers: Iterable[str] = ()) -> "re.Pattern[str]":
    """Matches each part of the URL, and of the values of its headers, that may be a key, the longest first."""
    try:
        found = {spelling for part in _parts(urlsplit(url)) for spelling in _spellings(part)}
    except ValueError:
        found = {url}
    found |= {spelling for value in headers for part in (value, *value.split()) for spelling in _spellings(part)}
    longest_first = sorted(found, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)


def _parts(url: SplitResult) -> Iterator[str]:
    yield from (segment for segment in url.path.split("/") if len(segment) >= _SHORTEST_SEGMENT)
    pairs = (pair.partition("=") for pair in url.query.split("&"))
    values = [value if equals else name for name, equals, value in pairs]
    user, password = url.username or "", url.password or ""
    yield from (each for each in (*values, user, password, url.fragment) if len(each) >= _SHORTEST_VALUE)
    if user or password:
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode().rstrip("=")  # as Basic sends it


def _spellings(part: str) -> set[str]:
    plain = unquote(part)
    spellings = {part, plain, unquote_plus(part), quote(plain), quote(plain, safe="")}
    return {each for each in spellings if len(each) >= _SHORTEST_VALUE}
