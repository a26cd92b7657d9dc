"""The faults: where each is caused, and what is expected of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from tests.proofs.faults.causes import (
    behind_balancer,
    behind_idle_timeouts,
    beside_transaction_pooler,
    block_log,
    change_certificate,
    clock_ahead,
    clock_behind,
    cut_network,
    exhaust_connections,
    fill_disk,
    freeze_database,
    freeze_in_sqlite_write,
    freeze_in_write,
    freeze_outside_write,
    freeze_valkey,
    kill_database,
    kill_parent,
    kill_worker,
    limit_memory,
    make_valkey_read_only,
    nothing,
    on_postgresql,
    on_small_disk,
    on_sqlite,
    promote,
    promote_late_standby,
    replace_file,
    restart_database,
    restart_pooler,
    revoke_rights,
    roll,
    silence_all,
    silence_in_write,
    start_another,
    stop_standby,
    stop_valkey,
    through_pooler,
    through_proxies,
    with_few_connections,
    with_late_standby,
    with_log_disk,
    with_log_pipes,
    with_own_role,
    with_small_disk,
    with_standby,
    with_standby_only,
    with_valkey,
    with_valkey_over_tls,
)
from tests.proofs.faults.diagnosis import Expected
from tests.proofs.faults.stage import Stage

Cause = Callable[[Stage], AbstractContextManager[None]]
Surround = Callable[[Stage], None]  # prepares the stage, and serves


class Fault(NamedTuple):
    name: str
    cause: Cause
    surround: Surround
    expected: Expected = Expected()
    seconds: float = 12.0  # that it lasts
    longest_gap: float | None = 10.0  # of writes; None where the database itself is away
    may_lose: bool = False
    must_not_fail: bool = False  # a single request
    engine: str = "PostgreSQL"


# While a server is away for a moment.
_LOST = ("RelaydeckWritesFailing", "RelaydeckWritesStopped", "RelaydeckServerErrors")
_AWAY = Expected(
    "200 ready, from memory",
    "503 the database cannot be reached",
    alerts=["RelaydeckWritesStopped"],
    maybe_alerts=[*_LOST, "RelaydeckStoreAway", "RelaydeckDown"],
    doctor=["database: the database .* cannot be reached"],
    log=["the database is unreachable"],
)
# `/metrics` takes two seconds then: more than a scrape may take here, and less than one of a usual Prometheus.
_HANGS = _AWAY._replace(
    writes="503 the database (cannot be reached|does not answer a write in time)",  # a write may still wait
    alerts=["RelaydeckDown|RelaydeckWritesStopped"],  # the second where a scrape was answered in time
)
_RESTARTED = Expected(maybe_alerts=_LOST, log=["unreachable"])
_PROMOTED = Expected(
    alerts=["RelaydeckHistoryChanged"],
    maybe_alerts=_LOST,
    doctor=["warn history: .* acknowledged writes may be missing"],
    doctor_after=["warn history: .* acknowledged writes may be missing"],
    log=["failed over or was rolled back"],
)
_FROZEN = Expected(
    "503 1 worker does not respond",
    "200",  # the others write
    maybe_alerts=[*_LOST, "RelaydeckNotReady"],
    maybe_doctor=["writes: ", "workers: 1 worker does not respond"],
    maybe_log=True,
)
_LIMITS = Expected(alerts=["RelaydeckLimitsAlone"], maybe_alerts=["RelaydeckLimitsFlapping"])


def _refused(cause: str) -> Expected:
    """The database answers and takes no write."""
    return Expected(
        writes=f"503 {cause}",
        alerts=["RelaydeckWritesStopped"],
        maybe_alerts=_LOST,
        doctor=[f"writes: {cause}"],
        log=["writes fail"],
    )


FAULTS = (
    Fault("PgBouncer in session mode restarted", restart_pooler, through_pooler, _RESTARTED),
    Fault(
        "PgBouncer in transaction mode: a replica is started",
        start_another,
        beside_transaction_pooler,
        Expected(doctor=["transaction mode"], doctor_after=["transaction mode"], log=["transaction mode"]),
    ),
    Fault(
        "HAProxy with `retries 0`: replicas drained and started in turn",
        roll,
        behind_balancer,
        Expected(maybe_alerts=["RelaydeckDown", "RelaydeckNotReady"], maybe_log=True),
        must_not_fail=True,
    ),
    Fault("HAProxy before PostgreSQL closes idle connections", nothing, behind_idle_timeouts),
    Fault(
        "connections of PostgreSQL exhausted",
        exhaust_connections,
        with_few_connections,
        _AWAY._replace(
            maybe_alerts=[*_AWAY.maybe_alerts, "RelaydeckConnectionsLow"],
            doctor=["too many clients"],
            log=["too many clients"],
        ),
        longest_gap=None,
    ),
    Fault("SIGSTOP of a worker in a write", freeze_in_write, on_postgresql, _FROZEN, seconds=20),
    Fault("SIGSTOP of a worker outside a write", freeze_outside_write, on_postgresql, _FROZEN, seconds=20),
    Fault(
        "SIGSTOP of a worker that has the file locked",
        freeze_in_sqlite_write,
        on_sqlite,
        Expected(
            alerts=["RelaydeckWorkersRestarting"],
            maybe_alerts=[*_LOST, "RelaydeckWritesSlow"],
            log=["the holder of the write lock was stuck: it was ended", "a worker has died"],
        ),
        engine="SQLite",
    ),
    Fault("promotion of a synchronous standby", promote, with_standby, _PROMOTED, longest_gap=None),
    Fault(
        "promotion of an asynchronous standby",
        promote_late_standby,
        with_late_standby,
        _PROMOTED,
        longest_gap=None,
        may_lose=True,
    ),
    Fault(
        "synchronous standby down",
        stop_standby,
        with_standby_only,
        _refused("no synchronous standby confirms commits"),
        longest_gap=None,
    ),
    Fault(
        "disk of SQLite full",
        fill_disk,
        on_small_disk,
        _refused("the disk of the database is full")._replace(
            alerts=["RelaydeckWritesStopped", "RelaydeckDiskLow"],
            doctor=["FAIL disk: 0.0 GB free; writes will fail"],
            maybe_doctor=["writes: the disk of the database is full"],
        ),
        longest_gap=None,
        engine="SQLite",
    ),
    Fault(
        "disk of PostgreSQL full",
        fill_disk,
        with_small_disk,
        _refused("the disk of the database is full"),
        longest_gap=None,
    ),
    Fault(
        "connection silent inside a write",
        silence_in_write,
        through_proxies,
        Expected(maybe_alerts=_LOST, maybe_doctor=["writes: "], maybe_log=True),
        seconds=20,
    ),
    Fault(
        "every connection silent, new ones work",
        silence_all,
        through_proxies,
        Expected(maybe_alerts=[*_LOST, "RelaydeckStoreAway"], maybe_doctor=["writes: "], log=["unreachable"]),
        seconds=20,
    ),
    Fault(
        "clock 2 h ahead",
        clock_ahead,
        on_postgresql,
        Expected(alerts=["RelaydeckClockOff"], doctor=["FAIL clock: it is 7\\d+ s ahead"]),
    ),
    Fault(
        "clock 2 h behind",
        clock_behind,
        on_postgresql,
        Expected(
            alerts=["RelaydeckClockOff"],
            doctor=["FAIL clock: it is 7\\d+ s behind", "warn clock: .* before a file in home"],
        ),
    ),
    Fault(
        "log blocked, and a worker killed",
        block_log,
        with_log_pipes,
        Expected(alerts=["RelaydeckWorkersRestarting"], maybe_alerts=["RelaydeckLogLinesDropped"], maybe_log=True),
    ),
    Fault(
        "disk of the log full",
        fill_disk,
        with_log_disk,
        Expected(alerts=["RelaydeckLogLinesDropped"], maybe_doctor=["log"], maybe_log=True),
    ),
    Fault(
        "Valkey stopped",
        stop_valkey,
        with_valkey,
        _LIMITS._replace(doctor=["it cannot be reached"], log=["it cannot be reached"]),
    ),
    Fault(
        "Valkey frozen",
        freeze_valkey,
        with_valkey,
        _LIMITS._replace(doctor=["it did not respond in time"], log=["it did not respond in time"]),
    ),
    Fault(
        "Valkey read-only",
        make_valkey_read_only,
        with_valkey,
        _LIMITS._replace(doctor=["read-only"], log=["read-only"]),
    ),
    Fault(
        "certificate of Valkey from an unknown authority",
        change_certificate,
        with_valkey_over_tls,
        _LIMITS._replace(doctor=["check its certificate"], log=["the limit server cannot be used"]),
    ),
    Fault(
        "memory limit too low for a worker",
        limit_memory,
        on_postgresql,
        Expected(
            "503|200",
            alerts=["RelaydeckWorkersRestarting"],
            maybe_alerts=["RelaydeckNotReady"],
            maybe_doctor=["memory"],
            log=["memory"],
        ),
    ),
    Fault(
        "role without the right to write",
        revoke_rights,
        with_own_role,
        _refused("the database user lacks a right that writes need"),
        longest_gap=None,
    ),
    Fault(
        "`kill -9` of a worker",
        kill_worker,
        on_postgresql,
        Expected(alerts=["RelaydeckWorkersRestarting"], log=["worker"]),
    ),
    Fault(
        "`kill -9` of a replica's parent process",
        kill_parent,
        on_postgresql,
        Expected(maybe_alerts=["RelaydeckDown"], log=["the process that started this worker is gone"]),
        longest_gap=30,  # of this replica, which is started again; the other one serves
    ),
    Fault("`kill -9` of PostgreSQL", kill_database, on_postgresql, _RESTARTED, longest_gap=None),
    Fault("PostgreSQL restarted", restart_database, on_postgresql, _RESTARTED, longest_gap=None),
    Fault("PostgreSQL frozen", freeze_database, on_postgresql, _HANGS, seconds=20, longest_gap=None),
    Fault("network to PostgreSQL cut", cut_network, through_proxies, _HANGS, seconds=20, longest_gap=None),
    Fault(
        "database file replaced by a copy, then a restart",
        replace_file,
        on_sqlite,
        _refused("the database file was deleted or replaced")._replace(
            ready="503 the database file .* was deleted or replaced",
            alerts=["RelaydeckWritesStopped", "RelaydeckNotReady"],
        ),
        longest_gap=None,
        engine="SQLite",
    ),
)
