"""A temporary database for a restore drill."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from relaydeck.database_url import DatabaseUrl
from relaydeck.store.database import Database
from relaydeck.store.open_store import open_for_filling


@contextmanager
def scratch_database(where: Path | DatabaseUrl) -> Iterator[Database]:
    """A new database of the same engine, removed at the end. SQLite when the server does not let us create one."""
    with (
        TemporaryDirectory(prefix="relaydeck-drill-") as folder,
        _beside(where, Path(folder)) as place,
        open_for_filling(Path(folder), place) as database,
    ):
        yield database


@contextmanager
def _beside(where: Path | DatabaseUrl, folder: Path) -> Iterator[Path | DatabaseUrl]:
    name = f"relaydeck_drill_{secrets.token_hex(6)}"
    if isinstance(where, Path):
        yield folder / "scratch.db"
        return
    from relaydeck.store.postgres_connection import create_database, drop_database

    if not create_database(where, name):
        yield folder / "scratch.db"
        return
    try:
        yield where.beside(name)
    finally:
        drop_database(where, name)
