"""A version that rewrites values refuses to migrate while a service of an earlier version uses the database."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from relaydeck.errors import OperatorError
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import Database
from relaydeck.store.migrate import migrate, newest_version, schema_version
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.sealed_columns import URLS_SINCE
from relaydeck.store.vault import Vault, create_master_key
from relaydeck.store.write_signal import WriteSignal
from tests.support.postgres import PostgresServer

OLD = URLS_SINCE - 1


def listening(url: DatabaseUrl) -> closing[Any]:
    """Each worker of such a version has one such connection."""
    connection = psycopg.connect(url.reveal(), autocommit=True)
    connection.execute("LISTEN relaydeck")
    return closing(connection)


def named_as_before(url: DatabaseUrl) -> closing[Any]:
    """A connection of an old worker whose listening one was lost."""
    return closing(psycopg.connect(url.reveal(), application_name="relaydeck"))


@pytest.mark.parametrize("connection", [listening, named_as_before])
def test_a_start_beside_an_old_service_is_refused_and_changes_nothing(
    postgres: PostgresServer, tmp_path: Path, connection: Callable[[DatabaseUrl], closing[Any]]
) -> None:
    url, key = postgres.url(postgres.fresh()), tmp_path / "master.key"
    create_master_key(key)
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "signal"))) as old:
        migrate(old, to=OLD)
        with old.transaction() as transaction:
            Vault(old, key).add_data_key(transaction, 0)
            transaction.execute(
                "INSERT INTO notifications (id, type, url, origin, created_at, revision)"
                " VALUES ('pager', 'webhook', 'https://h.example/hook', 'api', 0, 1)"
            )
        with connection(url), pytest.raises(OperatorError) as refused:
            open_store_at(tmp_path / "home", url, key)
        assert (schema_version(old), addresses(old)) == (OLD, ["https://h.example/hook"])
    assert str(refused.value) == (
        f"an older Relaydeck serves this database (schema version {OLD}); after the migration it would send events to"
        " wrong addresses\n"
        "Stop every service of the older version, then start this one. Nothing has been changed."
    )
    assert migrated(tmp_path, url, key) == (newest_version(), ["https://h.example"])


def migrated(folder: Path, url: DatabaseUrl, key: Path) -> tuple[int, list[str]]:
    with closing(open_store_at(folder / "home", url, key)) as store:
        return schema_version(store.database), addresses(store.database)


def addresses(database: Database) -> list[str]:
    return [row.url for row in database.read("SELECT url FROM notifications")]
