"""What a request to the console contains: query, form, cookies."""

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import unquote_to_bytes

from relaydeck.bounded_toml import short_turns
from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.pipeline import Call
from relaydeck.http.request import query_parameters

Fields = Sequence[tuple[str, str]]
Headers = Mapping[bytes, bytes]
_MOST_FIELDS = 2000
_LARGE = 16_384  # bytes of a form, from which on it is read in a thread: reading 1 MiB may take a second
_PIECE = 16_384  # bytes of a value that are decoded in one call
VIEW = {"theme": ("auto", "light", "dark"), "times": ("ago", "UTC", "local")}  # the first ones unless others are chosen


def query_of(call: Call) -> dict[str, str]:
    found = dict(query_parameters(call.query))
    if any("\0" in value for value in found.values()):
        raise BadRequest("a value in the query contains a NUL character")
    return found


async def read_form(call: Call, most: int, *, has_session: bool = False) -> Fields:
    """The fields of a form of at most so many bytes, in their order. Raises BodyTooLarge and BadRequest.

    The body is read here: a session and a page are found without it. Without a session it is that of a stranger.
    """
    if call.headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/x-www-form-urlencoded":
        raise BadRequest("the content type is not that of a form")
    body = call.body if call.read_body is None else await call.read_body(most, is_strangers=not has_session)
    return _fields(body) if len(body) < _LARGE else await asyncio.to_thread(_large_form, body)


def _large_form(body: bytes) -> Fields:
    with short_turns():
        return _fields(body)


def _fields(body: bytes) -> Fields:
    pairs = body.split(b"&", _MOST_FIELDS)
    if len(pairs) > _MOST_FIELDS:
        raise BadRequest(f"the form has more than {_MOST_FIELDS} fields")
    try:
        return [(_text(name), _text(value)) for name, _, value in (pair.partition(b"=") for pair in pairs if pair)]
    except UnicodeDecodeError:
        raise BadRequest("the form cannot be read") from None


def _text(encoded: bytes) -> str:
    """Decoded in pieces: to decode 1 MiB of escapes in one call holds the interpreter for too long."""
    encoded, pieces, start = encoded.replace(b"+", b" "), [], 0
    while start < len(encoded):
        end = start + _PIECE
        escape = encoded.rfind(b"%", end - 2, end)  # that would be cut
        end = end if escape < 0 else escape
        pieces.append(unquote_to_bytes(encoded[start:end]))
        start = end
    return b"".join(pieces).decode()


def cookies_of(headers: Headers) -> dict[str, str]:
    given = headers.get(b"cookie", b"").decode("latin-1")
    pairs = (part.strip().partition("=") for part in given.split(";"))
    return {name: value for name, _, value in pairs if name}


def view_of(headers: Headers) -> dict[str, str]:
    """The theme, and how times are shown, as the operator chose them."""
    cookies = cookies_of(headers)
    chosen = {name: cookies.get(f"relaydeck_{name}", "") for name in VIEW}
    return {name: chosen[name] if chosen[name] in choices else choices[0] for name, choices in VIEW.items()}


def theme_of(headers: Headers) -> str:
    return view_of(headers)["theme"]


def whole_number(text: str, most: int = 2**63 - 1) -> int | None:
    """A whole number from 0 to `most`; None: the text is none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def reason_of(error: RequestError) -> str:
    """What was wrong, for people."""
    return error.message if error.example else error.reason or error.message
