"""The interface of every database engine, and of a write transaction.

SQL is written once, with named parameters (`:name`), for both engines: `sqlite.py` and `postgres.py`. An exception of
a driver leaves an engine as a StoreError.

Invariant: a write transaction takes the next revision as its first step and holds a lock on it until it ends. So
transactions commit in the order of their revisions, and a reader that sees revision N sees every write up to N.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Protocol, TypeVar

from relaydeck.errors import OperatorError
from relaydeck.scope import Visible
from relaydeck.store.lock_holder import LockHolder, OnLockWait
from relaydeck.store.rows import Cursor, Stage, StagedRows, Table, first_row, in_list, named_rows
from relaydeck.store.rows import Row as Row
from relaydeck.store.scoped import ScopedStatements
from relaydeck.store.write_signal import WriteSignal

Values = Mapping[str, Any]
Advance = Callable[[int], None]  # moves a progress bar by a number of rows
ShowProgress = Callable[[str, int], AbstractContextManager[Advance]]  # shows a title and the progress to a total
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
EMPTY_CHAIN = (0, bytes(32))  # stands for the audit entry before the first


@contextmanager
def without_progress(_title: str, _total: int) -> Iterator[Advance]:
    """A `ShowProgress` that shows nothing."""
    yield lambda _rows: None


class Execute(Protocol):
    def __call__(self, sql: str, values: Any = ..., /) -> Cursor: ...


class Scoped:
    """Reads on behalf of a credential: inside of `within`, every SELECT finds only what is inside its scope."""

    schema = ""  # what precedes the name of a table in a scoped statement
    statements: ScopedStatements | None = None

    @contextmanager
    def within(self, visible: Visible | None) -> Iterator[None]:
        """Every SELECT inside finds only what a credential sees, if it does not see everything."""
        before, self.statements = self.statements, None if visible is None else ScopedStatements(visible, self.schema)
        try:
            yield
        finally:
            self.statements = before

    def scoped(self, sql: str, values: Values) -> tuple[str, Values]:
        """The statement as it has to be run, and its values."""
        if self.statements is None:
            return sql, values
        return self.statements.scoped(sql), {**values, **self.statements.values}


class Transaction(Scoped):
    """One write transaction: all of its changes are committed, or none."""

    def __init__(self, start: Row) -> None:
        """From a row of START_COLUMNS with the revision of this transaction."""
        self.changes_tokens = False  # set by a change of a token, so that every process learns of it at once
        self.erases_secrets = False  # set by a change that removes a sealed value, so that no copy of it stays on disk
        self.audit_head: bytes | None = None  # the signed end of the audit log, stored with the commit
        self.newest_event = 0  # the greatest number of an event that this process knows: the next one is greater
        self.revision: int = start.revision
        self.tokens_revision: int = start.tokens_revision or 0  # of the latest change of any token
        self.newest_key: int = start.newest_key or 0  # the data key that seals
        self.chain_end: tuple[int, bytes] = (  # of the audit log
            EMPTY_CHAIN if start.audit_end is None else (start.audit_end, start.audit_hash)
        )

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Raises StoreTrouble, StoreRefusal."""
        raise NotImplementedError

    def mark(self, table: str) -> None:
        """That a table was written whose rows have no revision, for pages that show it."""
        self.execute(f"UPDATE clock SET {table}_written = :revision", {"revision": self.revision})

    def allow_long_statements(self) -> None:
        """Let each further statement take a minute on a server: it may change any number of rows."""

    def one(self, sql: str, values: Values = NO_VALUES) -> Row | None:
        sql, values = self.scoped(sql, values)
        return first_row(sql, self.execute(sql, values))

    def all(self, sql: str, values: Values = NO_VALUES) -> list[Row]:
        sql, values = self.scoped(sql, values)
        return named_rows(sql, self.execute(sql, values))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert any number of rows, in their order."""
        raise NotImplementedError

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        """Run a statement that returns nothing once for each of the values."""
        raise NotImplementedError

    def insert_all(self, table: str, rows: StagedRows, more: Values) -> None:
        """Insert staged rows, each with the values in `more` as well."""
        names = ", ".join([*rows.columns, *more])
        selected = ", ".join([*rows.columns, *(f":{name}" for name in more)])
        self.execute(f"INSERT INTO {table} ({names}) SELECT {selected} FROM {rows.table} ORDER BY position", more)

    def update_all(self, table: str, rows: StagedRows, more: Values) -> None:
        """Update rows from staged ones, whose first column, `seq`, identifies them; each gets the values in `more`."""
        staged = [f"{name} = staged.{name}" for name in rows.columns[1:]]
        changed = ", ".join([*staged, *(f"{name} = :{name}" for name in more)])
        self.execute(f"UPDATE {table} SET {changed} FROM {rows.table} AS staged WHERE {table}.seq = staged.seq", more)

    def present(self, table: str, column: str, values: Sequence[str], *, everything: bool = False) -> set[str]:
        """The values that occur in a column. `everything`: also outside of the scope of a credential."""
        with self.within(None) if everything else nullcontext():
            return {row[0] for row in self.matching(table, (column,), column, values)}

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        """The rows in which a column has one of the values."""
        if not values:
            return []
        names, named = in_list(values)
        return self.all(f"SELECT {', '.join(columns)} FROM {table} WHERE {column} IN ({names})", named)

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


@cache
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

    def within(self, visible: Visible | None) -> AbstractContextManager[None]:
        """As of `Scoped`. In the one thread that reads."""

    soundness: str  # how to describe a database in which `damage` finds nothing
    clock_sql: str  # the time of a server that several machines share, in milliseconds; empty: that of this machine

    def snapshot(self) -> AbstractContextManager[None]:
        """Every read inside sees the database at the same moment."""

    def has_table(self, name: str) -> bool: ...

    def tables(self) -> list[Table]:
        """Every table of the schema, by name."""

    def counter(self, table: Table) -> int:
        """The greatest number that the table's serial column has assigned."""

    def write_problem(self) -> str:
        """Why the database cannot be written to, however healthy it is otherwise; empty when it can."""

    def try_write(self) -> None:
        """Write and commit what is stored already, in a few seconds, with everything that a write needs.

        It takes no revision and sends no signal: nobody follows it. Raises StoreTrouble, OperatorError.
        """

    def write_lock_holder(self) -> LockHolder | None:
        """Who holds the lock that every write needs at this moment, or what that one waits for. Does not wait for it.

        Healthy writes hold it for milliseconds: `since` tells.
        """

    def configuration_problems(self) -> list[OperatorError]:
        """Why a service cannot use the database as it should, however healthy it is. Outside of a snapshot."""
        return []

    def damage(self) -> list[str]:
        """The faults that a check of the database's files finds."""

    def close(self) -> None: ...


