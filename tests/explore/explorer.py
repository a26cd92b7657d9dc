"""Runs operations in forked processes, one fault each, and judges what they leave."""

import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.credentials.token_rows import revoke
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import RelaydeckError, StoreError
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.postgres import PostgresDatabase
from tests.explore import state, subject
from tests.explore.boundary import CRASHED, Fault
from tests.explore.operations import ALLOWED, BRIEF, DOCUMENT, LENIENT, LIMITED, PATIENT, SEALED, SECRETS, Operation
from tests.explore.peers import Peers
from tests.explore.prepared_database import PreparedDatabase
from tests.explore.takeover import LEASE_SECONDS, Takeover, take_over
from tests.node.process import HARDHAT, running
from tests.notifications.verifying import verifying_receiver
from tests.places import choose
from tests.postgres import PostgresServer
from tests.seeding import issue

_LONGEST_RUN = 120.0  # seconds
_LONGEST_END = 1.0  # of a connection that the service closed
_AHEAD = 3600.0  # seconds: whatever waits for a later attempt is due
_LOG_SHOWN = 5_000  # characters, of a run with findings
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
        self.whole: set[str] = set()  # the kinds that each call was broken with

    @property
    def faults(self) -> int:
        return sum(self.by_kind.values())

    def add(self, other: "Tally") -> None:
        self.calls = max(self.calls, other.calls)
        self.by_kind += other.by_kind
        self.acknowledged += other.acknowledged
        self.findings += other.findings
        self.whole |= other.whole


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

    def open(self) -> Store:
        """As another process sees the database; open until `close`."""
        self._kept = self._kept or self._open(self.where)
        return self._kept

    def open_target(self) -> "closing[Store]":
        return closing(self._open(self.target))

    def _open(self, where: Path | DatabaseUrl) -> Store:
        return open_store_at(self.folder, where, self.folder / "master.key")

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def prepare_fork(self) -> None:
        """A forked process must not inherit a connection to a file; those to a server stay for the next time."""
        if not isinstance(self.where, DatabaseUrl):
            self.close()

    def environment(self, operation: Operation, fault: Fault | None = None) -> dict[str, str]:
        where = self.target if operation.restores else self.where
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
        limits = LIMITED if operation.life == "limit" else {}
        lease = {"RELAYDECK_LEASE_SECONDS": str(LEASE_SECONDS)} if operation.taken_over else {}
        places = {"RELAYDECK_DATABASE_URL": _as_url(where), "RELAYDECK_HOME": str(self.folder)}
        bounds = BRIEF if fault is not None and fault.kind == "silence" else LENIENT
        return kept | PATIENT | ALLOWED | bounds | limits | lease | places


def _as_url(where: Path | DatabaseUrl) -> str:
    return where.reveal() if isinstance(where, DatabaseUrl) else f"sqlite:///{where}"


def kinds_of(operation: Operation, engine: str) -> list[str]:
    """A file completes a call or fails it; only a server can complete one and lose the answer."""
    return [kind for kind in operation.kinds if kind != "lost" or engine == "PostgreSQL"]


class Homes:
    """Copies of prepared homes on one engine."""

    def __init__(self, folder: Path, server: PostgresServer | None, peers: Peers) -> None:
        """Without a server the databases are files."""
        self.engine = "SQLite" if server is None else "PostgreSQL"
        self._folder, self._server, self.peers = folder, server, peers
        self._number = 0
        self._process = os.getpid()  # in the names of folders and databases: others explore at the same time
        self._templates: dict[str, Home] = {}
        self._databases: dict[str, PreparedDatabase] = {}
        self._tokens: dict[str, tuple[str, str]] = {}

    def token(self, operation: Operation) -> str:
        return self._tokens[operation.home][0]

    def victim(self, operation: Operation) -> str:
        return self._tokens[operation.home][1]

    def _place(self, folder: Path, database: str) -> Path | DatabaseUrl:
        return folder / "relaydeck.db" if self._server is None else self._server.url(database)

    def _template(self, name: str) -> Home:
        """Prepared when it is first needed."""
        if name not in self._templates:
            folder = self._folder / f"{name}-{self._process}-{self.engine}"
            database = self._create(f"{name}_{self._process}", "TEMPLATE template0")
            home = Home(folder, self._place(folder, database), folder / "target.db")
            self._tokens[name] = self._prepare(name, home)
            home.close()
            if isinstance(home.where, DatabaseUrl):
                self._databases[name] = PreparedDatabase(home.where)
            self._templates[name] = home
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
        template = self._template(operation.home)
        self._number += 1
        number = f"{self._process}_{self._number}"
        folder = self._folder / f"{number}-{self.engine}"
        shutil.copytree(template.folder, folder)
        if prepared := self._databases.get(operation.home):
            prepared.restore()
        where = template.where if prepared else folder / "relaydeck.db"
        target = self._create(f"target_{number}", "TEMPLATE template0") if operation.restores else ""
        home = Home(folder, where, self._target(folder, target))
        try:
            yield home
        finally:
            home.close()
            shutil.rmtree(folder, ignore_errors=True)
            if target:
                self._run(f"DROP DATABASE {target} WITH (FORCE)")

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
    steps = list(_steps(home, task))
    return 0 if any(each.get("status") == 200 for each in steps) else 1


