"""Homes to break: a copy of a prepared one for each run, and the processes that are forked for them."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.open_store import Store, open_store_at
from tests.node.process import HARDHAT, running
from tests.proofs.explore import subject
from tests.proofs.explore.boundary import Fault
from tests.proofs.explore.operations import ALLOWED, BRIEF, DOCUMENT, LENIENT, LIMITED, PATIENT, Operation
from tests.proofs.explore.peers import Peers
from tests.proofs.explore.prepared_database import PreparedDatabase
from tests.proofs.explore.takeover import LEASE_SECONDS
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.seeding import issue
from tests.support.verifying import verifying_receiver

_LONGEST_RUN = 120.0  # seconds
_QUIET = ("quiet", "prepared")  # without a node and a receiver


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
        _prepare(home, "apply", "-", stdin=DOCUMENT if name in _QUIET else self.peers.document)
        if name == "pending":
            _prepare(home, "relayer", "pause", "local-1")
            _prepare(home, "relayer", "resume", "local-1")
        tokens = issue(home.folder, "root", "admin"), issue(home.folder, "victim")
        if name == "quiet":
            _prepare(home, "backup", "create", home.places["backup"])
        elif name == "prepared":
            _prepare(home, "key", "rotate", "--master", "--prepare")
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
    steps = list(steps_of(home, task))
    return 0 if any(each.get("status") == 200 for each in steps) else 1


def steps_of(home: Home, task: subject.Task) -> Iterator[dict[str, Any]]:
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
