"""What every database does for us, and the one shape of a transaction.

SQL is written once, with named parameters (`:name`), for all of them: `sqlite.py` and `postgres.py`. A write
transaction takes the next revision as its first step; that serialises writers, so rows appear to every
reader in the order of their revisions. What a driver raises leaves here as a StoreError of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any, Protocol, TypeVar

from relaydeck.store.catalogue import Table
from relaydeck.store.rows import Row as Row
from relaydeck.store.write_signal import WriteSignal

Values = Mapping[str, Any]
Result = TypeVar("Result")
NO_VALUES: Values = {}

# The next revision; and with it, what almost every write asks next: each statement hands the interpreter to
# another thread and back, which costs more than the answer.
NEXT_REVISION = "UPDATE clock SET revision = revision + 1 WHERE only_row = 1"
ASKED_FIRST = (
    "revision, (SELECT max(id) FROM data_keys) AS newest_key,"
    " (SELECT max(seq) FROM audit) AS audit_end, (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS audit_hash"
)
CHAIN_BEGINNING = (0, bytes(32))  # what stands for the row before the first
_ROWS_AT_ONCE = 64


class Cursor(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int: ...


class Execute(Protocol):
    def __call__(self, sql: str, values: Any = ..., /) -> Cursor: ...


class Transaction:
    """One write transaction. Whatever happens in it happens whole, or not at all."""

    def __init__(self, begun: Row) -> None:
        """With what ASKED_FIRST gave, after NEXT_REVISION."""
        self.changes_tokens = False  # set by who changes one, so that every process hears of it at once
        self.revision: int = begun.revision
        self.newest_key: int = begun.newest_key or 0  # the data key that seals
        self.chain_end: tuple[int, bytes] = (  # of the audit log
            CHAIN_BEGINNING if begun.audit_end is None else (begun.audit_end, begun.audit_hash)
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
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            self._insert(table, tuple(columns), len(some), list(chain.from_iterable(some)))

    def _insert(self, table: str, columns: tuple[str, ...], count: int, values: list[Any]) -> None:
        raise NotImplementedError

    def present(self, table: str, column: str, values: Sequence[str]) -> set[str]:
        """Which of the values stand in a column."""
        return {row[0] for row in self.matching(table, (column,), column, values)}

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        """The rows in which a column has one of the values."""
        raise NotImplementedError

    @contextmanager
    def step(self) -> Iterator[None]:
        """A part that is undone alone when it fails, so that grouped writers do not share their failures."""
        chain_end, newest_key = self.chain_end, self.newest_key
        self.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO step")
            self.execute("RELEASE step")
            self.chain_end, self.newest_key = chain_end, newest_key
            raise
        self.execute("RELEASE step")


def insertion(table: str, columns: tuple[str, ...], count: int, mark: str) -> str:
    row = f"({', '.join([mark] * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * count)}"


class Reader(Protocol):
    """A database that is looked at. May be used from several threads; a snapshot then is theirs together."""

    soundness: str  # what may be said of it when `damage` finds none

    def read(self, sql: str, values: Values = ..., /) -> list[Row]: ...

    def column(self, sql: str, values: Values = ..., /) -> list[Any]:
        """The first column of each row: for a million of them, without a million rows."""

    def stream(self, sql: str) -> Iterator[Row]:
        """Rows as they come, however many there are. Inside a snapshot."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Every read inside sees the database at one moment."""

    def has_table(self, name: str) -> bool: ...

    def tables(self) -> list[Table]:
        """Every table of the schema, by name."""

    def counter(self, table: Table) -> int:
        """The greatest number that a table's serial column has given by itself."""

    def damage(self) -> list[str]:
        """What is broken inside."""

    def close(self) -> None: ...


class Database(Reader, Protocol):
    """A database that is also written. One thread at a time does that."""

    remote: bool  # shared with other machines, and each question to it is a round trip
    write_signal: WriteSignal
    words: Mapping[str, str]  # what it spells in its own way: the placeholders of the migrations

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        """Do what reads the database without keeping the event loop waiting for it. Raises what `work` raises."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commit is the last line; leaving in any other way changes nothing."""

    def transaction_at_once(self) -> AbstractContextManager[Transaction] | None:
        """The same for the event loop, which it hardly keeps: raises StoreTrouble rather than wait for another process.

        Only its end takes long, and may be left to a thread. None where every statement is a round trip.
        """

    def write_unversioned(self, sql: str, values: Values = ..., /) -> list[Row]:
        """Run one statement that writes, in a transaction of its own, and return its rows. In any thread.

        It takes no revision and sends no signal, so it must not change anything that a process keeps in memory.
        """

    def migration(self) -> AbstractContextManager[Execute]:
        """The same, for changes of the schema: no revision, one process at a time."""

    def abandon(self) -> None:
        """Break off whatever waits for a server that hangs, and refuse what comes. Nothing where there is no server."""

    def resume(self) -> None:
        """The server answers again."""

    def opening(self) -> AbstractContextManager[None]:
        """Held by one process at a time, of all that open this database."""

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Insert however many rows. Inside a `migration`."""

    def set_counter(self, table: Table, greatest: int) -> None:
        """Have a table's serial column go on after a number. Inside a `migration`."""
