"""One operation with one fault: what the forked process reports, and what it must leave."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from relaydeck.credentials.tokens import mark_revoked
from relaydeck.errors import RelaydeckError, StoreError
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import Database, Transaction
from relaydeck.store.postgres import PostgresDatabase
from tests.proofs.explore import state, subject
from tests.proofs.explore.boundary import CRASHED, Fault
from tests.proofs.explore.homes import Home, Homes, fork_command, steps_of
from tests.proofs.explore.operations import SEALED, SECRETS, Operation
from tests.proofs.explore.takeover import Takeover, take_over
from tests.support.statements import column

_LONGEST_END = 1.0  # of a connection that the service closed


_AHEAD = 3600.0  # seconds: whatever waits for a later attempt is due


_BUSY = "SET lock_timeout = '50ms'"


class Reference(NamedTuple):
    """The state before an operation, after it, and after it was made twice; and the body of its answer."""

    before: state.State
    once: state.State
    twice: state.State
    body: str
    revision: int  # before


def task_of(homes: Homes, home: Home, operation: Operation, fault: Fault | None, bug: str) -> subject.Task:
    tokens = homes.token(operation), homes.victim(operation)
    output = home.folder / "output"
    return subject.Task(operation, fault, home.environment(operation, fault), *tokens, home.places, output, bug)


def read_state_of(home: Home, operation: Operation) -> state.State:
    return state.read_state(home.open(), operation.apart)


class FaultedRun:
    """One operation with one fault. `problems` is what must not have happened."""

    def __init__(
        self,
        homes: Homes,
        home: Home,
        operation: Operation,
        fault: Fault | None,
        bug: str,
        reference: Reference,
    ) -> None:
        self._homes, self._home, self._operation, self._fault, self._bug = homes, home, operation, fault, bug
        self._before, self._once, self._twice, self._body, self._revision = reference
        self._revoked_at = 0
        self._takeover: Takeover | None = None
        homes.peers.forget()
        self.problems: list[str] = []
        self.acknowledged = False
        self._succeeded = False
        self.met = False

    def judge(self) -> None:
        if isinstance(self._home.where, DatabaseUrl):
            self._home.open()  # later, a stopped process of the server may hold the lock that opening needs
        for step in steps_of(self._home, task_of(self._homes, self._home, self._operation, self._fault, self._bug)):
            getattr(self, f"_{step.pop('step')}")(**step)
        self._continue_backend()
        self._check_everything("after the run")
        if not self._succeeded and not self._is_disturbed:
            self._try_again()
        self._check_copy()
        self._check_arrivals()
        self._check_outputs()

    @property
    def _is_disturbed(self) -> bool:
        """Whether another process took away the right to act."""
        return bool(self._revoked_at) or self._takeover is not None

    # -- what the subject reports -----------------------------------------------------------------

    def _hang(self, call: str) -> None:
        if self._operation.revokes_during_hang:
            self._revoke()
        if self._operation.taken_over:
            self._take_over()

    def _continue_backend(self) -> None:
        """The server is back; wait until it has noticed that the connection was closed, and has ended it."""
        note = self._home.folder / subject.STOPPED
        if note.exists():
            stopped = int(note.read_text())
            note.unlink()
            with suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
            deadline = time.monotonic() + _LONGEST_END
            while os.path.exists(f"/proc/{stopped}") and time.monotonic() < deadline:
                time.sleep(0.01)

    def _limited(self, admitted: int, allowed: float) -> None:
        if admitted > allowed:
            self.problems.append(f"{admitted} requests were admitted; the limit allows {allowed:.1f}")

    def _answer(self, status: int, body: str, revision: int) -> None:
        self.acknowledged = self._succeeded = status == self._operation.done
        if self._revoked_at:
            self._check_no_later_write()
        elif self._takeover is not None:
            self.problems += self._takeover.problems(self._home.open())
        elif self.acknowledged:
            self._expect("acknowledged", self._once)
            self._check_revision(revision)
            self._check_body(body)
        elif status != 500 or self._fault is None or self._fault.kind in ("clock", "hang"):
            self.problems.append(f"answered {status}: {body[:200]}")
        elif self._operation.atomic:
            self._expect("failed", self._before, *([self._once] if self._is_lost else []))
        self._check_secrets("the answer", body, SECRETS)
        self._continue_backend()

    def _check_body(self, body: str) -> None:
        if self._operation.same_body and body != self._body:
            self.problems.append(f"answered {body}, without a fault {self._body}")

    @property
    def _is_lost(self) -> bool:
        """Whether the caller cannot know if its write was stored."""
        return self._fault is not None and self._fault.kind in ("lost", "silence")

    def _retry(self, status: int, body: str, revision: int) -> None:
        self._succeeded = True
        if status not in (self._operation.done, self._operation.repeated):
            self.problems.append(f"the next attempt was answered {status}: {body[:200]} {self.output[-800:]}")
        if status == self._operation.repeated and not self._is_lost:
            self.problems.append("an attempt that was answered 500 was stored")
        self._expect("tried again", self._once, self._twice)
        self._check_body(body)

    def _shown(self, signers: list[Any], relayers: list[Any], victim: int, is_stale: bool) -> None:
        if self._revoked_at or (self._is_lost and not self.acknowledged):
            # The token of these requests; or a write that nobody acknowledged, which is listed within a second.
            return
        if is_stale:  # the response states its age: that worker has not reached the server again yet
            return
        read = self._home.open().database.read
        stored = [row.id for row in read("SELECT id FROM signers ORDER BY seq")]
        switches = [(row.id, row.name, bool(row.paused)) for row in read("SELECT * FROM relayers ORDER BY seq")]
        is_live = bool(read("SELECT 1 FROM tokens WHERE name = 'victim' AND revoked_at IS NULL"))
        if sorted(each["id"] for each in signers) != sorted(stored):
            self.problems.append("another worker lists other signers than the database has")
        if sorted((each["id"], each["name"], each["paused"]) for each in relayers) != sorted(switches):
            self.problems.append("another worker lists other relayers than the database has")
        if (victim == 200) != is_live:
            self.problems.append("another worker judges a token otherwise than the database")

    def _late(self) -> None:
        self.problems.append("the process did not come to an end")

    def _end(self, code: int, calls: list[str], met: str) -> None:
        self.met = bool(met)

    def _exit(self, code: int) -> None:
        is_crash = self._fault is not None and self._fault.kind == "crash"
        if code == CRASHED and is_crash:
            self.met = True
        elif code != 0:
            self.problems.append(f"the process ended with code {code}: {self.output[-500:]}")

    # -- what must be true ------------------------------------------------------------------------

    def _expect(self, moment: str, *allowed: state.State) -> None:
        found = read_state_of(self._home, self._operation)
        if found not in allowed:
            self.problems.append(f"{moment}, but the database differs: {_difference(allowed[0], found)}")

    def _check_revision(self, revision: int) -> None:
        now = state.revision_of(self._home.open())
        if revision and not self._revision < revision <= now:
            self.problems.append(f"answered revision {revision}; before it was {self._revision}, now it is {now}")
        if self._once != self._before and now <= self._revision:
            self.problems.append("a change took no new revision")

    def _check_everything(self, moment: str) -> None:
        try:
            self.problems += [f"{moment}: {each}" for each in state.violations(self._home.open())]
        except RelaydeckError as error:
            self.problems.append(f"{moment} the store does not open: {error}")
            return
        if self._is_disturbed:
            return
        if self.acknowledged:
            self._expect(f"acknowledged, {moment}", self._once)
        elif self._operation.atomic and not self._succeeded:
            self._expect(moment, self._before, self._once)

    def _try_again(self) -> None:
        """In a new process, as after a restart."""
        task = task_of(self._homes, self._home, self._operation, None, self._bug)
        for step in steps_of(self._home, task._replace(ahead=_AHEAD)):
            if step["step"] == "answer":
                self._succeeded = True
                if step["status"] not in (self._operation.done, self._operation.repeated):
                    self.problems.append(f"after a restart it was answered {step['status']}: {step['body'][:200]}")
        if not self._succeeded:
            self.problems.append("after a restart there was no answer")
        self._expect("after a restart", self._once, self._twice)
        self._check_everything("after a restart")

    def _check_copy(self) -> None:
        copy = self._home.places["copy"]
        if os.path.exists(copy) and fork_command(self._home, ("backup", "drill", copy), ""):
            self.problems.append(f"the backup is not complete: {self.output[-500:]}")
        if self._operation.copies == "database":
            with self._home.open_target() as target:
                expected, found = state.read_state(self._home.open()), state.read_state(target)
                if expected != found:
                    self.problems.append(f"the copy differs from the source: {_difference(expected, found)}")
                self.problems += [f"in the copy: {each}" for each in state.violations(target)]

    def _check_arrivals(self) -> None:
        """Each event at least once, and for the first time in order."""
        if self._operation.life != "delivery" or self._is_disturbed:
            return
        arrived = list(dict.fromkeys(self._homes.peers.sequences()))
        database = self._home.open().database
        sent = column(database, "SELECT seq FROM events WHERE relayer_id IS NOT NULL ORDER BY seq")
        pending = column(database, "SELECT seq FROM deliveries WHERE state = 'pending'")
        if arrived != sent or pending:
            self.problems.append(f"events {sent} were sent, {arrived} arrived, {pending} are pending")

    def _check_outputs(self) -> None:
        self._check_secrets("the output", self.output, SEALED)
        files = [path for path in self._home.folder.rglob("*") if path.is_file() and path.name != "output"]
        self.problems += state.leaks([each.encode() for each in SEALED], *files)

    @property
    def output(self) -> str:
        path = self._home.folder / "output"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _check_secrets(self, where: str, text: str, secrets: Sequence[str]) -> None:
        tokens = self._homes.token(self._operation), self._homes.victim(self._operation)
        if any(secret in text for secret in (*secrets, *tokens)):
            self.problems.append(f"{where} contains a secret")

    # -- what others do while the subject hangs ---------------------------------------------------

    def _revoke(self) -> None:
        """Another process revokes the token, unless the subject has the lock for writes."""
        store = self._home.open()
        with suppress(StoreError):
            with _transaction_without_waiting(store.database) as transaction:
                mark_revoked(transaction, store.vault.proofs, "root", now=int(time.time()))
            self._revoked_at = transaction.revision

    def _take_over(self) -> None:
        """Another process takes the lease, as after a pause that was longer than it lasts."""
        store = self._home.open()
        with suppress(StoreError):
            with _transaction_without_waiting(store.database) as transaction:
                taken = take_over(transaction, self._operation.taken_over, is_remote=store.database.remote)
            self._takeover = taken

    def _check_no_later_write(self) -> None:
        newest = self._home.open().database.read("SELECT max(revision) AS newest FROM notifications")[0].newest
        if newest > self._revoked_at:
            self.problems.append("a write was made after its token was revoked")


@contextmanager
def _transaction_without_waiting(database: Database) -> Iterator[Transaction]:
    """Raises StoreTrouble when another process has the lock for writes."""
    if isinstance(database, PostgresDatabase):
        database.writer.execute(_BUSY)
    at_once = database.transaction_at_once()
    if at_once is None:
        with database.transaction() as transaction:
            yield transaction
        return
    with at_once as open_transaction:
        yield open_transaction
    open_transaction.commit()
    open_transaction.confirm()


def _difference(expected: Mapping[str, list[str]], found: Mapping[str, list[str]]) -> str:
    for table, rows in found.items():
        missing = [row for row in expected[table] if row not in rows]
        added = [row for row in rows if row not in expected[table]]
        if missing or added or len(rows) != len(expected[table]):
            return f"{table}: expected {missing or len(expected[table])}, found {added or len(rows)}"
    return "nothing"
