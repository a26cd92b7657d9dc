"""Where the data of each test home lies: in the folder itself, unless a PostgreSQL database was chosen for it."""

from pathlib import Path

from relaydeck.settings.values import DatabaseUrl

ENGINES = ("sqlite", "postgresql")
_elsewhere: dict[Path, DatabaseUrl] = {}


def choose(home: Path, url: DatabaseUrl) -> None:
    _elsewhere[home] = url


def place_of(home: Path) -> Path | DatabaseUrl:
    return _elsewhere.get(home, home / "relaydeck.db")


def setting_of(home: Path) -> dict[str, str]:
    """The environment of a command on that home."""
    return {"RELAYDECK_DATABASE_URL": _elsewhere[home].reveal()} if home in _elsewhere else {}
