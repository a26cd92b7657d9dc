"""Prepares the stage of each fault, and causes it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.lock_holder import find_file_lock_holder
from tests.proofs.balancer import balancing_without_retries, up
from tests.proofs.faults.stage import HAProxy, MemoryGroup, Stage, filled, workers_of
from tests.proofs.fleet import Replica
from tests.support.postgres import NOBODY, through
from tests.support.running import COMMAND, eventually, free_port
from tests.support.tls import self_signed

# -- what is around the replicas -----------------------------------------------------------------------


def on_postgresql(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    stage.serve([url, url])


def through_proxies(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    stage.serve(stage.add_proxies(url))


def through_pooler(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    pooled = stage.add_pooler("session").pooled(url)
    stage.serve([pooled, pooled])


def beside_transaction_pooler(stage: Stage) -> None:
    on_postgresql(stage)
    pooled = stage.add_pooler("transaction").pooled(stage.server.url(stage.name))
    stage.examined = {**stage.examined, "RELAYDECK_DATABASE_URL": pooled.reveal()}


def with_few_connections(stage: Stage) -> None:
    url = stage.add_server("max_connections=40", "superuser_reserved_connections=0")
    stage.fill(url)
    stage.serve([url, url])


def with_small_disk(stage: Stage) -> None:
    """The tables of the database are on it; the write-ahead log is not."""
    folder = stage.add_disk() / "tables"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    url = stage.add_server()
    stage.server.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
    stage.server.ask(f"ALTER DATABASE {stage.name} SET TABLESPACE small")
    stage.fill(url)
    stage.serve([url, url])


def with_own_role(stage: Stage) -> None:
    url = stage.add_server()
    stage.server.ask("CREATE ROLE service LOGIN PASSWORD 'secret'")
    stage.server.ask(f"ALTER DATABASE {stage.name} OWNER TO service")
    stage.server.ask("GRANT ALL ON SCHEMA public TO service", stage.name)
    url = DatabaseUrl(url.reveal().replace("//relaydeck:a%20password%20of%20tests@", "//service:secret@"))
    stage.fill(url)
    stage.serve([url, url])


def with_valkey(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    stage.serve([url, url], **stage.add_valkey())


def with_standby(stage: Stage) -> None:
    url = stage.add_pair()
    stage.fill(url)
    stage.serve([url, url])


def with_standby_only(stage: Stage) -> None:
    """A pair of its own: another fault promotes the standby."""
    with_standby(stage)


def with_late_standby(stage: Stage) -> None:
    with_standby(stage)
    stage.pair.primary.ask("ALTER SYSTEM SET synchronous_standby_names = ''")
    stage.pair.primary.ask("SELECT pg_reload_conf()")


def behind_balancer(stage: Stage) -> None:
    on_postgresql(stage)
    probes = [each.operations_port for each in stage.replicas]
    balancing = balancing_without_retries(stage.folder / "balancer", stage.ports, probes)
    port, stage.statistics = stage.stack.enter_context(balancing)
    stage.ports = [port]


def behind_idle_timeouts(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    stage.add_balancer(stage.server.port, "timeout client 3s\n  timeout server 3s")
    stage.serve([through(url, stage.balancer.port)] * 2)


def with_valkey_over_tls(stage: Stage) -> None:
    """The certificate is of an authority of its own, which the replicas trust."""
    stage.certificates = [_certificate(stage.folder / name) for name in ("known", "unknown")]
    url = stage.add_server()
    stage.fill(url)
    stage.add_valkey()
    stage.add_balancer(stage.valkey.port, "timeout client 1h\n  timeout server 1h", f"ssl crt {stage.certificates[0]}")
    stage.trust(stage.certificates[0])
    stage.serve([url, url], limits_url=f"valkeys://localhost:{stage.balancer.port}/0")


def _certificate(folder: Path) -> Path:
    folder.mkdir()
    cert, key = self_signed(folder)
    both = folder / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    return both


def with_log_pipes(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    stage.add_pipes()
    stage.serve([url, url], *(each.path for each in stage.pipes), log_level="info")


def with_log_disk(stage: Stage) -> None:
    url = stage.add_server()
    stage.fill(url)
    disk = stage.add_disk()
    stage.serve([url, url], disk / "log-0", disk / "log-1", log_level="info")


def on_sqlite(stage: Stage) -> None:
    stage.fill()
    stage.serve([None])


def on_small_disk(stage: Stage) -> None:
    stage.operator = stage.add_disk() / "home"
    stage.fill()
    stage.serve([None], stage.folder / "log")


# -- processes -----------------------------------------------------------------------------------------


@contextmanager
def kill_worker(stage: Stage) -> Iterator[None]:
    os.kill(workers_of(stage.replicas[0])[0], signal.SIGKILL)
    yield


@contextmanager
def kill_parent(stage: Stage) -> Iterator[None]:
    os.kill(stage.replicas[0].pid, signal.SIGKILL)
    yield


_HOLDING = (
    "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL"
    " AND state_change < clock_timestamp() - interval '0.2 seconds'"
)


@contextmanager
def freeze_in_write(stage: Stage) -> Iterator[None]:
    with _frozen(stage, in_write=True):
        yield


@contextmanager
def freeze_outside_write(stage: Stage) -> Iterator[None]:
    with _frozen(stage, in_write=False):
        yield


@contextmanager
def freeze_in_sqlite_write(stage: Stage) -> Iterator[None]:
    """Stop a worker again and again, until it is stopped with the file locked."""
    path, deadline = stage.operator / "relaydeck.db", time.monotonic() + 120
    while True:
        assert time.monotonic() < deadline
        holder = find_file_lock_holder(path)
        if holder is None or holder.pid not in workers_of(stage.replicas[0]):
            continue
        os.kill(holder.pid, signal.SIGSTOP)
        if (still := find_file_lock_holder(path)) is not None and still.pid == holder.pid:
            break
        os.kill(holder.pid, signal.SIGCONT)
    yield  # another worker ends it


@contextmanager
def _frozen(stage: Stage, *, in_write: bool) -> Iterator[None]:
    """Stop a worker again and again, until it holds the lock of writes, or does not."""
    deadline = time.monotonic() + 120
    for number in range(10_000):
        worker = workers_of(stage.replicas[0])[number % 2]
        os.kill(worker, signal.SIGSTOP)
        time.sleep(0.3)
        if bool(stage.server.ask(_HOLDING)) is in_write:
            break
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.05 * (number % 7))
        assert time.monotonic() < deadline
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


@contextmanager
def roll(stage: Stage) -> Iterator[None]:
    """`relaydeck drain`, and the supervisor starts it again."""
    for replica in stage.replicas:
        starts = replica.starts
        command = [*COMMAND, "drain", "--for", "4"]
        subprocess.run(command, env=replica.environment, check=True, capture_output=True, timeout=120)
        while replica.starts == starts or len(up(stage.statistics)) < len(stage.replicas):
            time.sleep(0.1)
    yield


@contextmanager
def limit_memory(stage: Stage) -> Iterator[None]:
    """Too little for another worker: the kernel kills each that is started."""
    replica, group, over = stage.replicas[0], MemoryGroup(stage.folder.name), threading.Event()
    group.limit(24 << 20)
    group.add(replica.pid)
    choosing = threading.Thread(target=_let_workers_be_killed, args=(replica, over))
    choosing.start()
    os.kill(workers_of(replica)[0], signal.SIGKILL)
    try:
        yield
    finally:
        over.set()
        choosing.join()
        group.remove()


def _let_workers_be_killed(replica: Replica, over: threading.Event) -> None:
    """Not the parent, which has more memory at first."""
    while not over.wait(0.02):
        for each in workers_of(replica):
            with suppress(OSError):
                Path(f"/proc/{each}/oom_score_adj").write_text("1000")


@contextmanager
def clock_ahead(stage: Stage) -> Iterator[None]:
    with _clock(stage, 7200):
        yield


@contextmanager
def clock_behind(stage: Stage) -> Iterator[None]:
    with _clock(stage, -7200):
        yield


@contextmanager
def _clock(stage: Stage, skew: float) -> Iterator[None]:
    stage.set_clock(skew)
    try:
        yield
    finally:
        stage.set_clock(0)


@contextmanager
def start_another(stage: Stage) -> Iterator[None]:
    """It does not start."""
    command = [*COMMAND, "serve", "--port", str(free_port())]
    environment = {**stage.examined, "RELAYDECK_OPERATIONS_ADDRESS": f"127.0.0.1:{free_port()}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done
    stage.refusals = [done.stderr]
    yield


# -- the log -------------------------------------------------------------------------------------------


@contextmanager
def block_log(stage: Stage) -> Iterator[None]:
    """Nobody reads it, and a worker dies."""
    for each in stage.pipes:
        each.reading.clear()
    eventually(lambda: all(each.is_full for each in stage.pipes))
    os.kill(workers_of(stage.replicas[0])[0], signal.SIGKILL)
    try:
        yield
    finally:
        for each in stage.pipes:
            each.reading.set()


@contextmanager
def fill_disk(stage: Stage) -> Iterator[None]:
    with filled(stage.disk):
        yield


# -- PostgreSQL ----------------------------------------------------------------------------------------


@contextmanager
def kill_database(stage: Stage) -> Iterator[None]:
    stage.server.kill()
    stage.server.start()
    yield


@contextmanager
def restart_database(stage: Stage) -> Iterator[None]:
    stage.server.stop()
    stage.server.start()
    yield


@contextmanager
def freeze_database(stage: Stage) -> Iterator[None]:
    stage.server.freeze()
    try:
        yield
    finally:
        stage.server.thaw()


@contextmanager
def exhaust_connections(stage: Stage) -> Iterator[None]:
    """Others take every connection, also those that the service loses."""
    served = f"FROM pg_stat_activity WHERE datname = '{stage.name}'"
    with ExitStack() as taken, closing(_connected(stage)) as own:
        while own.execute(f"SELECT count(*), count(pg_terminate_backend(pid)) {served}".encode()).fetchone() != (0, 0):
            with suppress(psycopg.OperationalError):
                while True:
                    taken.enter_context(closing(_connected(stage)))
        yield


def _connected(stage: Stage) -> "psycopg.Connection[tuple[int, ...]]":
    return psycopg.connect(stage.server.url().reveal(), autocommit=True)


@contextmanager
def promote(stage: Stage) -> Iterator[None]:
    stage.pair.fail_over()
    yield


@contextmanager
def promote_late_standby(stage: Stage) -> Iterator[None]:
    """It lacks the writes of the last second."""
    stage.pair.standby.ask("ALTER SYSTEM SET primary_conninfo = ''")
    stage.pair.standby.ask("SELECT pg_reload_conf()")
    time.sleep(1)
    stage.pair.fail_over()
    yield


@contextmanager
def stop_standby(stage: Stage) -> Iterator[None]:
    stage.pair.standby.stop()
    try:
        yield
    finally:
        stage.pair.standby.start()


@contextmanager
def revoke_rights(stage: Stage) -> Iterator[None]:
    stage.server.ask("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM service", stage.name)
    try:
        yield
    finally:
        stage.server.ask("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO service", stage.name)


# -- the network ---------------------------------------------------------------------------------------


@contextmanager
def restart_pooler(stage: Stage) -> Iterator[None]:
    stage.pooler.stop()
    stage.pooler.start()
    yield


@contextmanager
def silence_in_write(stage: Stage) -> Iterator[None]:
    proxy = stage.proxies[0]
    proxy.silence_after(b"UPDATE clock")
    assert proxy.silenced.wait(60)
    yield


@contextmanager
def silence_all(stage: Stage) -> Iterator[None]:
    for each in stage.proxies:
        each.silence()
    yield


@contextmanager
def cut_network(stage: Stage) -> Iterator[None]:
    for each in stage.proxies:
        each.cut()
    try:
        yield
    finally:
        for each in stage.proxies:
            each.heal()


@contextmanager
def nothing(_stage: Stage) -> Iterator[None]:
    """The fault is there all the time."""
    yield


# -- SQLite --------------------------------------------------------------------------------------------


@contextmanager
def replace_file(stage: Stage) -> Iterator[None]:
    """By a copy of it, which stays; then the service is restarted, as it asks for.

    The copy has every write that was acknowledged before it was made. Writes wait for the lock meanwhile, and get it
    when the file is replaced: one that is acknowledged from then on, into the file that is gone, is missing in the end.
    """
    (replica,), database = stage.replicas, stage.operator / "relaydeck.db"
    copy = database.with_name("copy")
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
        _lock_with_empty_log(connection, database.with_name("relaydeck.db-wal"))
        shutil.copy(database, copy)
        os.replace(copy, database)
        for suffix in ("-wal", "-shm"):
            database.with_name(f"relaydeck.db{suffix}").unlink()
        connection.execute("ROLLBACK")
    yield
    replica.kill()


def _lock_with_empty_log(connection: sqlite3.Connection, log: Path) -> None:
    """Until the database itself has every write, and no process can add one."""
    while True:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("BEGIN IMMEDIATE")
        if log.stat().st_size == 0:
            return
        connection.execute("ROLLBACK")


# -- Valkey --------------------------------------------------------------------------------------------


@contextmanager
def stop_valkey(stage: Stage) -> Iterator[None]:
    stage.valkey.stop()
    try:
        yield
    finally:
        stage.valkey.start()


@contextmanager
def freeze_valkey(stage: Stage) -> Iterator[None]:
    with stage.valkey.frozen():
        yield


@contextmanager
def make_valkey_read_only(stage: Stage) -> Iterator[None]:
    """As after a failover that made it a replica."""
    stage.valkey.ask("REPLICAOF", "127.0.0.1", 1)
    try:
        yield
    finally:
        stage.valkey.ask("REPLICAOF", "NO", "ONE")


@contextmanager
def change_certificate(stage: Stage) -> Iterator[None]:
    with _other_certificate(stage.balancer, *stage.certificates):
        yield


@contextmanager
def _other_certificate(balancer: HAProxy, known: Path, unknown: Path) -> Iterator[None]:
    balancer.replace(f"ssl crt {unknown}")
    try:
        yield
    finally:
        balancer.replace(f"ssl crt {known}")
