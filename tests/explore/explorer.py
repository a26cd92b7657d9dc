"""Runs operations in forked processes, one fault each, and judges what they leave."""

import json
import os
import random
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.credentials.token_rows import revoke
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import RelaydeckError, StoreError
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.postgres import PostgresDatabase
from tests.explore import state, subject
from tests.explore.boundary import CRASHED, KINDS, Fault
from tests.explore.operations import BRIEF, DOCUMENT, LIMITED, PATIENT, SEALED, SECRETS, Operation
from tests.explore.peers import Peers, running_peers
from tests.explore.takeover import LEASE_SECONDS, Takeover, take_over
from tests.places import choose
from tests.postgres import PostgresServer
from tests.seeding import issue

_LONGEST_RUN = 30.0  # seconds
_LONGEST_END = 1.0  # of a connection that the service closed
_AHEAD = 3600.0  # seconds: whatever waits for a later attempt is due
_BUSY = "SET lock_timeout = '50ms'"


class Finding(NamedTuple):
    """Something that must not happen, and how to see it again."""

    engine: str
    operation: str
    fault: Fault | None
    problem: str

    def __str__(self) -> str:
        fault = "no fault" if self.fault is None else f"call {self.fault.number}, {self.fault.kind}"
        return f"{self.engine}, {self.operation}, {fault}: {self.problem}"


class Tally:
    """What was tried of one operation on one engine."""

    def __init__(self) -> None:
        self.calls = 0  # of a run without a fault
        self.by_kind: Counter[str] = Counter()
        self.acknowledged = 0
        self.findings: list[Finding] = []
        self._printed = 0

    def unprinted(self) -> list[Finding]:
        """The findings since the last call."""
        new, self._printed = self.findings[self._printed :], len(self.findings)
        return new

    @property
    def faults(self) -> int:
        return sum(self.by_kind.values())


class Home:
    """A folder with its database, and an empty database beside it, `target`, that commands may copy to."""

    def __init__(self, folder: Path, where: Path | DatabaseUrl, target: Path | DatabaseUrl) -> None:
        self.folder, self.where, self.target = folder, where, target
        self._kept: Store | None = None

    @property
    def places(self) -> dict[str, str]:
        """What the words of a command name."""
        copy, backup, restored = (str(self.folder / name) for name in ("copy", "backup", "restored"))
        return {"copy": copy, "backup": backup, "restored": restored, "target": _as_url(self.target)}

    @contextmanager
    def open(self) -> Iterator[Store]:
        """As another process sees the database.

        Connections to a server are kept for the next time. Those of SQLite are not: a forked process must not inherit
        them.
        """
        store = self._kept or self._open(self.where)
        if isinstance(self.where, DatabaseUrl):
            self._kept = store
            yield store
        else:
            with closing(store):
                yield store

    def open_target(self) -> "closing[Store]":
        return closing(self._open(self.target))

    def _open(self, where: Path | DatabaseUrl) -> Store:
        return open_store_at(self.folder, where, self.folder / "master.key")

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def environment(self, operation: Operation) -> dict[str, str]:
        where = self.target if operation.restores else self.where
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
        limits = LIMITED if operation.life == "limit" else {}
        lease = {"RELAYDECK_LEASE_SECONDS": str(LEASE_SECONDS)} if operation.taken_over else {}
        places = {"RELAYDECK_DATABASE_URL": _as_url(where), "RELAYDECK_HOME": str(self.folder)}
        return kept | PATIENT | BRIEF | limits | lease | places


def _as_url(where: Path | DatabaseUrl) -> str:
    return where.reveal() if isinstance(where, DatabaseUrl) else f"sqlite:///{where}"


