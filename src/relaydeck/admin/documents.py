"""The bodies of requests to the admin API: JSON objects of bounded depth and size."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder

Json = dict[str, Any]
_DEEPEST = 16
_MOST_VALUES = 10_000
_decode_document = body_decoder(dict[str, Any])


def read_document(headers: Mapping[bytes, bytes], body: bytes) -> Json:
    """Raises BadRequest."""
    document: Json = _decode_document(headers, body)
    refuse_deep(document, _MOST_VALUES)
    return document


def refuse_deep(document: Json, most_values: float = inf) -> None:
    """Raises BadRequest."""
    if problem := _size_problem(document, most_values):
        raise BadRequest(problem)


def _size_problem(value: Any, most_values: float) -> str:
    """No body of one record is nested more than a few times or has many values; the code that reads it is recursive."""
    level, count = [value], 0
    for _ in range(_DEEPEST):
        level = [part for each in level for part in _parts(each)]
        count += len(level)
        if count > most_values:
            return f"the body has more than {most_values} values"
    return "the body is nested too deep" if level else ""


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
