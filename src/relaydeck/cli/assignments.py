"""Builds one JSON document from `FIELD=TEXT` and `FIELD:=JSON` arguments and an optional file."""

import json
import sys
from pathlib import Path
from typing import Any

from relaydeck.errors import OperatorError


def document(source: str, assignments: tuple[str, ...]) -> dict[str, Any]:
    """The JSON object in `source` (a path, `-`, or empty for none), with the assignments applied to it."""
    found = _object(source) if source else {}
    for number, each in enumerate(assignments, 1):
        if not each.partition("=")[1] or each.startswith(("=", ":=")):
            # Not quoted: it may be a secret that was meant as a value.
            problem = f"field argument {number} is neither FIELD=TEXT nor FIELD:=JSON"
            raise OperatorError(problem, "FIELD=@FILE reads the value from a file.")
        _assign(found, each)
    return found


def _object(source: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(source))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OperatorError(f"{source} does not contain a JSON object")
    return found


def _assign(into: dict[str, Any], assignment: str) -> None:
    name, _, text = assignment.partition("=")
    *outer, last = name.removesuffix(":").split(".")
    for each in outer:
        into = into.setdefault(each, {})
        if not isinstance(into, dict):
            raise OperatorError(f"{name.removesuffix(':')} is inside a field that is not an object")
    value = _text(text[1:]) if text.startswith("@") else text
    into[last] = _value(name.removesuffix(":"), value) if name.endswith(":") else value


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise OperatorError(f"the value of {name} is not JSON", f"For a string write {name}=TEXT.") from None


def _text(source: str) -> str:
    """The content of a file without the final newline that editors add."""
    try:
        content = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except OSError as error:
        raise OperatorError(f"the file {source} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperatorError(f"the file {source} is not UTF-8 text") from None
    return content.removesuffix("\n").removesuffix("\r")