class Homes:
    """Copies of prepared homes on one engine."""

    def __init__(self, folder: Path, server: PostgresServer | None, peers: Peers) -> None:
        """Without a server the databases are files."""
        self.engine = "SQLite" if server is None else "PostgreSQL"
        # The file answers a call or fails it; only a server can do what it was asked and lose the answer.
        self._kinds = [kind for kind in KINDS if kind != "lost" or server is not None]
        self._folder, self._server, self.peers = folder, server, peers
        self._number = 0
        self._templates: dict[str, tuple[Home, str]] = {}
        self._tokens: dict[str, tuple[str, str]] = {}

    def kinds(self, operation: Operation) -> list[str]:
        return [kind for kind in self._kinds if kind in operation.kinds]

    def token(self, operation: Operation) -> str:
        return self._tokens[operation.home][0]

    def victim(self, operation: Operation) -> str:
        return self._tokens[operation.home][1]

    def _place(self, folder: Path, database: str) -> Path | DatabaseUrl:
        return folder / "relaydeck.db" if self._server is None else self._server.url(database)

    def _template(self, name: str) -> tuple[Home, str]:
        """A home and the name of its database; prepared when it is first needed."""
        if name not in self._templates:
            folder = self._folder / f"{name}-{self.engine}"
            database = "" if self._server is None else self._server.fresh()
            home = Home(folder, self._place(folder, database), folder / "target.db")
            self._tokens[name] = self._prepare(name, home)
            self._templates[name] = (home, database)
        return self._templates[name]

    def _prepare(self, name: str, home: Home) -> tuple[str, str]:
        if isinstance(home.where, DatabaseUrl):
            choose(home.folder, home.where)
        _prepare(home, "apply", "-", stdin=DOCUMENT if name == "quiet" else self.peers.document)
        if name == "pending":
            _prepare(home, "relayer", "pause", "local-1")
            _prepare(home, "relayer", "resume", "local-1")
        tokens = issue(home.folder, "root", "admin"), issue(home.folder, "victim")
        if name == "quiet":
            _prepare(home, "backup", "create", home.places["backup"])
        else:
            _prepare(home, "notification", "test", "pager")
            self._give_up_delivery(home)
        return tokens

    def _give_up_delivery(self, home: Home) -> None:
        store = open_store_at(home.folder, home.where, home.folder / "master.key")
        with closing(store), store.database.transaction() as transaction:
            transaction.execute("UPDATE deliveries SET state = 'dead', due_at = NULL WHERE relayer_id IS NULL")

    @contextmanager
    def fresh(self, operation: Operation) -> Iterator[Home]:
        template, database = self._template(operation.home)
        self._number += 1
        folder = self._folder / f"{self._number}-{self.engine}"
        shutil.copytree(template.folder, folder)
        # Through the log: copying the files of a small database costs two checkpoints.
        name = self._create(f"explored_{self._number}", f"TEMPLATE {database} STRATEGY wal_log")
        target = self._create(f"target_{self._number}", "TEMPLATE template0") if operation.restores else ""
        home = Home(folder, self._place(folder, name), self._target(folder, target))
        try:
            yield home
        finally:
            home.close()
            shutil.rmtree(folder, ignore_errors=True)
            for each in filter(None, (name, target)):
                self._run(f"DROP DATABASE {each} WITH (FORCE)")

    def _target(self, folder: Path, database: str) -> Path | DatabaseUrl:
        """Restored on the same engine, moved to the other one, or to another file where there is no server."""
        if database and self._server is not None:
            return self._server.url(database)
        return folder / "target.db"

    def _create(self, name: str, options: str) -> str:
        self._run(f"CREATE DATABASE {name} {options}")
        return name if self._server is not None else ""

    def _run(self, sql: str) -> None:
        if self._server is not None:
            self._server.ask(sql)


def _prepare(home: Home, *command: str, stdin: str = "") -> None:
    assert fork_command(home, command, stdin) == 0, (home.folder / "output").read_text()


def fork_command(home: Home, command: Sequence[str], stdin: str) -> int:
    """Run a command without a fault; 0 when it succeeded."""
    home.folder.mkdir(exist_ok=True, parents=True)
    operation = Operation("prepare", command=tuple(command), stdin=stdin)
    output = home.folder / "output"
    task = subject.Task(operation, None, home.environment(operation), "", "", home.places, output)
    steps = list(_steps(task))
    return 0 if any(each.get("status") == 200 for each in steps) else 1


