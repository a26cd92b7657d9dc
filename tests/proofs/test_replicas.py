"""Three replicas and a balancer under load, and everything they stand on failing in turn.

For a minute a replica is killed whenever the other two are ready; meanwhile the database is restarted, and
later crashes, and Valkey is gone for some seconds. What was acknowledged must be there, once; every event must
arrive; the limit holds as documented; nothing is answered but what is documented; and it ends well.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.admin.conftest import AdminClient
from tests.proofs.balancer import balancing
from tests.proofs.crowd import Asked, Changer, Client, Creator, Door, Limited, Lister
from tests.proofs.fleet import Fleet, Replica
from tests.proofs.test_changes import (
    NOTIFICATION,
    STATE,
    check_arrivals,
    check_audit,
    check_events,
    everything,
    switched,
)
from tests.proofs.test_kill import opened_configs
from tests.support.lengths import times
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.receiver import Receiver
from tests.support.running import run_command
from tests.support.seeding import issue
from tests.support.valkey import Valkey

pytestmark = pytest.mark.prove

SECONDS = times(60, short=40)
REPLICAS, RATE, BURST = 3, 5, 10
CREATORS, CHANGERS, LISTERS, LIMITED = 4, 4, 2, 2
RESTART_AT, CRASH_AT = 0.2 * SECONDS, 0.7 * SECONDS
VALKEY_AWAY = (0.4 * SECONDS, 0.6 * SECONDS)
BACK_WITHIN = 45  # seconds; a quiet machine needs less than two
DURABLE = ("fsync=on", "full_page_writes=on")
SETTINGS = {
    "rate_limit_per_second": str(RATE),
    "rate_limit_burst": str(BURST),
    # A long time to answer: otherwise a busy machine would decide about the limits.
    "limits_timeout_seconds": "30",
    "webhook_allow": "127.0.0.0/8",
    "monitor_interval_seconds": "0",
    "lease_seconds": "5",
    "log_level": "warning",
    "log_format": "json",
}


class Scene:
    """Everything that runs: the servers below, the replicas, and the crowd that asks them."""

    def __init__(self, folder: Path, database: PostgresServer, valkey: Valkey, hook: str) -> None:
        self.homes = [folder / f"replica-{number}" for number in range(REPLICAS)]
        self.database, self.valkey = database, valkey
        name = database.fresh()
        for home in self.homes:
            choose(home, database.url(name))
        done = run_command(self.homes[0], "apply", "-", stdin=STATE.format() + NOTIFICATION.format(id="n0", url=hook))
        assert done.returncode == 0, done.stderr
        key = str(self.homes[0] / "master.key")
        settings = SETTINGS | {"master_key_file": key, "limits_url": valkey.url}
        self.replicas = [Replica(home, **settings) for home in self.homes]
        self.tokens = {kind: issue(self.homes[0], kind, kind) for kind in ("api", "readonly")}
        self.tokens["admin"] = issue(self.homes[0], "root", "admin")

    @contextmanager
    def served(self, folder: Path) -> Iterator[tuple[Fleet, int]]:
        with Fleet(self.replicas) as fleet, balancing(folder, [replica.port for replica in self.replicas]) as port:
            fleet.await_ready(30)
            fleet.await_common_limits(30)
            yield fleet, port


class Crowd:
    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self._over = threading.Event()
        api, readonly, admin = (Door(port, tokens[kind]) for kind in ("api", "readonly", "admin"))
        self.creators = [Creator(f"creator{n}", api, self._over) for n in range(CREATORS)]
        self.changers = [Changer(f"switch{n}", switched(f"switch{n}"), admin, self._over) for n in range(CHANGERS)]
        self.listers = [Lister(api, self._over) for _ in range(LISTERS)]
        self.limited = [Limited(readonly, self._over) for _ in range(LIMITED)]
        self.everyone: list[Client] = [*self.creators, *self.changers, *self.listers, *self.limited]

    def __enter__(self) -> "Crowd":
        for client in self.everyone:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for client in self.everyone:
            client.join()

    @property
    def progress(self) -> list[int]:
        """How much each sort of client has got done."""
        pages = sum(client.pages for client in self.listers)
        asked = sum(len(client.asked) for client in self.limited)
        created = sum(len(client.accepted) for client in self.creators)
        return [created, sum(len(client.done) for client in self.changers), pages, asked]


class Faults(NamedTuple):
    kills: int
    database_away: list[tuple[float, float]]
    valkey_gone: float
    limits_common: float
    last: float


def bring_about_faults(scene: Scene, fleet: Fleet) -> Faults:
    began = time.monotonic()

    def kill_replicas() -> tuple[int, float]:
        dice, kills, last = random.Random(6), 0, began
        for victim in cycle(scene.replicas):
            fleet.await_ready(120, but=victim)
            if time.monotonic() > began + SECONDS:
                return kills, last
            time.sleep(dice.uniform(0, 0.3))
            victim.kill()
            kills, last = kills + 1, time.monotonic()
        raise AssertionError

    def restart_database() -> list[tuple[float, float]]:
        away = []
        for moment, end in ((RESTART_AT, scene.database.stop), (CRASH_AT, scene.database.crash)):
            time.sleep(max(0, began + moment - time.monotonic()))
            gone = time.monotonic()
            end()
            scene.database.start()
            away.append((gone, time.monotonic()))
        return away

    def take_valkey_away() -> tuple[float, float]:
        time.sleep(VALKEY_AWAY[0])
        gone = time.monotonic()
        scene.valkey.stop()
        time.sleep(VALKEY_AWAY[1] - VALKEY_AWAY[0])
        scene.valkey.start()
        fleet.await_common_limits(120)
        return gone, time.monotonic()

    with ThreadPoolExecutor(3) as pool:
        killing, restarting = pool.submit(kill_replicas), pool.submit(restart_database)
        taking_away = pool.submit(take_valkey_away)
        (kills, last_kill), away, (gone, common) = killing.result(), restarting.result(), taking_away.result()
        return Faults(kills, away, gone, common, last=max(last_kill, away[-1][1], common))


def await_service(crowd: Crowd, fleet: Fleet, last_fault: float) -> None:
    """Every replica is ready, and every sort of client was answered since."""
    fleet.await_ready(last_fault + BACK_WITHIN - time.monotonic())
    before = crowd.progress
    while not all(now > then for now, then in zip(crowd.progress, before, strict=True)):
        assert time.monotonic() < last_fault + BACK_WITHIN, (before, crowd.progress)
        time.sleep(0.02)


def await_deliveries(admin: AdminClient) -> tuple[list[Any], list[Any]]:
    """Wait until everything is delivered; all events and all audit entries."""
    deadline = time.monotonic() + 180
    while admin.get("deliveries?state=pending&per_page=1"):
        assert time.monotonic() < deadline, "deliveries do not come to an end"
        time.sleep(0.05)
    assert admin.get("deliveries?state=dead") == []
    return everything(admin, "events"), everything(admin, "audit")


def run(scene: Scene, folder: Path) -> tuple[Crowd, Faults, list[Any], list[Any]]:
    with scene.served(folder) as (fleet, port):
        with Crowd(port, scene.tokens) as crowd:
            faults = bring_about_faults(scene, fleet)
            await_service(crowd, fleet, faults.last)
        events, audit = await_deliveries(AdminClient(Door(port, scene.tokens["admin"])))
        assert fleet.stop() == [0] * REPLICAS
    return crowd, faults, events, audit


async def test_a_minute_of_faults_loses_repeats_and_invents_nothing(tmp_path: Path) -> None:
    receiver = await Receiver().start()
    database, valkey = PostgresServer(*DURABLE), Valkey(tmp_path)
    try:
        scene = await asyncio.to_thread(Scene, tmp_path, database, valkey, receiver.url)
        crowd, faults, events, audit = await asyncio.to_thread(run, scene, tmp_path / "balancer")
        arrived = [received.json for received in receiver.got]
        assert [surprise for client in crowd.everyone for surprise in client.surprises] == []
        assert faults.kills >= REPLICAS
        assert min(crowd.progress) > 100
        check_signers(scene, crowd.creators)
        check_limits([asked for client in crowd.limited for asked in client.asked], faults)
        check_audit(audit, crowd.changers)
        check_events(events, crowd.changers)
        check_arrivals(events, arrived)
        check_failures([each for client in crowd.everyone for each in client.failures], faults)
        check_logs(scene)
        verified = await asyncio.to_thread(run_command, scene.homes[0], "audit", "verify")
        assert (verified.returncode, verified.stderr) == (0, "")
    finally:
        valkey.stop()
        database.remove()
        await receiver.stop()


def check_signers(scene: Scene, creators: list[Creator]) -> None:
    """What was acknowledged is stored as it was sent, and no id was accepted twice."""
    accepted = [identifier for creator in creators for identifier in creator.accepted]
    assert len(accepted) == len(set(accepted))
    acknowledged = {identifier: kind for creator in creators for identifier, kind in creator.acknowledged.items()}
    stored = {identifier: kind for identifier, (kind, _) in opened_configs(scene.homes[0]).items()}
    assert {identifier: stored.get(identifier) for identifier in acknowledged} == acknowledged
    said_to_exist = {identifier for creator in creators for identifier in creator.said_to_exist}
    assert said_to_exist and said_to_exist <= stored.keys()


def check_limits(asked: list[Asked], faults: Faults) -> None:
    """As one while Valkey answers; while it does not, and around that, what `0009-shared-limits.md` says."""
    before = [each for each in asked if each.answered <= faults.valkey_gone]
    after = [each for each in asked if each.sent >= faults.limits_common]
    between = [each for each in asked if each not in before and each not in after]
    check_rate(before, lambda seconds: BURST + RATE * seconds)
    check_rate(after, lambda seconds: BURST + RATE * seconds)
    # One bucket for each replica and Valkey's, which came back empty, that is, full.
    check_rate(between, lambda seconds: (REPLICAS + 1) * (BURST + RATE * seconds) + BURST)


def check_rate(asked: list[Asked], allowed: Callable[[float], float]) -> None:
    """In any span; and somebody was refused, or this would show nothing."""
    admitted = sorted((each for each in asked if each.admitted), key=lambda each: each.answered)
    assert len(admitted) < len(asked)
    for first in admitted:
        within = (each for each in admitted if each.sent >= first.sent)
        for number, last in enumerate(within, 1):
            assert number <= allowed(last.answered - first.sent)


def check_failures(failures: list[tuple[float, float]], faults: Faults) -> None:
    """A 500 is documented, but there is no cause for one while the database answers."""
    away = [(gone, back + BACK_WITHIN) for gone, back in faults.database_away]
    assert [each for each in failures if not any(each[1] >= gone and each[0] <= back for gone, back in away)] == []


def check_logs(scene: Scene) -> None:
    logs = [replica.log for replica in scene.replicas]
    assert sum(log.count("the limit server cannot be used") for log in logs) > 0
    assert [line for log in logs for line in log.splitlines() if "failed unexpectedly" in line] == []
