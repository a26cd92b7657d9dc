"""Starts rounds of checks when their table has a row: until then not even their code is loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from relaydeck.background import LateService
from relaydeck.store.database import ReadRows, RowReader
from relaydeck.store.schedule import RowChanges, read_row_changes

if TYPE_CHECKING:
    from relaydeck.store.rounds import Rounds


class RoundsService(ABC):
    """Follows a table, as the read model does."""

    def __init__(self, table: str, interval: float, load: Callable[[], Any]) -> None:
        """`load` imports, in a thread, what `build` uses. With an interval of 0 nothing is checked."""
        self.table = table
        self._interval = interval
        self._late: LateService[Rounds[Any]] = LateService(load, self.build)
        self.close = self._late.close  # before the writer stops: releasing the lease is a write

    @abstractmethod
    def build(self) -> "Rounds[Any]": ...

    def read_all(self, reader: RowReader) -> bool:
        """Whether there is any row: the rounds themselves read which."""
        return bool(reader.read(f"SELECT 1 FROM {self.table} LIMIT 1", {}))

    def replace(self, any_row: bool) -> None:
        if self._late.service is not None:  # again, after the history of the database changed
            self._late.service.complete_schedules()
        elif any_row:
            self._start()

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> RowChanges:
        return read_row_changes(read, self.table, seen, removed=removed)

    def apply_changes(self, changes: RowChanges) -> None:
        if self._late.service is not None:
            self._late.service.apply_changes(changes)
        elif changes.written:
            self._start()

    def _start(self) -> None:
        if self._interval > 0:
            self._late.start()