def _steps(task: subject.Task, deadline: float = _LONGEST_RUN) -> Iterator[dict[str, Any]]:
    """The reports of a forked subject. It waits while the caller looks at one; the last is its exit code."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            subject.run(task, theirs)
        finally:
            os._exit(1)
    theirs.close()
    ours.settimeout(deadline)
    with ours:
        try:
            while content := ours.recv(1 << 22):
                yield json.loads(content)
                ours.send(b"!")
        except TimeoutError:
            os.kill(child, 9)
            yield {"step": "late"}
        except OSError:
            pass
    yield {"step": "exit", "code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


class Reference(NamedTuple):
    """The state before an operation, after it, and after it was made twice; and the body of its answer."""

    before: state.State
    once: state.State
    twice: state.State
    body: str


class Explorer:
    def __init__(self, homes: Homes, bug: str = "") -> None:
        self._homes = homes
        self._bug = bug
        self._references: dict[str, Reference] = {}
        self._reference_calls: dict[str, int] = {}

    def explore(self, operation: Operation, tally: Tally) -> None:
        """Fail call 1, 2, 3 … in each way, until a run meets no fault."""
        for kind in self._homes.kinds(operation):
            for number in count(1):
                if not self.try_one(operation, Fault(number, kind), tally):
                    break

    def explore_by_chance(self, operation: Operation, dice: random.Random, tally: Tally) -> None:
        number = dice.randint(1, self._calls(operation))
        self.try_one(operation, Fault(number, dice.choice(self._homes.kinds(operation))), tally)

    def _calls(self, operation: Operation) -> int:
        self._reference(operation)
        return max(self._reference_calls[operation.name], 1)

    def try_one(self, operation: Operation, fault: Fault | None, tally: Tally) -> bool:
        """Run once; False when no call met the fault."""
        with self._homes.fresh(operation) as home:
            run = _Run(self._homes, home, operation, fault, self._bug, self._reference(operation))
            run.judge()
        tally.calls = self._calls(operation)
        tally.acknowledged += run.acknowledged
        if run.met and fault is not None:
            tally.by_kind[fault.kind] += 1
        tally.findings += [Finding(self._homes.engine, operation.name, fault, each) for each in run.problems]
        return bool(run.met)

    def _reference(self, operation: Operation) -> Reference:
        """Without faults and bugs."""
        if operation.name not in self._references:
            with self._homes.fresh(operation) as home:
                found, bodies = [_read(home, operation)], []
                for first in (True, False):
                    steps = list(_steps(_task(self._homes, home, operation, None, "")))
                    answered = [each for each in steps if each["step"] == "answer"]
                    assert not first or [each["status"] for each in answered] == [operation.done], (
                        operation.name,
                        steps,
                        (home.folder / "output").read_text(),
                    )
                    calls = next(len(each["calls"]) for each in steps if each["step"] == "end")
                    self._reference_calls.setdefault(operation.name, calls)
                    found.append(_read(home, operation))
                    bodies += [each["body"] for each in answered]
            self._references[operation.name] = Reference(found[0], found[1], found[2], bodies[0])
        return self._references[operation.name]


def _task(homes: Homes, home: Home, operation: Operation, fault: Fault | None, bug: str) -> subject.Task:
    tokens = homes.token(operation), homes.victim(operation)
    output = home.folder / "output"
    return subject.Task(operation, fault, home.environment(operation), *tokens, home.places, output, bug)


def _read(home: Home, operation: Operation) -> state.State:
    with home.open() as store:
        return state.read_state(store, operation.apart)


class _Run:
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
        self._before, self._once, self._twice, self._body = reference
        self._revoked_at = 0
        self._takeover: Takeover | None = None
        self._stopped_backend = 0
        homes.peers.forget()
        with home.open() as store:
            self._revision = state.revision_of(store)
        self.problems: list[str] = []
        self.acknowledged = False
        self._succeeded = False
        self.met = False

    def judge(self) -> None:
        for step in _steps(_task(self._homes, self._home, self._operation, self._fault, self._bug)):
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

    def _stop_backend(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._stopped_backend = pid

    def _continue_backend(self) -> None:
        """The server is back; wait until it has noticed that the connection was closed, and has ended it."""
        if self._stopped_backend:
            os.kill(self._stopped_backend, signal.SIGCONT)
            deadline = time.monotonic() + _LONGEST_END
            while os.path.exists(f"/proc/{self._stopped_backend}") and time.monotonic() < deadline:
                time.sleep(0.01)
        self._stopped_backend = 0

    def _limited(self, admitted: int, allowed: float) -> None:
        if admitted > allowed:
            self.problems.append(f"{admitted} requests were admitted; the limit allows {allowed:.1f}")

    def _answer(self, status: int, body: str, revision: int) -> None:
        self.acknowledged = self._succeeded = status == self._operation.done
        if self._revoked_at:
            self._check_no_later_write()
        elif self._takeover is not None:
            with self._home.open() as store:
                self.problems += self._takeover.problems(store)
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
            self.problems.append(f"the next attempt was answered {status}: {body[:200]}")
        if status == self._operation.repeated and not self._is_lost:
            self.problems.append("an attempt that was answered 500 was stored")
        self._expect("tried again", self._once, self._twice)
        self._check_body(body)

    def _shown(self, signers: list[Any], relayers: list[Any], victim: int) -> None:
        with self._home.open() as store:
            read = store.database.read
            stored = [row.id for row in read("SELECT id FROM signers ORDER BY seq")]
            switches = [(row.id, row.name, bool(row.paused)) for row in read("SELECT * FROM relayers ORDER BY seq")]
            is_live = bool(read("SELECT 1 FROM tokens WHERE name = 'victim' AND revoked_at IS NULL"))
        is_silent = self._fault is not None and self._fault.kind == "silence"
        if self._revoked_at or is_silent or (self._is_lost and not self.acknowledged):
            # The token of these requests; or lists from memory, with their age, while the database does not answer; or
            # a write that nobody acknowledged, which is listed within a second.
            return
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
            self.problems.append(f"the process ended with code {code}: {self._output[-500:]}")

    # -- what must be true ------------------------------------------------------------------------

    def _expect(self, moment: str, *allowed: state.State) -> None:
        found = _read(self._home, self._operation)
        if found not in allowed:
            self.problems.append(f"{moment}, but the database differs: {_difference(allowed[0], found)}")

    def _check_revision(self, revision: int) -> None:
        with self._home.open() as store:
            now = state.revision_of(store)
        if revision and not self._revision < revision <= now:
            self.problems.append(f"answered revision {revision}; before it was {self._revision}, now it is {now}")
        if self._once != self._before and now <= self._revision:
            self.problems.append("a change took no new revision")

    def _check_everything(self, moment: str) -> None:
        try:
            with self._home.open() as store:
                self.problems += [f"{moment}: {each}" for each in state.violations(store)]
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
        task = _task(self._homes, self._home, self._operation, None, self._bug)
        for step in _steps(task._replace(ahead=_AHEAD)):
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
            self.problems.append(f"the backup is not complete: {self._output[-500:]}")
        if self._operation.copies == "database":
            with self._home.open_target() as target, self._home.open() as source:
                expected, found = state.read_state(source), state.read_state(target)
                if expected != found:
                    self.problems.append(f"the copy differs from the source: {_difference(expected, found)}")
                self.problems += [f"in the copy: {each}" for each in state.violations(target)]

    def _check_arrivals(self) -> None:
        """Each event at least once, and for the first time in order."""
        if self._operation.life != "delivery" or self._is_disturbed:
            return
        arrived = list(dict.fromkeys(self._homes.peers.sequences()))
        with self._home.open() as store:
            sent = store.database.column("SELECT seq FROM events WHERE relayer_id IS NOT NULL ORDER BY seq")
            pending = store.database.column("SELECT seq FROM deliveries WHERE state = 'pending'")
        if arrived != sent or pending:
            self.problems.append(f"events {sent} were sent, {arrived} arrived, {pending} are pending")

    def _check_outputs(self) -> None:
        self._check_secrets("the output", self._output, SEALED)
        files = [path for path in self._home.folder.rglob("*") if path.is_file() and path.name != "output"]
        self.problems += state.leaks([each.encode() for each in SEALED], *files)

    @property
    def _output(self) -> str:
        path = self._home.folder / "output"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _check_secrets(self, where: str, text: str, secrets: Sequence[str]) -> None:
        tokens = self._homes.token(self._operation), self._homes.victim(self._operation)
        if any(secret in text for secret in (*secrets, *tokens)):
            self.problems.append(f"{where} contains a secret")

    # -- what others do while the subject hangs ---------------------------------------------------

    def _revoke(self) -> None:
        """Another process revokes the token, unless the subject has the lock for writes."""
        with suppress(StoreError), self._home.open() as store:
            if isinstance(store.database, PostgresDatabase):
                store.database.writer.execute(_BUSY)
            with store.database.transaction_at_once() or store.database.transaction() as transaction:
                revoke(transaction, store.vault.proofs, "root", now=int(time.time()))
            self._revoked_at = transaction.revision

    def _take_over(self) -> None:
        """Another process takes the lease, as after a pause that was longer than it lasts."""
        with suppress(StoreError), self._home.open() as store:
            if isinstance(store.database, PostgresDatabase):
                store.database.writer.execute(_BUSY)
            with store.database.transaction_at_once() or store.database.transaction() as transaction:
                taken = take_over(transaction, self._operation.taken_over, is_remote=store.database.remote)
            self._takeover = taken

    def _check_no_later_write(self) -> None:
        with self._home.open() as store:
            newest = store.database.read("SELECT max(revision) AS newest FROM notifications")[0].newest
        if newest > self._revoked_at:
            self.problems.append("a write was made after its token was revoked")


def _difference(expected: Mapping[str, list[str]], found: Mapping[str, list[str]]) -> str:
    for table, rows in found.items():
        missing = [row for row in expected[table] if row not in rows]
        added = [row for row in rows if row not in expected[table]]
        if missing or added or len(rows) != len(expected[table]):
            return f"{table}: expected {missing or len(expected[table])}, found {added or len(rows)}"
    return "nothing"


@contextmanager
def prepared_homes(engine: str = "") -> Iterator[list[Homes]]:
    """A prepared home on each engine, or on one; call `boundary.install` before."""
    # In memory: the exploration decides itself which syncs fail.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="relaydeck-explore-", dir=memory))
    server = None if engine == "SQLite" else PostgresServer()
    try:
        with running_peers() as peers:
            engines = [] if engine == "PostgreSQL" else [Homes(folder, None, peers)]
            yield [*engines, *([Homes(folder, server, peers)] if server is not None else [])]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.remove()
