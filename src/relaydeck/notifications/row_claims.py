"""Deliveries shared by any number of processes: each claims what it has room for, row by row.

A claim says who tries a delivery and until when nobody else does. It changes nothing that anybody is shown, so it
takes no revision and tells nobody; it waits for nobody either, since what another process holds is passed over.
What a process leaves behind that dies, others find when its claims have run out. One that stops gives them
back, and that is told.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from relaydeck.notifications.claims import Taken
from relaydeck.notifications.outbox import COLUMNS, FREE, Due
from relaydeck.notifications.receivers import Room
from relaydeck.store.database import Database, Transaction
from relaydeck.store.writer import Writer

_PASSED_OVER = 50  # milliseconds: what is due and was not to be had, another process is taking at this moment

# The array is made once. A list in its place might be made anew for each row, and every time be another one.
_CLAIM = (
    "UPDATE deliveries SET claimed_by = :holder, claimed_until = :until WHERE seq = ANY(ARRAY("
    " SELECT d.seq FROM unnest(CAST(:receivers AS text[]), CAST(:places AS bigint[])) AS r (id, places), LATERAL ("
    f" SELECT seq FROM deliveries WHERE notification_id = r.id AND due_at IS NOT NULL AND {FREE} <= :now"
    f" AND seq <> ALL(CAST(:busy AS bigint[])) ORDER BY {FREE}, seq LIMIT r.places FOR UPDATE SKIP LOCKED) d"
    f")) RETURNING {COLUMNS}"
)
_FREE_FROM = (
    "SELECT r.id, d.free FROM unnest(CAST(:receivers AS text[])) AS r (id), LATERAL ("
    f" SELECT {FREE} AS free FROM deliveries WHERE notification_id = r.id AND due_at IS NOT NULL"
    f" AND seq <> ALL(CAST(:busy AS bigint[])) ORDER BY {FREE}, seq LIMIT 1) d"
)
_OURS = "SELECT seq FROM deliveries WHERE seq = ANY(CAST(:sequences AS bigint[])) AND claimed_by = :holder"
_ANY_LEFT = "SELECT 1 FROM deliveries WHERE due_at IS NOT NULL AND claimed_by = :holder LIMIT 1"
_GIVE_BACK = (
    "UPDATE deliveries SET claimed_by = NULL, claimed_until = NULL, revision = :revision"
    " WHERE due_at IS NOT NULL AND claimed_by = :holder"
)


class RowClaims:
    tenure = 1

    def __init__(
        self, database: Database, writer: Writer, seconds: float, *, holder: str = "", monotonic: Callable[[], float]
    ) -> None:
        """A claim lasts for so many `seconds`, which must be longer than any try."""
        self._database = database
        self._read = database.read
        self._writer = writer
        self._seconds = seconds
        self._holder = holder or secrets.token_hex(8)
        self._monotonic = monotonic
        self._lively_until = -1.0
        self._taking: asyncio.Future[Taken] | None = None

    @property
    def delivering(self) -> bool:
        return self._monotonic() < self._lively_until

    async def wait(self) -> float:
        return 0.0

    async def take(self, rooms: Sequence[Room], now: int) -> Taken:
        # Not ended with who asks: what is claimed then must be known to whoever gives it back.
        self._taking = asyncio.ensure_future(self._database.run_in_reader(partial(self._take, rooms, now)))
        taken = await asyncio.shield(self._taking)
        if taken.dues:
            self._lively_until = self._monotonic() + self._seconds
        return taken

    def _take(self, rooms: Sequence[Room], now: int) -> Taken:
        dues = self._claim(rooms, now)
        filled = Counter(due.notification_id for due in dues)
        unfilled = [room.receiver for room in rooms if filled[room.receiver] < room.places]
        if not unfilled:
            return Taken(dues, {})
        busy = [*_busy(rooms), *(due.sequence for due in dues)]
        found = self._read(_FREE_FROM, {"receivers": unfilled, "busy": busy})
        return Taken(dues, {receiver: max(free, now + _PASSED_OVER) for receiver, free in found})

    def _claim(self, rooms: Sequence[Room], now: int) -> list[Due]:
        """One statement, and so a transaction by itself."""
        values = {
            "holder": self._holder,
            "now": now,
            "until": now + int(self._seconds * 1000),
            "receivers": [room.receiver for room in rooms],
            "places": [room.places for room in rooms],
            "busy": _busy(rooms),
        }
        dues = [Due(*row) for row in self._read(_CLAIM, values)]
        return sorted(dues, key=lambda due: (due.due_at, due.sequence))

    def ours(self, transaction: Transaction, sequences: Sequence[int]) -> set[int]:
        rows = transaction.all(_OURS, {"sequences": list(sequences), "holder": self._holder})
        return {row[0] for row in rows}

    def lose(self) -> None:
        """One that was lost is lost alone."""

    async def give_back(self) -> None:
        if self._taking is None:
            return
        await asyncio.gather(self._taking, return_exceptions=True)
        if await self._database.run_in_reader(partial(self._read, _ANY_LEFT, {"holder": self._holder})):
            await self._writer.write(self._give_back)

    def _give_back(self, transaction: Transaction) -> None:
        """With a revision: the others are to hear that there is something to try."""
        transaction.execute(_GIVE_BACK, {"revision": transaction.revision, "holder": self._holder})


def _busy(rooms: Sequence[Room]) -> list[int]:
    return [sequence for room in rooms for sequence in room.busy]
