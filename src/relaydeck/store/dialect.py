"""SQL as it is written here, to_postgres for PostgreSQL's driver. Done once for each statement."""

import re
from functools import cache

# What is left alone (strings, quoted names, casts), what the driver wants doubled, and what it calls otherwise.
_PARTS = re.compile(
    r"""(?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*") | (?P<cast>::) | (?P<percent>%)
      | :(?P<name>[A-Za-z_]\w*) | \b(?P<word>instr)\b""",
    re.VERBOSE,
)
_WORDS = {"instr": "strpos"}
_TEXT = re.compile(r"\bTEXT\b")


@cache
def to_postgres(sql: str) -> bytes:
    """`:name` as `%(name)s`, and the few functions that PostgreSQL knows by another name."""
    return _PARTS.sub(_part, sql).encode()


def _part(match: "re.Match[str]") -> str:
    if name := match["name"]:
        return f"%({name})s"
    if word := match["word"]:
        return _WORDS[word]
    return match[0].replace("%", "%%")


def to_postgres_schema(sql: str) -> str:
    """Text compared byte by byte, as SQLite does it, whatever the server's language; its indexes outlive upgrades."""
    return _TEXT.sub('TEXT COLLATE "C"', sql)
