"""The interface of every database engine, and of a write transaction.

SQL is written once, with named parameters (`:name`), for both engines: `sqlite.py` and `postgres.py`. An exception of
a driver leaves an engine as a StoreError.

Invariant: a write transaction takes the next revision as its first step and holds a lock on it until it ends. So
transactions commit in the order of their revisions, and a reader that sees revision N sees every write up to N.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any, Protocol, TypeVar

from relaydeck.store.catalogue import Table
from relaydeck.store.row_sets import Rows, Stage, StagedRows
from relaydeck.store.rows import Row as Row
from relaydeck.store.write_signal import WriteSignal

Values = Mapping[str, Any]
ReadRows = Callable[[str, Values], list[Row]]  # `Database.read`, or `Transaction.all` inside a transaction
Result = TypeVar("Result")
NO_VALUES: Values = {}

# Read together with the revision, because almost every write needs them: on SQLite each statement releases the
# interpreter and takes it again, which costs more than these subqueries.
START_COLUMNS = (
    "revision, (SELECT max(id) FROM data_keys) AS newest_key,"
    " (SELECT max(revision) FROM tokens) AS tokens_revision,"
    " (SELECT max(seq) FROM audit) AS audit_end, (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS audit_hash"
)
# The rows of the writes after the revision `:seen`, for queries outside of write transactions. No committed row has a
# later revision than the clock. Rows that a large apply has not committed yet do: without the second condition,
# PostgreSQL would look at each of them.
SINCE_SEEN = "revision > :seen AND revision <= (SELECT revision FROM clock)"
EMPTY_CHAIN = (0, bytes(32))  # stands for the audit entry before the first
_ROWS_PER_INSERT = 64


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...


class Execute(Protocol):
    def __call__(self, sql: str, values: Any = ..., /) -> Cursor: ...


class Transaction:
    """One write transaction: all of its changes are committed, or none."""

    def __init__(self, start: Row) -> None:
        """From a row of START_COLUMNS with the revision of this transaction."""
        self.changes_tokens = False  # set by a change of a token, so that every process learns of it at once
        self.erases_secrets = False  # set by a change that removes a sealed value, so that no copy of it stays on disk
        self.audit_head: bytes | None = None  # the signed end of the audit log, stored with the commit
        self.newest_event = 0  # the greatest number of an event that this process knows: the next one is greater
        self._start_from(start)

    def _start_from(self, start: Row) -> None:
        self.revision: int = start.revision
        self.tokens_revision: int = start.tokens_revision or 0  # of the latest change of any token
        self.newest_key: int = start.newest_key or 0  # the data key that seals
        self.chain_end: tuple[int, bytes] = (  # of the audit log
            EMPTY_CHAIN if start.audit_end is None else (start.audit_end, start.audit_hash)
        )

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Raises StoreTrouble, StoreRefusal."""
        raise NotImplementedError

    def one(self, sql: str, values: Values = NO_VALUES) -> Row | None:
        raise NotImplementedError

    def all(self, sql: str, values: Values = NO_VALUES) -> list[Row]:
        raise NotImplementedError

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows with few statements."""
        for start in range(0, len(rows), _ROWS_PER_INSERT):
            some = rows[start : start + _ROWS_PER_INSERT]
            self._insert(table, tuple(columns), len(some), list(chain.from_iterable(some)))

    def _insert(self, table: str, columns: tuple[str, ...], count: int, values: list[Any]) -> None:
        raise NotImplementedError

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        """Run a statement that returns nothing once for each of the values."""
        raise NotImplementedError

    def insert_all(self, table: str, rows: Rows, more: Values) -> None:
        """Insert many rows, each with the values in `more` as well."""
        names = (*rows.columns, *more)
        if isinstance(rows, StagedRows):
            selected = ", ".join([*rows.columns, *(f":{name}" for name in more)])
            sql = f"INSERT INTO {table} ({', '.join(names)}) SELECT {selected} FROM {rows.table} ORDER BY position"
            self.execute(sql, more)
        else:
            values = tuple(more.values())
            self.insert(table, names, [(*row, *values) for row in rows.rows])

    def update_all(self, table: str, rows: Rows, more: Values) -> None:
        """Update many rows, which the first column, `seq`, identifies; each gets the values in `more` as well."""
        shared = [f"{name} = :{name}" for name in more]
        if isinstance(rows, StagedRows):
            changed = ", ".join([*(f"{name} = staged.{name}" for name in rows.columns[1:]), *shared])
            sql = f"UPDATE {table} SET {changed} FROM {rows.table} AS staged WHERE {table}.seq = staged.seq"
            self.execute(sql, more)
        else:
            changed = ", ".join([*(f"{name} = :{name}" for name in rows.columns[1:]), *shared])
            many = [{**dict(zip(rows.columns, row, strict=True)), **more} for row in rows.rows]
            self.execute_many(f"UPDATE {table} SET {changed} WHERE seq = :seq", many)

    def delete_all(self, table: str, rows: Rows) -> None:
        """Delete many rows, which their one column, `seq`, identifies."""
        if isinstance(rows, StagedRows):
            self.execute(f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {rows.table})")
        else:
            self.execute_many(f"DELETE FROM {table} WHERE seq = :seq", [{"seq": row[0]} for row in rows.rows])

    def present(self, table: str, column: str, values: Sequence[str]) -> set[str]:
        """The values that occur in a column."""
        return {row[0] for row in self.matching(table, (column,), column, values)}

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        """The rows in which a column has one of the values."""
        raise NotImplementedError

    @contextmanager
    def step(self) -> Iterator[None]:
        """A part that is rolled back alone when it fails, so that one writer of a group does not fail the others."""
        before = self.chain_end, self.newest_key, self.audit_head, self.newest_event
        self.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO step")
            self.execute("RELEASE step")
            self.chain_end, self.newest_key, self.audit_head, self.newest_event = before
            raise
        self.execute("RELEASE step")


class OpenTransaction(Transaction):
    """A transaction that its block leaves open, with all changes written: `commit` and then `confirm` must follow."""

    def commit(self) -> None:
        """Return when the changes are on disk. In a thread: it waits for the disk. Rolls back when it raises."""
        raise NotImplementedError

    def confirm(self) -> None:
        """Announce the commit to every process, before it is acknowledged. Raises StoreUnconfirmed."""
        raise NotImplementedError


def insert_statement(table: str, columns: tuple[str, ...], count: int, placeholder: str) -> str:
    row = f"({', '.join([placeholder] * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * count)}"


class RowReader(Protocol):
    """What it takes to read whole tables."""

    def read(self, sql: str, values: Values = ..., /) -> list[Row]: ...

    def stream(self, sql: str) -> Iterator[Row]:
        """Rows as the database returns them, in any number. Inside a snapshot."""


class Reader(RowReader, Protocol):
    """Read access to a database. Several threads may use it; they then share a snapshot."""

    soundness: str  # how to describe a database in which `damage` finds nothing

    def snapshot(self) -> AbstractContextManager[None]:
        """Every read inside sees the database at the same moment."""

    def has_table(self, name: str) -> bool: ...

    def tables(self) -> list[Table]:
        """Every table of the schema, by name."""

    def counter(self, table: Table) -> int:
        """The greatest number that the table's serial column has assigned."""

    def write_problem(self) -> str:
        """Why the database cannot be written to, however healthy it is otherwise; empty when it can."""

    def damage(self) -> list[str]:
        """The faults that a check of the database's files finds."""

    def close(self) -> None: ...


