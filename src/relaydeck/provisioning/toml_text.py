"""Writes the TOML of an export. The standard library reads TOML but does not write it."""

import re
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_GREATEST_INTEGER = 2**63 - 1  # the largest that every TOML reader accepts
Content = dict[str, Any]


def written_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else written_text(key)


def written_text(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    """Escape what a terminal could interpret, not only what TOML requires: an export is often read on a terminal."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if character < "\U00010000" else f"\\U{ord(character):08x}"


def written(value: object) -> str:
    """A value on one line: a table as an inline table, an integer beyond 64 bits as digits in a string."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value <= _GREATEST_INTEGER else f'"{value}"'
        case str():
            return written_text(value)
        case dict():
            inner = ", ".join(f"{written_key(key)} = {written(item)}" for key, item in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(written(item) for item in value)}]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")


def written_table(header: str, content: Content) -> str:
    """A table with its header; the keys keep their order."""
    return "\n".join([header, *(_line(key, value) for key, value in content.items()), ""])


def _line(key: str, value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 1:
        items = "".join(f"  {written(item)},\n" for item in value)
        return f"{written_key(key)} = [\n{items}]"
    return f"{written_key(key)} = {written(value)}"
