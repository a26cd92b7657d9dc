"""An answer, how a check of it ends when it does not hold, and what bodies must look like.

Every value comes from a foreign server and may have any type: nothing here assumes one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Json = dict[str, Any]
TOO_MANY_REQUESTS = "Too Many Requests"
UNAUTHORIZED = "Unauthorized"
_EXCERPT = 160
_PATH_OF_URL = re.compile(r'(https?://[^/\s"\\]+)/[^\s"\\]+')
TEXT, FLAG, INTEGER, NUMBER = "a string", "a boolean", "an integer", "a number"
OBJECT, ARRAY, TEXTS = "an object", "an array", "an array of strings"
_TYPES: dict[str, set[type]] = {TEXT: {str}, FLAG: {bool}, NUMBER: {int, float}, OBJECT: {dict}, ARRAY: {list}}
Fields = Mapping[str, str]  # the type of each


class Differs(Exception):
    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(expected, seen)
        self.expected = expected
        self.seen = seen


class NotChecked(Exception):
    """The check cannot be made with these options, or on this server; `options` would allow it."""

    def __init__(self, reason: str, *options: str) -> None:
        super().__init__(reason)
        self.options = options

    @classmethod
    def without(cls, *options: str) -> "NotChecked":
        return cls(f"needs {' and '.join(option.partition(' ')[0] for option in options)}", *options)


class DidNotOccur(Exception):
    """No answer to the requests that were allowed was a case of what is checked."""


def field(value: object, *path: str) -> Any:
    """What a foreign value holds there; None where it holds nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    request: str  # method and path
    basis: str = ""  # of the check that sent it

    @cached_property
    def json(self) -> Any:
        """None when it is not JSON, or too deeply nested to read."""
        try:
            return json.loads(self.body.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None

    @property
    def error(self) -> str:
        """The message of an error envelope; empty for any other body."""
        message = field(self.json, "message")
        return message if field(self.json, "success") is False and isinstance(message, str) else ""

    @property
    def is_limited(self) -> bool:
        return self.status == 429 or self.error == TOO_MANY_REQUESTS

    @property
    def shown(self) -> str:
        text = without_paths(self.body.decode("utf-8", "replace"))
        return f"{self.status} {text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}"


def without_paths(text: str) -> str:
    """Without the paths of URLs: those of nodes and webhooks hold keys."""
    return _PATH_OF_URL.sub(r"\1/…", text)


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are not JSON


def has_type(value: object, kind: str) -> bool:
    """JSON has one type of numbers: 1.0 and 1e0 are integers."""
    if kind == INTEGER:
        return has_type(value, NUMBER) and value == value // 1  # type: ignore[operator]
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return type(value) in _TYPES[kind]


def require_fields(record: object, fields: Fields, what: str) -> Json:
    """The record, in which each of these fields is present and has its type."""
    if not isinstance(record, dict):
        raise Differs(f"{what} is an object", repr(record))
    for name, kind in fields.items():
        if name not in record:
            raise Differs(f"{what} with {name}", f"fields {sorted(record)}")
        if not has_type(record[name], kind):
            raise Differs(f"{what}.{name} is {kind}", repr(record[name]))
    return record


def require_types(record: object, fields: Fields, what: str) -> int:
    """Each of these fields that has a value has its type: how many have one. Whether a field without a value is left
    out or null is open."""
    given = {name: kind for name, kind in fields.items() if field(record, name) is not None}
    require_fields(record, given, what)
    return len(given)


def success(answer: Answer, what: str) -> Json:
    """The body of a success envelope; raises Differs for anything else."""
    body = answer.json
    if not isinstance(body, dict) or body.get("success") is not True or "data" not in body:
        raise Differs(f"{what} answered with a success envelope", answer.shown)
    return body


def one(answer: Answer, what: str) -> Json:
    data = success(answer, what)["data"]
    if not isinstance(data, dict):
        raise Differs(f"{what} answered with data that is an object", answer.shown)
    return data


def many(answer: Answer, what: str) -> list[Json]:
    data = success(answer, what)["data"]
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise Differs(f"{what} answered with data that is an array of objects", answer.shown)
    return data


def pagination(answer: Answer, what: str) -> dict[str, int]:
    found = success(answer, what).get("pagination")
    if not isinstance(found, dict):
        raise Differs(f"{what} answered with a pagination object", answer.shown)
    names = ("current_page", "per_page", "total_items")
    require_fields(found, dict.fromkeys(names, INTEGER), "pagination")
    return {name: int(found[name]) for name in names}


def require_error(answer: Answer) -> Json:
    """The error envelope: data null, message a string, success false. Other fields are open."""
    body = answer.json
    if (
        field(body, "success") is not False
        or not isinstance(body.get("message"), str)
        or body.get("data", 0) is not None
    ):
        raise Differs("data null, message a string, success false", answer.shown)
    return body  # type: ignore[no-any-return]


def require_message(answer: Answer, message: str) -> None:
    if require_error(answer)["message"] != message:
        raise Differs(f'message "{message}"', answer.shown)


def equal(seen: object, expected: object, what: str, told: str = "") -> str:
    """Returns what a report tells: the expected value, unless something else is given."""
    return holds(seen == expected, f"{what}: {expected!r}", repr(seen), told or str(expected))


def holds(condition: bool, expected: str, seen: str, told: str = "") -> str:
    """Returns what a report tells. Raises Differs unless the condition holds."""
    if not condition:
        raise Differs(expected, seen)
    return told or expected


def each_has(records: Sequence[object], fields: Fields, what: str, *, none: str, counted: str) -> str:
    """Each of the records has these fields. None at all is not evidence."""
    if not records:
        raise DidNotOccur(none)
    for record in records:
        require_fields(record, fields, what)
    return f"{len(records)} {counted}"
