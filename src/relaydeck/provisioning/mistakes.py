"""The text of a file as a document, and the mistakes in it: all at once, each with its place. A value is never quoted.

Imports nothing of the server: remote commands read files too.
"""

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from relaydeck import bounded_toml
from relaydeck.errors import OperatorError

_MOST_BYTES = 536_870_912
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
MOST_MISTAKES = 1000
_LONGEST_NAME = 64  # compared with the known names
_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    str: "a string",
    list: "an array",
    dict: "a table",
    type(None): "null",
}


class Mistake(NamedTuple):
    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class TooManyMistakes(Exception):
    """Ends the reading of a file."""


class Mistakes(list[Mistake]):
    """Those of one file. A response lists them all, so their number is bounded."""

    def append(self, mistake: Mistake) -> None:
        """Raises TooManyMistakes."""
        if len(self) == MOST_MISTAKES:
            super().append(Mistake("", f"there are more than {MOST_MISTAKES} mistakes: correct these first"))
            raise TooManyMistakes
        super().append(mistake)


class MistakenFile(OperatorError):
    def __init__(self, name: str, mistakes: list[Mistake], remedy: str = "") -> None:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n".join([f"{name} has {count}:", *(f"  {each}" for each in mistakes)]), remedy)


def place_in(place: str, key: str) -> str:
    """The place of `key` in the table at `place`, as TOML writes it."""
    written = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    return f"{place}.{written}" if place else written


def kind_of(value: Any) -> str:
    """The kind of a value, without the value."""
    return _KINDS.get(type(value), "a date or time")


def listed(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def suggestion(value: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(value[:_LONGEST_NAME], choices, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def parse_toml(content: bytes) -> dict[str, Any] | Mistake:
    if len(content) > _MOST_BYTES:
        return Mistake("", f"it has more than {_MOST_BYTES} bytes")
    try:
        return bounded_toml.parse_toml(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Mistake("", "it is not UTF-8 text")
    except ValueError as error:
        return Mistake("", f"it is not TOML: {error}")
