"""From the bytes of a request to a typed object, or a refusal that says why without quoting a value."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from relaydeck.errors import BadRequest
from relaydeck.secret import decode_secret

T = TypeVar("T")

# What msgspec says is safe but for two messages that quote the caller: a value that is not allowed, and the
# name of an unknown field. What is quoted may hold anything, even the words msgspec itself uses.
_REFUSED = ("Invalid value ", "Invalid enum value ")
_UNKNOWN = "Object contains unknown field "


def body_decoder(shape: Any) -> Callable[[Mapping[bytes, bytes], bytes], Any]:
    """A function that checks content type and body and gives a `shape`. Raises BadRequest."""
    decode = msgspec.json.Decoder(shape, dec_hook=decode_secret).decode

    def decode_body(headers: Mapping[bytes, bytes], body: bytes) -> Any:
        require_json(headers)
        try:
            if not body.isascii():
                body.decode()  # parts that are kept as they came are not checked by the decoder
            return decode(body)
        except msgspec.ValidationError as error:
            raise BadRequest(reason_of(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadRequest("the body is not valid JSON") from None
        except RecursionError:
            raise BadRequest("the body is nested too deep") from None

    return decode_body


def reason_of(error: msgspec.ValidationError) -> str:
    """What msgspec found wrong, in words that hold only field names of ours."""
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
