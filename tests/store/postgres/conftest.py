"""Here every `home` and every `database` is on PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import place_of


@pytest.fixture
def home(tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", "postgresql")


@pytest.fixture
def url(home: Path) -> DatabaseUrl:
    where = place_of(home)
    assert isinstance(where, DatabaseUrl)
    return where


@pytest.fixture
def database(url: DatabaseUrl, tmp_path: Path) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "write-signal"))) as database:
        yield database
