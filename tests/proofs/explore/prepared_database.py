"""A PostgreSQL database that gets back the rows it was prepared with: faster than a copy, which starts cold."""

import os
import signal
from contextlib import suppress
from typing import Any

import psycopg

from relaydeck.settings.values import DatabaseUrl

_TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_versions' ORDER BY tablename"
)
_COUNTERS = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY sequencename"
_OTHERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_LONGEST_END = 60_000  # milliseconds
_VACUUM_AFTER = 50  # runs


class PreparedDatabase:
    def __init__(self, url: DatabaseUrl) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(url.reveal(), autocommit=True)
        tables = [name for (name,) in self._connection.execute(_TABLES.encode())]
        self._rows = {name: self._copy_of(name) for name in tables}
        self._counters = self._connection.execute(_COUNTERS.encode()).fetchall()
        self._runs = 0

    def _copy_of(self, table: str) -> bytes:
        with self._connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
            return b"".join(map(bytes, copy))

    def restore(self) -> None:
        """End every other connection, and put back the rows."""
        for (process,) in self._connection.execute(_OTHERS).fetchall():
            self._end(process)
        with self._connection.transaction():
            # Without the checks of references: the tables are filled in any order.
            self._connection.execute("SET LOCAL session_replication_role = replica")
            self._connection.execute("; ".join(f"DELETE FROM {name}" for name in self._rows).encode())
            for name, rows in self._rows.items():
                self._fill(name, rows)
            for name, value in self._counters:
                self._connection.execute("SELECT setval(%s, %s, %s)", [name, value or 1, value is not None])
        self._runs += 1
        if self._runs % _VACUUM_AFTER == 0:
            self._connection.execute("VACUUM")

    def _end(self, process: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)  # a fault may have stopped it
        terminated = self._connection.execute("SELECT pg_terminate_backend(%s, %s)", [process, _LONGEST_END])
        assert terminated.fetchone() == (True,) or not self._is_connected(process), f"{process} does not end"

    def _is_connected(self, process: int) -> bool:
        return (process,) in self._connection.execute(_OTHERS).fetchall()

    def _fill(self, table: str, rows: bytes) -> None:
        if rows:
            with self._connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                copy.write(rows)
