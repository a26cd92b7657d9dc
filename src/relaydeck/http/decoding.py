"""Decodes the body of a request into a typed object, or refuses it with a reason that never quotes a value."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from relaydeck.errors import BadRequest
from relaydeck.fields import invalid_field
from relaydeck.secret import decode_secret

T = TypeVar("T")

# msgspec's messages are safe to repeat, except for two that quote the caller: a value that is not allowed, and the name
# of an unknown field. A quoted text can contain anything, even the words of msgspec itself.
_REFUSED = ("Invalid value ", "Invalid enum value ")
_UNKNOWN = "Object contains unknown field "


# sentence: 4-json 4.1-bad-request 4.3-bad-request 4.5-bad-request
def body_decoder(shape: Any) -> Callable[[Mapping[bytes, bytes], bytes], Any]:
    """A function that checks content type and body, and returns a `shape`. It raises BadRequest."""
    decode = msgspec.json.Decoder(shape, dec_hook=decode_secret).decode

    def decode_body(headers: Mapping[bytes, bytes], body: bytes) -> Any:
        require_json(headers)
        try:
            if not body.isascii():
                body.decode()  # the decoder does not check parts that it keeps undecoded
            value = decode(body)
        except msgspec.ValidationError as error:
            raise BadRequest(reason_of(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadRequest("the body is not valid JSON") from None
        except RecursionError:
            raise BadRequest("the body is nested too deep") from None
        if isinstance(value, msgspec.Struct) and (problem := invalid_field(value)):
            raise BadRequest(problem)
        return value

    return decode_body


def reason_of(error: msgspec.ValidationError) -> str:
    """What msgspec found wrong, without any text of the caller."""
    text = str(error)
    if text.startswith(_UNKNOWN):
        return "config holds an unknown field" if text.endswith(" - at `$.config`") else "unknown field"
    if text.startswith(_REFUSED):
        text = "value is not one of those allowed - at " + text.rpartition(" - at ")[2]
    return text.replace("`", "").encode("ascii", "replace").decode()[:200]


def require_json(headers: Mapping[bytes, bytes]) -> None:
    given = headers.get(b"content-type")
    if given == b"application/json":
        return
    if given is None:
        raise BadRequest("the content type is missing")
    media_type = given.split(b";", 1)[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        raise BadRequest("the content type is not JSON")
