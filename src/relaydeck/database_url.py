"""`RELAYDECK_DATABASE_URL`: where the data is stored. It may contain a password, which printing it hides."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f]")
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],]*)(:[0-9]{1,5})?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")


class DatabaseUrl:
    """A checked URL. Only `reveal()` returns all of it; printing it shows the server and the database name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not (value.startswith(_SQLITE) and value != _SQLITE) and not _is_postgres(value):
            raise ValueError(
                "sqlite:///path (three slashes for a relative path, four for an absolute one)"
                " or postgresql://user:password@host:port/name (with @ : / ? # of the password percent-encoded)"
            )
        self._value: Final = value

    def reveal(self) -> str:
        return self._value

    @property
    def sqlite_path(self) -> Path | None:
        """The file of an SQLite database; None for any other database."""
        return Path(self._value.removeprefix(_SQLITE)) if self._value.startswith(_SQLITE) else None

    def beside(self, name: str) -> "DatabaseUrl":
        """The URL of another database on the same server."""
        parts = urlsplit(self._value)
        query = urlencode([each for each in parse_qsl(parts.query) if each[0] != "dbname"], quote_via=quote)
        return DatabaseUrl(urlunsplit(parts._replace(path=f"/{name}", query=query)))

    def __str__(self) -> str:
        if self.sqlite_path is not None:
            return self._value
        parts = urlsplit(self._value)
        hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"postgresql://{hosts}/{unquote(parts.path.removeprefix('/'))}"

    def __repr__(self) -> str:
        return f"DatabaseUrl({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseUrl) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("DatabaseUrl", self._value))


def _is_postgres(value: str) -> bool:
    """Strict: otherwise part of a password with an unencoded `@ : / ? #` would pass for a host and appear in errors."""
    if not value.startswith(_POSTGRES) or value in _POSTGRES or _INVISIBLE.search(value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    user, _, hosts = parts.netloc.rpartition("@")
    elsewhere = parts.path + parts.query
    return not parts.fragment and "@" not in user + elsewhere and bool(_HOSTS.fullmatch(hosts))
