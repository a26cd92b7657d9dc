"""Reads TOML that anybody may have written, in a time and memory that grow with its size.

The parser of the standard library takes quadratic time and memory for a key with many parts, and recurses into nested
values. What no honest file contains is refused before it is parsed. The check and the parser agree on where a string or
a comment ends, as far as the text is valid; the parser stops where it is not.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MOST_PARTS = 16  # of a key
_DEEPEST = 32
_LONGEST_WORD = 1000  # a number or a part of a key without quotes
_FREE_VALUES, _BYTES_A_VALUE = 10_000, 8
_MOST_ESCAPES = 10_000  # and quotes, of one string
_PIECES = f"{{0,{2 * _MOST_ESCAPES + 2}}}+"  # of a string; between two escapes there is at most one piece
_WORD = r"[^\s\"'#\[\]{}=,.]"
_PART = rf"(?:{_WORD}{{1,{_LONGEST_WORD + 1}}}+|\"(?:[^\"\\\n]++|\\.){_PIECES}\"?|'[^'\n]*+'?)"
# A step of the check takes bounded time and looks at no character twice: one match is not interrupted.
_TOKEN = re.compile(
    r"[\s=,.]*+("
    rf'"""(?:[^"\\]++|\\[\s\S]|"{{1,2}}(?!")){_PIECES}(?:"{{3,5}})?'
    rf"|\'\'\'(?:[^']++|'{{1,2}}(?!')){_PIECES}(?:'{{3,5}})?"
    rf"|#[^\n]*+|[\[\]{{}}]|{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{0,{_MOST_PARTS}}}+)?"
)
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS}}}")
_USUAL_TURN_SECONDS, _SHORT_TURN_SECONDS = sys.getswitchinterval(), 0.0005
_LEVELS = {"[": 1, "{": 1, "]": -1, "}": -1}


@contextmanager
def short_turns() -> Iterator[None]:
    """In a thread: offer the interpreter to others more often. The event loop needs it several times for each turn."""
    sys.setswitchinterval(_SHORT_TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(_USUAL_TURN_SECONDS)


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError: the message names a place or a bound, and no value."""
    try:
        with short_turns():
            if problem := _problem(text):
                raise ValueError(problem)
            return tomllib.loads(text)
    except RecursionError:  # with little of the stack left
        raise ValueError("it is nested too deep") from None


def _problem(text: str) -> str:
    most = most_values(len(text))
    if sum(text.count(mark) for mark in "=,[{") > most:
        return f"it has more than {most} keys, values and tables"
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[1]
        if token in _LEVELS:
            depth += _LEVELS[token]
            if depth > _DEEPEST:
                return f"it is nested more than {_DEEPEST} times"
        elif token and len(token) > _MOST_PARTS and (problem := _token_problem(token)):
            return problem
    return ""


def _token_problem(token: str) -> str:
    """Of a string, a comment, a word or a key."""
    if token[0] == "#":
        return ""
    quotes = token.count(token[0]) if token[0] in "\"'" else 0
    if quotes > _MOST_ESCAPES or token.count("\\") > _MOST_ESCAPES:
        return f"a string has more than {_MOST_ESCAPES} escapes or quotes"
    if token[:3] in ('"""', "'''"):
        return ""
    if token.count(".") >= _MOST_PARTS and _LONG_KEY.match(token):
        return f"a key has more than {_MOST_PARTS} parts"
    if len(token) > _LONGEST_WORD and not quotes and '"' not in token and "'" not in token:
        return f"a number or a key has more than {_LONGEST_WORD} characters"
    return ""


def most_values(size: int) -> int:
    """How many values a text of that size may have: a value that honest text contains has a name and a length."""
    return _FREE_VALUES + size // _BYTES_A_VALUE
