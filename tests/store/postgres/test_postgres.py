"""What only a database server brings: notifications of commits, writers that wait for each other, and its driver."""

import re
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import StoreError, StoreTrouble
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_connection import CHANNEL
from relaydeck.store.write_signal import WriteSignal
from tests.postgres import PostgresServer, write
from tests.running import run_command
from tests.seeding import fill


def test_each_commit_notifies_of_its_revision_and_nothing_else_does(
    database: PostgresDatabase, url: DatabaseUrl
) -> None:
    with closing(psycopg.connect(url.reveal(), autocommit=True)) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        with pytest.raises(RuntimeError), database.transaction():
            raise RuntimeError
        write(database)
        write(database)
        heard = [each.payload for each in listening.notifies(timeout=60, stop_after=2)]
    assert heard == ["1", "2"]


def test_a_statement_that_failed_unnoticed_is_not_committed_as_if_it_had_not(database: PostgresDatabase) -> None:
    with pytest.raises(StoreTrouble), database.transaction() as transaction, suppress(StoreError):
        transaction.execute("SELECT * FROM nowhere")
    assert database.read("SELECT revision FROM clock") == [(0,)]


def test_a_writer_that_is_kept_waiting_gives_up_with_trouble(url: DatabaseUrl, tmp_path: Path) -> None:
    write_signal = WriteSignal(tmp_path / "write-signal")
    hasty = DatabaseUrl(f"{url.reveal()}?options=-c%20lock_timeout%3D50ms")
    with (
        closing(PostgresDatabase(url, write_signal)) as first,
        closing(PostgresDatabase(hasty, write_signal)) as second,
    ):
        with first.transaction(), pytest.raises(StoreTrouble, match="lock timeout"):
            write(second)
        assert write(second) == 2


WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"


def test_a_writer_that_waited_begins_with_what_it_waited_for(
    url: DatabaseUrl, tmp_path: Path, postgres: PostgresServer
) -> None:
    """The end of the audit log and the newest key: else it would write a link twice, or seal with a retired key."""
    write_signal, began = WriteSignal(tmp_path / "write-signal"), []

    def begin_and_tell(database: PostgresDatabase) -> None:
        with database.transaction() as transaction:
            began.append((transaction.revision, transaction.chain_end, transaction.newest_key))

    with closing(PostgresDatabase(url, write_signal)) as first, closing(PostgresDatabase(url, write_signal)) as second:
        write(second)
        waits = threading.Thread(target=begin_and_tell, args=(second,))
        with first.transaction() as transaction:
            waits.start()
            while not postgres.ask(WAITING.format(name=second.writer.info.dbname)):
                assert waits.is_alive()
            transaction.execute("INSERT INTO data_keys (id, wrapped, created_at) VALUES (7, :key, 0)", {"key": b"k"})
            columns = ("seq", "moment", "actor", "action", "record", "hash")
            transaction.insert("audit", columns, [(1, 0, "cli:me", "token.created", "t", b"the first link")])
        waits.join()
    assert began == [(3, (1, b"the first link"), 7)]


def test_a_write_is_durable_even_where_the_server_would_not_wait(
    postgres: PostgresServer, url: DatabaseUrl, database: PostgresDatabase
) -> None:
    name = str(url).rpartition("/")[2]
    postgres.ask(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        with database.transaction() as transaction:
            assert transaction.one("SHOW synchronous_commit") == ("on",)
    finally:
        postgres.ask(f"ALTER DATABASE {name} RESET synchronous_commit")


def test_a_home_on_sqlite_loads_no_driver_of_a_server(tmp_path: Path) -> None:
    asked = (
        "import sys; from pathlib import Path; import relaydeck.app;"
        "from relaydeck.store.open_store import open_store_at;"
        f"home = Path({str(tmp_path)!r}); open_store_at(home, home / 'db', home / 'master.key').close();"
        "print([name for name in sys.modules if name.startswith('psycopg')])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_commands_work_as_they_do_on_sqlite(home: Path, tmp_path: Path) -> None:
    fill(home)
    fill(tmp_path / "file")
    for command in [("export",), ("signer", "list", "--json"), ("key", "rotate"), ("audit", "verify")]:
        here, there = run_command(home, *command), run_command(tmp_path / "file", *command)
        assert (here.returncode, here.stderr) == (there.returncode, there.stderr) == (0, "")
        assert _timeless(here.stdout) == _timeless(there.stdout)


def _timeless(text: str) -> str:
    return re.sub(r"head .*", "head", text)
