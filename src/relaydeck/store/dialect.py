"""Translates our SQL, which SQLite runs as it is written, for PostgreSQL and its driver."""

import re
from functools import cache

from relaydeck.store.sql_script import QUOTED

_PARTS = re.compile(
    rf"""(?P<quoted>{QUOTED}) | (?P<cast>::) | (?P<percent>%)
      | :(?P<name>[A-Za-z_]\w*) | \b(?P<word>instr|json_group_array)\b""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"instr": "strpos", "json_group_array": "json_agg"}
_TEXT = re.compile(rf"(?P<quoted>{QUOTED}) | \b(?P<text>TEXT)\b", re.VERBOSE | re.DOTALL)


@cache
def to_postgres(sql: str) -> bytes:
    """Writes `:name` as `%(name)s`, doubles `%`, and renames the few functions that have another name there."""
    return _PARTS.sub(_part, sql).encode()


def _part(match: "re.Match[str]") -> str:
    if name := match["name"]:
        return f"%({name})s"
    if word := match["word"]:
        return _WORDS[word]
    return match[0].replace("%", "%%")


def to_postgres_schema(sql: str) -> str:
    """Gives text columns the collation "C": compared byte by byte, as in SQLite.

    The order then does not depend on the server's locale, and an index stays valid when the locale's rules change.
    """
    return _TEXT.sub(lambda match: 'TEXT COLLATE "C"' if match["text"] else match[0], sql)
