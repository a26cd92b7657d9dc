"""Finds who holds the lock that every write needs: the row of the clock on PostgreSQL, the file's lock on SQLite.

Nothing here waits for that lock.
"""

import os
import re
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from relaydeck.store.rows import Row, columns_of
from relaydeck.timestamps import utc

LONGEST_SILENCE = 4  # seconds, of a client whose transaction others wait for: then its session is ended
_LONGEST_NAME = 63  # bytes: the server cuts off the rest
_OUR_NAME = re.compile(r".+ (?:read|write|listen|migrate) (\d+)@(.+)")


_AWAITS_STANDBY = "waits for a synchronous standby to confirm its commit"


class LockHolder(NamedTuple):
    """A session of the PostgreSQL server, or a process of this machine that has the SQLite file locked."""

    pid: int  # of the server's process, or of the process of this machine
    application: str  # the name that the session gave itself, or the program; empty: another role's, which is not shown
    address: str  # of the client; empty: on the machine of the database, or not shown
    since: float | None  # the beginning of its transaction, in seconds since the epoch; None: not known
    activity: str
    kind: str = "process"

    @property
    def awaits_standby(self) -> bool:
        return self.activity == _AWAITS_STANDBY

    @property
    def is_own(self) -> bool:
        """Whether it belongs to the process that asks."""
        return self.pid == os.getpid() if self.kind == "process" else self.application.endswith(_own_name())

    @property
    def replica(self) -> str:
        """The process of ours that it is, as `process 17 on host-a`; empty when it is none."""
        ours = _OUR_NAME.fullmatch(self.application)
        return f"process {ours[1]} on {ours[2]}" if ours else ""

    def __str__(self) -> str:
        named = ", ".join(filter(None, (self.application, self.address))) or "of another role"
        since = "" if self.since is None else f", in a transaction since {utc(self.since)}"
        return f"{self.kind} {self.pid} ({named}){since}: {self.activity}"


OnLockWait = Callable[[LockHolder, bool], object]  # and whether it was ended; called in the thread that waits


def session_name(given: str, purpose: str) -> str:
    """What a connection of ours is called on the server: its purpose, and the process and host that opened it."""
    return f"{given[:20]} {purpose}{_own_name()}"[:_LONGEST_NAME]


def _own_name() -> str:
    return f" {os.getpid()}@{socket.gethostname()}"


# -- PostgreSQL --------------------------------------------------------------------------------------

_SILENT = "state LIKE 'idle in transaction%' OR wait_event_type = 'Client'"
_COLUMNS = columns_of(
    LockHolder._fields,
    application="coalesce(application_name, '')",
    address="coalesce(host(client_addr), '')",
    since="extract(epoch FROM xact_start)::float8",
    activity=(
        f"CASE WHEN state IS NULL THEN 'not shown' WHEN wait_event = 'SyncRep' THEN '{_AWAITS_STANDBY}'"
        " WHEN state LIKE 'idle%' THEN 'idle'"
        f" WHEN {_SILENT} THEN 'waits for its client' ELSE 'runs a statement' END"
    ),
    kind="'session'",
)
# A holder may itself wait for another session: the one that none other blocks is named.
_HOLDER = (
    "WITH RECURSIVE holding(pid) AS (SELECT pid FROM ({first}) AS first"
    " UNION SELECT unnest(pg_blocking_pids(pid)) FROM holding)"
    f" SELECT {_COLUMNS} FROM pg_stat_activity WHERE pid IN (SELECT pid FROM holding)"
    " AND pg_blocking_pids(pid) = '{{}}' AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
)
# The first one does not read the clock, for which it might have to wait. In the second, the row has the number of the
# transaction that changes it.
_QUERIES = tuple(
    _HOLDER.format(first=first)
    for first in (
        "SELECT pid FROM pg_locks WHERE relation = to_regclass('clock') AND granted AND mode IN"
        " ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')",
        "SELECT pid FROM pg_locks JOIN clock ON transactionid = clock.xmax WHERE granted AND mode = 'ExclusiveLock'",
    )
)


def find_session(read: Callable[[str], Sequence[Row]]) -> LockHolder | None:
    found = next(filter(None, map(read, _QUERIES)), None)
    return LockHolder(*found[0]) if found else None


# Only one of our own, and not one that works. A commit that waits for a synchronous standby is left alone, too: to end
# that wait is to do without the standby. Leaves the session alone that has gone on since it was found.
END_SILENT = (
    "SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity WHERE pid = :pid AND datname = current_database()"
    f" AND usename = current_user AND application_name ~ ' write [0-9]+@' AND ({_SILENT})"
    f" AND clock_timestamp() - state_change > interval '{LONGEST_SILENCE} seconds'"
)
# Its row differs from one look to the next while the client sends rows: a session that reads them mostly waits for its
# client, and has done so since the statement began.
COPYING = "SELECT pid, bytes_processed FROM pg_stat_progress_copy WHERE pid = :pid"

# -- SQLite ------------------------------------------------------------------------------------------

_STOPPED = ("T", "t")  # by a signal, or by a debugger
_WRITE_LOCK = "120"  # the byte of the shared-memory file that stands for the lock, in write-ahead mode


def find_file_lock_holder(database: Path) -> LockHolder | None:
    """None also where the system does not list its locks."""
    try:
        inode = database.with_name(f"{database.name}-shm").stat().st_ino
        locks = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    except OSError:
        return None
    for lock in locks:  # 1: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120
        if lock[-5] == "WRITE" and lock[-3].endswith(f":{inode}") and lock[-2] == _WRITE_LOCK:
            return _process(int(lock[-4]))
    return None


def _process(pid: int) -> LockHolder:
    try:
        name, state, _ = _status(pid)
    except OSError:
        return LockHolder(pid, "not visible here", "", None, "has the file locked")
    activity = "is stopped, with the file locked" if state in _STOPPED else "has the file locked"
    return LockHolder(pid, name, "", None, activity)


def _status(pid: int) -> tuple[str, str, int]:
    """The name of a process, its state and its parent."""
    name, _, rest = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").partition("(")[2].rpartition(")")
    state, parent = rest.split(maxsplit=2)[:2]
    return name, state, int(parent)


def end_stopped_worker(holder: LockHolder) -> bool:
    """End a process that is stopped, if it has the same parent as this one: another worker of the service.

    The parent starts another one. What the stopped one had not committed is rolled back, and was not acknowledged.
    """
    with suppress(OSError):
        _, state, parent = _status(holder.pid)
        if state in _STOPPED and parent == os.getppid():
            os.kill(holder.pid, signal.SIGKILL)
            return True
    return False
