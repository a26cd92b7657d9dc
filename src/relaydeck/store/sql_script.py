"""Splits a script of SQL into its statements, as SQLite and PostgreSQL both read it.

A semicolon ends a statement unless it is in a quoted string or name, in a dollar-quoted body, in a comment, or
between the BEGIN and END of a trigger or function. Comments are dropped and white space is reduced to single spaces,
so the result changes only when a statement does.
"""

import re
from collections.abc import Iterator

# Also matched by `dialect`, which must not translate their contents.
QUOTED = r"""
    \b[eE]'(?:[^'\\]|''|\\.)*'            # a string with escapes (PostgreSQL)
  | '(?:[^']|'')*'                      # a string
  | "(?:[^"]|"")*"                      # a quoted name
  | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$   # a dollar-quoted body (PostgreSQL)
"""
_TOKEN = re.compile(
    rf"""(?P<space>(?:\s+|--[^\n]*|/\*.*?\*/)+) | (?P<quoted>{QUOTED}) | (?P<word>\w+) | (?P<end>;) | .""",
    re.VERBOSE | re.DOTALL,
)
_WITH_BODY = {"TRIGGER", "FUNCTION", "PROCEDURE"}


class _Nesting:
    """How many BEGIN and CASE of the current statement are still without their END."""

    def __init__(self) -> None:
        self.depth = 0
        self._may_have_body = False

    def enter(self, word: str) -> None:
        if word in _WITH_BODY:
            self._may_have_body = True
        elif word == "CASE" or (word == "BEGIN" and self._may_have_body):
            self.depth += 1
        elif word == "END" and self.depth:
            self.depth -= 1


def statements(script: str) -> Iterator[str]:
    parts: list[str] = []
    nesting = _Nesting()
    for token in _TOKEN.finditer(script):
        if token["end"] and not nesting.depth:
            yield from _joined(parts)
            parts, nesting = [], _Nesting()
            continue
        if word := token["word"]:
            nesting.enter(word.upper())
        parts.append(" " if token["space"] else token[0])
    yield from _joined(parts)


def _joined(parts: list[str]) -> Iterator[str]:
    if statement := "".join(parts).strip():
        yield statement