def _steps(home: Home, task: subject.Task) -> Iterator[dict[str, Any]]:
    """The reports of a forked subject. It waits while the caller looks at one; the last is its exit code."""
    home.prepare_fork()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            subject.run(task, theirs)
        finally:
            os._exit(1)
    theirs.close()
    ours.settimeout(_LONGEST_RUN)
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
    revision: int  # before


class Explorer:
    def __init__(self, homes: Homes, bug: str = "") -> None:
        self._homes = homes
        self._bug = bug
        self._references: dict[str, Reference] = {}
        self._reference_calls: dict[str, int] = {}

    def explore(self, operation: Operation, kind: str, tally: Tally, end: float) -> None:
        """Fail call 1, 2, 3 … in one way, until a run meets no fault, or the monotonic clock reaches `end`."""
        for number in count(1):
            if time.monotonic() > end:
                return
            is_met = self.try_one(operation, Fault(number, kind), tally)
            if not is_met and number > self._calls(operation):  # some calls are made in the background, or are not
                tally.whole.add(kind)
                return

    def explore_by_chance(self, operation: Operation, dice: random.Random, tally: Tally) -> None:
        number = dice.randint(1, self._calls(operation))
        self.try_one(operation, Fault(number, dice.choice(kinds_of(operation, self._homes.engine))), tally)

    def _calls(self, operation: Operation) -> int:
        self._reference(operation)
        return max(self._reference_calls[operation.name], 1)

    def try_one(self, operation: Operation, fault: Fault | None, tally: Tally) -> bool:
        """Run once; False when no call met the fault."""
        reference = self._reference(operation)  # before: on PostgreSQL the next home has the same database
        with self._homes.fresh(operation) as home:
            run = _Run(self._homes, home, operation, fault, self._bug, reference)
            run.judge()
            if run.problems:
                print(f"{operation.name}, {fault}: {run.problems}\n{run.output[-_LOG_SHOWN:]}", file=sys.stderr)
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
                found, bodies, revision = [_read(home, operation)], [], state.revision_of(home.open())
                for first in (True, False):
                    steps = list(_steps(home, _task(self._homes, home, operation, None, "")))
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
            self._references[operation.name] = Reference(found[0], found[1], found[2], bodies[0], revision)
        return self._references[operation.name]


def _task(homes: Homes, home: Home, operation: Operation, fault: Fault | None, bug: str) -> subject.Task:
    tokens = homes.token(operation), homes.victim(operation)
    output = home.folder / "output"
    return subject.Task(operation, fault, home.environment(operation, fault), *tokens, home.places, output, bug)


def _read(home: Home, operation: Operation) -> state.State:
    return state.read_state(home.open(), operation.apart)


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
        for step in _steps(self._home, _task(self._homes, self._home, self._operation, self._fault, self._bug)):
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
        found = _read(self._home, self._operation)
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
        task = _task(self._homes, self._home, self._operation, None, self._bug)
        for step in _steps(self._home, task._replace(ahead=_AHEAD)):
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
        column = self._home.open().database.column
        sent = column("SELECT seq FROM events WHERE relayer_id IS NOT NULL ORDER BY seq")
        pending = column("SELECT seq FROM deliveries WHERE state = 'pending'")
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
            if isinstance(store.database, PostgresDatabase):
                store.database.writer.execute(_BUSY)
            with store.database.transaction_at_once() or store.database.transaction() as transaction:
                revoke(transaction, store.vault.proofs, "root", now=int(time.time()))
            self._revoked_at = transaction.revision

    def _take_over(self) -> None:
        """Another process takes the lease, as after a pause that was longer than it lasts."""
        store = self._home.open()
        with suppress(StoreError):
            if isinstance(store.database, PostgresDatabase):
                store.database.writer.execute(_BUSY)
            with store.database.transaction_at_once() or store.database.transaction() as transaction:
                taken = take_over(transaction, self._operation.taken_over, is_remote=store.database.remote)
            self._takeover = taken

    def _check_no_later_write(self) -> None:
        newest = self._home.open().database.read("SELECT max(revision) AS newest FROM notifications")[0].newest
        if newest > self._revoked_at:
            self.problems.append("a write was made after its token was revoked")


def _difference(expected: Mapping[str, list[str]], found: Mapping[str, list[str]]) -> str:
    for table, rows in found.items():
        missing = [row for row in expected[table] if row not in rows]
        added = [row for row in rows if row not in expected[table]]
        if missing or added or len(rows) != len(expected[table]):
            return f"{table}: expected {missing or len(expected[table])}, found {added or len(rows)}"
    return "nothing"


class Ground(NamedTuple):
    """What the processes that explore share. Without a server the databases are files."""

    folder: Path
    node: str
    engines: tuple[str, ...]
    server: PostgresServer | None

    def prepare_homes(self) -> list[Homes]:
        """Of this process, on each engine. The receiver ends with the process."""
        peers = Peers(self.node, ExitStack().enter_context(verifying_receiver()))
        servers = {"SQLite": None, "PostgreSQL": self.server}
        return [Homes(self.folder, servers[engine], peers) for engine in self.engines]


@contextmanager
def prepared_ground(engines: Sequence[str]) -> Iterator[Ground]:
    """Call `boundary.install` before."""
    # In memory: the exploration decides itself which syncs fail.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="relaydeck-explore-", dir=memory))
    server = PostgresServer() if "PostgreSQL" in engines else None
    try:
        with running(HARDHAT) as node:
            yield Ground(folder, node, tuple(engines), server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.remove()
