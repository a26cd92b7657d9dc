"""What a request to the console contains: query, form, cookies."""

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

import msgspec

from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.parameters import query_parameters
from relaydeck.http.pipeline import Call

Fields = Sequence[tuple[str, str]]
_MOST_FIELDS = 2000
_LARGE = 16_384  # bytes of a form, from which on it is read in a thread: reading 1 MiB may take a second
_THEMES = ("light", "dark")


def query_of(call: Call) -> dict[str, str]:
    found = dict(query_parameters(call.query))
    if any("\0" in value for value in found.values()):
        raise BadRequest("a value in the query contains a NUL character")
    return found


async def with_form(call: Call, most: int) -> Call:
    """The call with its body. A session and a page are found without it. Raises BodyTooLarge."""
    return call if call.read_body is None else msgspec.structs.replace(call, body=await call.read_body(most))


async def read_form(call: Call) -> Fields:
    """The fields of a form, which may be large. Raises BadRequest."""
    return form_fields(call) if len(call.body) < _LARGE else await asyncio.to_thread(form_fields, call)


def form_fields(call: Call) -> Fields:
    """Raises BadRequest."""
    if call.headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/x-www-form-urlencoded":
        raise BadRequest("the content type is not that of a form")
    pairs = call.body.split(b"&", _MOST_FIELDS)
    try:
        if len(pairs) <= _MOST_FIELDS:
            return [
                (_decoded(name), _decoded(value)) for name, _, value in (each.partition(b"=") for each in pairs if each)
            ]
    except UnicodeDecodeError:
        pass
    raise BadRequest("the form cannot be read")


def _decoded(text: bytes) -> str:
    """In slices, between which other threads run."""
    parts, start = [], 0
    while start < len(text):
        end = start + _LARGE
        escape = text.rfind(b"%", end - 2, end)
        end = end if escape < 0 else escape  # a slice does not end within an escape
        parts.append(unquote_to_bytes(text[start:end].replace(b"+", b" ")))
        start = end
    return b"".join(parts).decode()


def cookies_of(call: Call) -> dict[str, str]:
    given = call.headers.get(b"cookie", b"").decode("latin-1")
    pairs = (part.strip().partition("=") for part in given.split(";"))
    return {name: value for name, _, value in pairs if name}


def theme_of(call: Call) -> str:
    """The theme that the operator chose; empty: that of the system."""
    chosen = cookies_of(call).get("relaydeck_theme", "")
    return chosen if chosen in _THEMES else ""


def reason_of(error: RequestError) -> str:
    """What was wrong, for people."""
    return error.message if error.example else error.reason or error.message
