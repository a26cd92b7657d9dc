"""`python -m tests.proofs.recovery`: brings each fault about several times and counts what it did to writes.

Clients write to every replica all the time. A round waits for accepted writes, brings the fault about, and measures the
time from the end of its cause until every replica has accepted a write that was sent after that. A cause that does not
end by itself (a killed process) counts as ended when it began. In the end no acknowledged write may be missing, none
may have been made twice, and no response may have had another status than 201 and 500. Such a response is printed.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import NamedTuple

from tests.proofs.recovery_stage import Crowd, Machines, on_postgresql, on_sqlite
from tests.provenance import here_and_now, region, with_region
from tests.running import children

PAGE = Path(__file__).parent.parent.parent / "docs" / "reliability.md"
_REGION = "recovery"
_COUNTS = ("rounds", "acknowledged", "lost", "doubled", "other statuses")
_COLUMNS = ("fault", "database", *_COUNTS, "recovered: median", "longest", "measured")
_AWAY_SECONDS = 3.0
_CLOCK_STEPS = (7200.0, 0.0, -7200.0, 0.0)

Repair = Callable[[], None]  # once the service has recovered


class Ended(NamedTuple):
    """When the cause of a fault ended, and what is left to do before the next round."""

    moment: float
    repair: Repair = lambda: None


def _now(repair: Repair = lambda: None) -> Ended:
    return Ended(time.monotonic(), repair)


# -- the service -------------------------------------------------------------------------------------


def kill_worker(machines: Machines, _round: int) -> Ended:
    (replica,) = machines.stage.replicas
    os.kill(random.choice(children(replica.pid)), signal.SIGKILL)
    return _now()


def kill_service(machines: Machines, number: int) -> Ended:
    replicas = machines.stage.replicas
    replicas[number % len(replicas)].kill()
    return _now()


def step_clock(machines: Machines, number: int) -> Ended:
    machines.stage.set_clock(_CLOCK_STEPS[number % len(_CLOCK_STEPS)])
    return _now()


def fill_disk(machines: Machines, _round: int) -> Ended:
    """No process of the service can make a file longer."""
    (replica,) = machines.stage.replicas
    processes = [replica.pid, *children(replica.pid)]
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    time.sleep(_AWAY_SECONDS)
    for pid, limit in limits.items():
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
    return _now()


def replace_file(machines: Machines, _round: int) -> Ended:
    """By a copy of it, which stays; then the service is restarted, as it asks for.

    The copy has every write that was acknowledged before it was made. Writes wait for the lock meanwhile, and get it
    when the file is replaced: one that is acknowledged from then on, into the file that is gone, is missing in the end.
    """
    (replica,), database = machines.stage.replicas, machines.stage.homes[0] / "relaydeck.db"
    copy = database.with_name("copy")
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
        _lock_with_empty_log(connection, database.with_name("relaydeck.db-wal"))
        shutil.copy(database, copy)
        os.replace(copy, database)
        for suffix in ("-wal", "-shm"):
            database.with_name(f"relaydeck.db{suffix}").unlink()
        connection.execute("ROLLBACK")
    time.sleep(_AWAY_SECONDS)
    replica.kill()
    return _now()


def _lock_with_empty_log(connection: sqlite3.Connection, log: Path) -> None:
    """Until the database itself has every write, and no process can add one."""
    while True:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("BEGIN IMMEDIATE")
        if log.stat().st_size == 0:
            return
        connection.execute("ROLLBACK")


# -- PostgreSQL --------------------------------------------------------------------------------------


def kill_database(machines: Machines, _round: int) -> Ended:
    machines.servers.primary.kill()
    machines.servers.start()
    return _now()


def restart_database(machines: Machines, _round: int) -> Ended:
    machines.servers.stop()
    machines.servers.start()
    return _now()


def freeze_database(machines: Machines, _round: int) -> Ended:
    machines.servers.primary.freeze()
    time.sleep(_AWAY_SECONDS)
    machines.servers.primary.thaw()
    return _now()


def cut_network(machines: Machines, _round: int) -> Ended:
    for each in machines.proxies:
        each.cut()
    time.sleep(_AWAY_SECONDS)
    for each in machines.proxies:
        each.heal()
    return _now()


def fail_over(machines: Machines, _round: int) -> Ended:
    machines.servers.fail_over()
    return _now(machines.servers.restore_standby)


# -- rounds ------------------------------------------------------------------------------------------


class Fault(NamedTuple):
    name: str
    bring_about: Callable[[Machines, int], Ended]


SQLITE = (
    Fault("`kill -9` of the only worker", kill_worker),
    Fault("`kill -9` of the service", kill_service),
    Fault(f"disk full for {_AWAY_SECONDS:.0f} s", fill_disk),
    Fault(f"database file replaced by a copy, restart after {_AWAY_SECONDS:.0f} s", replace_file),
    Fault("clock two hours ahead, behind, and back", step_clock),
)
POSTGRESQL = (
    Fault("`kill -9` of one of two replicas", kill_service),
    Fault("`kill -9` of the server", kill_database),
    Fault("restart of the server", restart_database),
    Fault(f"server frozen for {_AWAY_SECONDS:.0f} s", freeze_database),
    Fault(f"network cut for {_AWAY_SECONDS:.0f} s", cut_network),
    Fault("crash of the server, its standby promoted", fail_over),
    Fault("clock two hours ahead, behind, and back", step_clock),
)
ENGINES: dict[str, tuple[Callable[[], AbstractContextManager[Machines]], Sequence[Fault]]] = {
    "SQLite": (on_sqlite, SQLITE),
    "PostgreSQL": (on_postgresql, POSTGRESQL),
}


class Result(NamedTuple):
    fault: str
    engine: str
    rounds: int
    acknowledged: int
    lost: int
    doubled: int
    other_statuses: str
    seconds: list[float]

    @property
    def is_as_promised(self) -> bool:
        return (self.lost, self.doubled, self.other_statuses) == (0, 0, "none")

    @property
    def cells(self) -> list[str]:
        times = (f"{statistics.median(self.seconds):.2f} s", f"{max(self.seconds):.2f} s")
        return [self.fault, self.engine, *map(str, self[2:7]), *times, here_and_now().short]


def bring_about(fault: Fault, engine: str, machines: Machines, rounds: int) -> Result:
    seconds = []
    with Crowd(machines.stage, f"{fault.bring_about.__name__}") as crowd:
        for number in range(rounds):
            crowd.work()
            ended = fault.bring_about(machines, number)
            seconds.append(crowd.await_accepted(ended.moment))
            ended.repair()
        crowd.work()
    return Result(fault.name, engine, rounds, *crowd.count(), seconds)


def run(engine: str, rounds: int, part: str = "") -> Iterator[Result]:
    prepare, faults = ENGINES[engine]
    with prepare() as machines:
        for fault in faults:
            if part in fault.name:
                yield bring_about(fault, engine, machines, rounds)


# -- the table ---------------------------------------------------------------------------------------


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(results: Sequence[Result]) -> None:
    """Rows of faults that were not brought about this time stay."""
    page = PAGE.read_text()
    kept = [line.strip("| ").split(" | ") for line in region(page, _REGION).splitlines() if line.startswith("|")][2:]
    rows = {(row[0], row[1]): row for row in (*kept, *(each.cells for each in results))}
    order = [(fault.name, engine) for engine, (_, faults) in ENGINES.items() for fault in faults]
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *(_line(rows[each]) for each in order if each in rows)]
    PAGE.write_text(with_region(page, _REGION, "\n" + "\n".join(lines) + "\n\n"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each fault")
    parser.add_argument("--engine", choices=list(ENGINES), help="default: both")
    parser.add_argument("--fault", default="", help="only faults with this in their name")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    options = parser.parse_args()
    results = []
    for engine in [options.engine] if options.engine else ENGINES:
        for result in run(engine, options.rounds, options.fault):
            print(_line(result.cells), flush=True)
            results.append(result)
            if options.write:
                _write(results)
    sys.exit(0 if all(each.is_as_promised for each in results) else 1)


if __name__ == "__main__":
    main()
