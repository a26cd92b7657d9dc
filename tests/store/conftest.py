"""What the store promises, it promises on every database: a test with a `home` or a `database` runs on each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import Database
from relaydeck.store.migrate import migrate
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import ENGINES, place_of

Connect = Callable[[], Database]


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", request.param)


@pytest.fixture
def connect(home: Path) -> Iterator[Connect]:
    """Opens one migrated database, as often as asked: each is what another process would hold."""
    home.mkdir()
    opened: list[Database] = []

    def connecting() -> Database:
        where, write_signal = place_of(home), WriteSignal(home / "write-signal")
        database: Database
        database = (
            PostgresDatabase(where, write_signal)
            if isinstance(where, DatabaseUrl)
            else SqliteDatabase(where, write_signal)
        )
        opened.append(database)
        migrate(database)
        return database

    yield connecting
    for database in opened:
        database.close()


@pytest.fixture
def database(connect: Connect) -> Database:
    return connect()
