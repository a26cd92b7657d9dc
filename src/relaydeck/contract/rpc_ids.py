"""The id of a JSON-RPC request, as its answer repeats it."""

import re

import msgspec

from relaydeck.errors import BadRequest

_NUMBER = re.compile(rb"-?[0-9]")


def rpc_id(raw: msgspec.Raw) -> str | None:
    """The id a response repeats: a string as it is, a number as its text as sent, null for none."""
    sent = bytes(raw)
    if sent == b"null":
        return None
    if _NUMBER.match(sent):
        return sent.decode()
    if sent.startswith(b'"'):
        text: str = msgspec.json.decode(sent, type=str)
        return text
    raise BadRequest("id must be a string, a number or null")
