"""What a request to the console contains: query, form, cookies."""

from urllib.parse import parse_qsl

import msgspec

from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.parameters import query_parameters
from relaydeck.http.pipeline import Call

_MOST_FIELDS = 2000
_THEMES = ("light", "dark")


def query_of(call: Call) -> dict[str, str]:
    found = dict(query_parameters(call.query))
    if any("\0" in value for value in found.values()):
        raise BadRequest("a value in the query contains a NUL character")
    return found


async def with_form(call: Call, most: int) -> Call:
    """The call with its body. A session and a page are found without it. Raises BodyTooLarge."""
    return call if call.read_body is None else msgspec.structs.replace(call, body=await call.read_body(most))


def form_fields(call: Call) -> list[tuple[str, str]]:
    """Raises BadRequest."""
    if call.headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/x-www-form-urlencoded":
        raise BadRequest("the content type is not that of a form")
    try:
        return parse_qsl(call.body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise BadRequest("the form cannot be read") from None


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
