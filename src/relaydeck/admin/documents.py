"""The bodies of requests to the admin API: JSON objects of bounded depth and number of values.

A decoder does not let other threads run until it has finished, so that the event loop waits even for one in another
thread. Therefore a body with too many values is refused before it is decoded, and a large one, which only an apply
document is, is decoded record by record.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.api.records import ApplyRequest
from relaydeck.bounded_toml import most_values
from relaydeck.errors import BadRequest
from relaydeck.http.body import body_decoder, reason_of
from relaydeck.secret import decode_secret

Json = dict[str, Any]
_DEEPEST = 16
_MOST_VALUES = 10_000
_SMALL, _LARGEST_RECORD = 262_144, 1_048_576
_MOST_RECORDS = 250_000
_MARKS = (b",", b"[", b"{")
_GAP = re.compile(r"[ \t\n\r,:]*+")
_NOT_JSON = "the body is not valid JSON"
_TOO_DEEP = "the body is nested too deep"
_scan = json.JSONDecoder().raw_decode
_decode_document = body_decoder(dict[str, Any])
_decode_apply = body_decoder(ApplyRequest)


class _LargeApply(msgspec.Struct, forbid_unknown_fields=True):
    """A large apply request before its records are decoded."""

    document: dict[str, msgspec.Raw]
    references: msgspec.Raw | UnsetType = UNSET
    prune: msgspec.Raw | UnsetType = UNSET
    plan_only: msgspec.Raw | UnsetType = UNSET


_decode_outline = body_decoder(_LargeApply)


def read_document(headers: Mapping[bytes, bytes], body: bytes) -> Json:
    refuse_many(body)
    document: Json = _decode_document(headers, body)
    refuse_deep(document, _MOST_VALUES)
    return document


def refuse_many(body: bytes) -> None:
    """Refuse a body with more values than honest text of its size contains. Raises BadRequest."""
    most, count = most_values(len(body)), 0
    for start in range(0, len(body), _SMALL):
        count += sum(body.count(mark, start, start + _SMALL) for mark in _MARKS)
        if count > most:
            raise BadRequest(f"the body has more than {most} values")


def refuse_deep(document: Json, most_values: float = inf) -> None:
    """The code that reads a document is recursive, and no record is nested more than a few times. Raises BadRequest."""
    level, count = [document], 0
    for _ in range(_DEEPEST):
        level = [part for each in level for part in _parts(each)]
        count += len(level)
        if count > most_values:
            raise BadRequest(f"the body has more than {most_values} values")
    if level:
        raise BadRequest(_TOO_DEEP)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def decode_apply(headers: Mapping[bytes, bytes], body: bytes) -> ApplyRequest:
    """A large one is decoded record by record. Raises BadRequest."""
    refuse_many(body)
    if len(body) <= _SMALL:
        return _decode_apply(headers, body)  # type: ignore[no-any-return]
    given: _LargeApply = _decode_outline(headers, body)
    document = {name: _decoded_by_record(each) for name, each in given.document.items()}
    options = {"prune": given.prune, "plan_only": given.plan_only}
    rest = {name: _decoded(each) for name, each in options.items() if each is not UNSET}
    references = {} if given.references is UNSET else {"references": _decoded_by_record(given.references)}
    try:
        return msgspec.convert({"document": document, **rest, **references}, ApplyRequest, dec_hook=decode_secret)
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error)) from None


def _decoded_by_record(raw: msgspec.Raw) -> Any:
    """An array or object, each item by itself. It is known to be JSON, except for the content of its strings."""
    text = bytes(raw).decode()
    if len(text) <= _LARGEST_RECORD:
        return _decoded(text)
    if text[0] == "[":
        return [_decoded(each) for each in _items(text)]
    if text[0] != "{":
        raise BadRequest("the document contains a text or a number in place of records")
    items = iter(_items(text))
    return {_decoded(name): _decoded(next(items)) for name in items}


def _items(text: str) -> Iterator[str]:
    """The texts of the items of an array; of an object, those of its names and values in turn. Raises BadRequest."""
    at, end, left = _end_of_gap(text, 1), len(text) - 1, _MOST_RECORDS
    while at < end:
        window, start = text[at : at + _LARGEST_RECORD], 0
        while stop := _end_of_value(window, start):
            if not left:
                raise BadRequest(f"the document has more than {_MOST_RECORDS} records of a kind")
            yield window[start:stop]
            start, left = _end_of_gap(window, stop), left - 1
        if not start:
            raise BadRequest(f"a record has more than {_LARGEST_RECORD} characters")
        at = _end_of_gap(text, at + start)


def _end_of_value(window: str, start: int) -> int:
    """0: the value is not as a whole in the window."""
    try:
        stop = _scan(window, start)[1]
    except ValueError:
        return 0
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    return stop if stop < len(window) else 0


def _end_of_gap(text: str, start: int) -> int:
    return _GAP.match(text, start).end()  # type: ignore[union-attr]


def _decoded(text: str | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        raise BadRequest(_NOT_JSON) from None
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None


def release(document: Json) -> None:
    """Free the records of a document one by one: to free a large one at once would stop all other threads."""
    for records in document.values():
        while isinstance(records, dict | list) and records:
            records.popitem() if isinstance(records, dict) else records.pop()
