"""What bodies must look like, as functions that return the first problem found."""

from collections.abc import Callable, Mapping
from typing import Any

from relaydeck.conformance.probe import Answer
from relaydeck.conformance.verdicts import Differs

Json = dict[str, Any]


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


NAMES: dict[Callable[[object], bool], str] = {
    is_text: "a string",
    is_flag: "a boolean",
    is_whole: "an integer",
    is_number: "a number",
    is_object: "an object",
    is_texts: "an array of strings",
}


def require_fields(record: Json, fields: Mapping[str, Callable[[object], bool]], what: str, *, all_of: bool) -> None:
    """Each field present has its type; with `all_of` each is present."""
    for name, has_type in fields.items():
        if name not in record:
            if all_of:
                raise Differs(f"{what} with {name}", f"fields {sorted(record)}")
        elif not has_type(record[name]):
            raise Differs(f"{what}.{name} is {NAMES[has_type]}", repr(record[name]))


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


def pagination(answer: Answer, what: str) -> Json:
    found = success(answer, what).get("pagination")
    if not isinstance(found, dict):
        raise Differs(f"{what} answered with a pagination object", answer.shown)
    require_fields(
        found, dict.fromkeys(("current_page", "per_page", "total_items"), is_whole), "pagination", all_of=True
    )
    return found


def require_message(answer: Answer, message: str) -> None:
    """The error envelope with that message: data null, message, success false, and nothing else."""
    expected = {"data": None, "message": message, "success": False}
    body = answer.json
    if not isinstance(body, dict) or body.get("message") != message:
        raise Differs(f'message "{message}"', answer.shown)
    if body != expected:
        raise Differs(f"exactly {expected}", answer.shown)


def equal(seen: object, expected: object, what: str) -> None:
    if seen != expected:
        raise Differs(f"{what}: {expected!r}", repr(seen))