class Database(Reader, Protocol):
    """Read and write access. One thread at a time writes."""

    remote: bool  # a server that other machines use too: every query is a round trip
    clock_sql: str  # the time of a server that several machines share, in milliseconds; empty: that of this machine
    erasing: bool  # secrets were removed, and copies of them may still be outside the tables
    write_signal: WriteSignal
    schema_types: Mapping[str, str]  # the engine's types for the placeholders in migrations

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        """Run `work`, which reads the database, without blocking the event loop. Raises what `work` raises."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits at the end of the block; an exception rolls everything back."""

    def transaction_at_once(self) -> AbstractContextManager[OpenTransaction] | None:
        """A transaction for the event loop: raises StoreTrouble instead of waiting for another process.

        None on an engine where every statement is a round trip.
        """

    def staging(self) -> AbstractContextManager[Stage]:
        """Rows can be staged inside the block, outside of any transaction: no other process sees or waits for them."""

    def bulk_transaction(
        self, write_early: Callable[[Transaction], None], rows: int
    ) -> AbstractContextManager[Transaction]:
        """A transaction for so many rows. A server calls `write_early` before the transaction locks the revision.

        What `write_early` changes must be complete when the block ends. Raises StoreConflict when another write waits
        for a row that was written early, or the other way round.
        """

    def write_unversioned(self, sql: str, values: Values = ..., /) -> list[Row]:
        """Run one statement that writes, in a transaction of its own, and return its rows. In any thread.

        It takes no revision and sends no signal, so it must not change anything that a process keeps in memory.
        """

    def migration(self) -> AbstractContextManager[Execute]:
        """A transaction for changes of the schema: without a revision, and in one process at a time."""

    def is_served(self) -> bool:
        """Whether a worker of any service uses the database now."""

    def erase_removed(self) -> None:
        """Overwrite the copies of removed secrets outside the tables, while `erasing`. In a thread: it syncs."""

    def suspend(self) -> None:
        """Close every connection, also one that waits for a server that hangs, and open none until `resume`."""

    def resume(self) -> None:
        """The server answers again."""

    def opening(self) -> AbstractContextManager[None]:
        """A lock that one of all processes that open this database holds at a time."""

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Insert any number of rows. Inside a `migration`."""

    def set_counter(self, table: Table, greatest: int) -> None:
        """Let the table's serial column continue after a number. Inside a `migration`."""