class Database(Reader, Protocol):
    """Read and write access. One thread at a time writes."""

    remote: bool  # a server that other machines use too: every query is a round trip
    server_sql: str  # reads the state of such a server: `moment` of its clock, `used`, `most`, `migrating`; or empty
    write_signal: WriteSignal
    on_lock_wait: OnLockWait | None  # set in a worker: called when a write has waited for another one for seconds
    schema_types: Mapping[str, str]  # the engine's types for the placeholders in migrations

    def open_reader(self) -> Reader:
        """Another connection, for one thread."""

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        """Run `work`, which reads the database, without blocking the event loop. Raises what `work` raises."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits at the end of the block; an exception rolls everything back."""

    def transaction_at_once(self) -> AbstractContextManager[OpenTransaction] | None:
        """A transaction for the event loop: raises StoreTrouble instead of waiting for another process.

        None on an engine where every statement is a round trip.
        """
        return None

    def staging(self) -> AbstractContextManager[Stage]:
        """Rows can be staged inside the block, outside of any transaction: no other process sees or waits for them."""

    def migration(self, lock_seconds: float = 0) -> AbstractContextManager[Execute]:
        """A transaction for changes of the schema: without a revision, and in one process at a time.

        On a server each statement waits for a lock for at most `lock_seconds`, then raises StoreConflict. 0: no bound.
        """

    def build_index(self, name: str, statement: str) -> None:
        """Create an index of a server while others write. One of that name is replaced: it may be incomplete."""
        raise AssertionError("a file has one writer at a time")

    def trial(self, rows: int) -> AbstractContextManager[Execute]:
        """Execute statements on temporary copies of all tables, with at most so many rows each. Nothing of it stays."""

    def is_served(self) -> bool:
        """Whether a worker of any service uses the database now."""

    def erase_removed(self) -> None:
        """Overwrite the copies of removed secrets outside the tables, if there are any. In a thread: it syncs.

        A server keeps its own log, for replicas and backups.
        """
        return

    def suspend(self) -> None:
        """Close every connection, also one that waits for a server that hangs, and open none until `resume`."""
        return  # a file does not hang

    def resume(self) -> None:
        """The server answers again."""
        return

    def opening(self) -> AbstractContextManager[None]:
        """A lock that one of all processes that open this database holds at a time.

        `open_store` has another one for the processes of this machine.
        """
        return nullcontext()

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Insert any number of rows. Inside a `migration`."""

    def set_counter(self, table: Table, greatest: int) -> None:
        """Let the table's serial column continue after a number. Inside a `migration`."""
