"""Each alert is fired by a real fault of a running service, and clears when the fault is over.

A real Prometheus scrapes the service and evaluates the rules at sixty times their speed: a minute of a rule is a second
here. The faults are caused together where they do not disturb each other, because most of the time passes in waiting.
"""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from aiohttp import web

from relaydeck.networks.model import RpcUrl
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.relayers import balance_history, relayer_rows
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.model import Policies
from relaydeck.store.postgres import OPENING_LOCK
from tests.proofs.small_disk import resize, small_disk
from tests.support.fault_node import FaultNode
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.prometheus import Prometheus, alert_names
from tests.support.receiver import Received, Receiver
from tests.support.running import COMMAND, children, clean_environment, free_port, run_command
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.stored_rows import create_row
from tests.support.valkey import Valkey

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ETHER, HOUR = 10**18, 3600
ADDRESS = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"  # of the key that the seeded signer has
TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
WITH_THE_DATABASE = {
    "RelaydeckStoreAway",
    "RelaydeckReadModelOld",
    "RelaydeckServerErrors",
    "RelaydeckSlowLists",
}
WITH_A_STANDBY = {"RelaydeckNotReady", "RelaydeckWritesStopped", "RelaydeckWritesFailing"}
WITH_THE_TARGET = {"RelaydeckDown", "RelaydeckMissing"}
WITH_A_MIGRATION = {"RelaydeckMonitorStopped", "RelaydeckMigrationLong"}
LATER = (
    WITH_THE_DATABASE
    | WITH_A_STANDBY
    | WITH_THE_TARGET
    | {
        "RelaydeckWritesSlow",
        "RelaydeckHistoryChanged",
        "RelaydeckForgedTokens",
        "RelaydeckMasterKeyAway",
        "RelaydeckWorkersRestarting",
    }
)
WITH_EVERYTHING_ELSE = set(alert_names()) - LATER
LAST_TO_CLEAR = {"RelaydeckLimitsFlapping"}  # its rule looks back over a minute of ours
LONGEST_WAIT = 300  # seconds: a scrape that a busy machine misses starts the wait of a rule again
SETTINGS = {
    "monitor_interval_seconds": "1",
    "monitor_rounds": "2",
    "signer_check_seconds": "2",
    "lease_seconds": "3",
    "rpc_deadline_seconds": "20",
    "rpc_try_timeout_seconds": "15",
    "rpc_probe_seconds": "1",
    "webhook_allow": "127.0.0.0/8",
    "webhook_timeout_seconds": "300",
    "rate_limit_per_second": "10",
    "rate_limit_burst": "10",
    "log_format": "json",
}


class Service:
    """`relaydeck serve`. Nobody reads its log while `reading` is cleared."""

    def __init__(self, home: Path, port: int, **settings: str) -> None:
        self._command = [*COMMAND, "serve", "--port", str(port)]
        self._environment = clean_environment(home, **settings)
        self.reading = threading.Event()
        self.reading.set()
        self.lines: list[bytes] = []

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines = [*self.lines[-20:], line]
            self.reading.wait()

    def kill_workers(self) -> None:
        for each in children(self._process.pid):
            os.kill(each, signal.SIGKILL)

    def stop(self) -> None:
        self.reading.set()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stderr is not None
        self._process.stderr.close()


class Watch:
    """Follows the alerts."""

    def __init__(self, prometheus: Prometheus, *, has_disk: bool) -> None:
        """`has_disk`: whether a disk could be mounted for the service, which runs out of space."""
        self._prometheus = prometheus
        self.expected = set(alert_names()) - (set() if has_disk else {"RelaydeckDiskLow"})
        self._started = time.monotonic()
        self.fired: set[str] = set()
        self.cleared: set[str] = set()
        self.history: dict[str, list[tuple[float, str]]] = defaultdict(list)  # of each alert: since when in which state
        self._active: set[str] = set()

    async def until_fired(self, alerts: Iterable[str], within: float) -> None:
        """Or until the time is over: the test of each alert says what happened."""
        await self._until(lambda: set(alerts) & self.expected <= self.fired, within)

    async def until_cleared(self, alerts: Iterable[str], within: float) -> None:
        await self._until(lambda: not set(alerts) & self._active, within)

    async def _until(self, reached: Callable[[], bool], within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not reached():
                    await asyncio.sleep(0.3)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            states = await asyncio.to_thread(self._prometheus.alerts)
            self.cleared = (self.cleared | self.fired) - states.keys()
            self.fired |= {name for name, state in states.items() if state == "firing"}
            self._active = set(states)
            self._note(states)
            await asyncio.sleep(0.5)

    def _note(self, states: dict[str, str]) -> None:
        for name in alert_names():
            state, changes = states.get(name, "inactive"), self.history[name]
            if not changes or changes[-1][1] != state:
                changes.append((round(time.monotonic() - self._started, 1), state))


class Callers:
    """Clients that call the service all the time, whatever it answers."""

    def __init__(self, port: int, api: str, admin: str) -> None:
        self._base, self._port = f"http://127.0.0.1:{port}", port
        self._api, self._admin = {"Authorization": f"Bearer {api}"}, {"Authorization": f"Bearer {admin}"}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Callers":
        self._session = aiohttp.ClientSession(self._base)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._session.close()

    async def change(self, method: str, path: str, **given: Any) -> None:
        status = await self.ask(method, path, admin=True, **given)
        assert 200 <= status < 300, (method, path, status)

    async def ask(self, method: str, path: str, *, admin: bool = False, **given: Any) -> int:
        given["headers"] = given.get("headers", {}) | (self._admin if admin else self._api)
        try:
            async with self._session.request(method, path, **given) as response:
                await response.read()
                return response.status
        except aiohttp.ClientError:
            return 0

    def repeat(self, seconds: float, call: Callable[[], Awaitable[int]]) -> None:
        async def calling() -> None:
            while True:
                await call()
                await asyncio.sleep(seconds)

        self._tasks.append(asyncio.create_task(calling()))

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def create(self) -> int:
        body = {"type": "plain", "config": {"key": "0x" + "11" * 32}}
        return await self.ask("POST", "/api/v1/signers", json=body)

    async def estimate(self) -> int:
        params = {"fee_token": "ETH", "network": "dev", "transaction": TRANSFER}
        body = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": params}
        return await self.ask("POST", "/api/v1/relayers/unreachable/rpc", json=body, admin=True)

    async def overfill_the_log(self) -> None:
        """Until there are more lines than the service keeps for a reader that is too slow."""
        for _ in range(10):
            await self._fill_the_log()
            async with self._session.get("/metrics") as response:
                if "relaydeck_log_lines_dropped_total 0\n" not in await response.text():
                    return

    async def _fill_the_log(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        request = b"GET /healthz HTTP/1.1\r\nHost: test\r\nX-Request-Id: %b\r\n\r\n" % (b"0" * 100)
        discarding = asyncio.create_task(_discard(reader))
        for _ in range(600):
            writer.write(request * 100)
            await writer.drain()
        await asyncio.sleep(1)
        discarding.cancel()
        writer.close()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


# The service finds this function before that of the system.
_MOVABLE_CLOCK = """
CREATE SCHEMA faults;
CREATE TABLE faults.clock AS SELECT interval '0' AS ahead;
CREATE FUNCTION faults.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE SQL
    AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM faults.clock';
ALTER DATABASE {name} SET search_path = public, faults, pg_catalog;
"""
_SLOW_WRITES = """
CREATE FUNCTION faults.wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END';
CREATE TRIGGER wait AFTER INSERT ON signers EXECUTE FUNCTION faults.wait();
"""


class Stage:
    """The service with everything it stands on."""

    def __init__(self, folder: Path, disk: Path | None, database: PostgresServer, template: str) -> None:
        """`disk`: what is mounted for the home alone."""
        self.disk, self.home, self.database = disk, (disk or folder) / "home", database
        self.name = database.fresh(template)
        database.ask(_MOVABLE_CLOCK.format(name=self.name), self.name)
        choose(self.home, database.url(self.name))
        self.valkey = Valkey(folder)
        self.nodes = {name: FaultNode() for name in ("unreachable", "low", "short", "slow")}
        self.receiver = Receiver(self._respond)
        self.late = asyncio.Event()  # set: the receiver that does not respond does
        self.port = free_port()
        self.service = Service(self.home, self.port, limits_url=self.valkey.url, **SETTINGS)

    async def _respond(self, received: Received) -> web.StreamResponse:
        if received.path.endswith("/late"):
            await self.late.wait()
        return web.Response(status=410 if received.path.endswith("/dead") else 204)

    async def start(self) -> None:
        for node in self.nodes.values():
            node.answers = {
                "eth_getTransactionCount": "0x7",
                "eth_getBalance": hex(20_000 * ETHER),
                "eth_gasPrice": "0x3b9aca00",
            }
            await node.start()
        await self.receiver.start()
        await asyncio.to_thread(self._provision)
        await asyncio.to_thread(self.service.start)

    def _provision(self) -> None:
        fill(self.home, node=self.nodes["low"].url)
        policies = Policies(eip1559_pricing=False, gas_limit_estimation=False, min_balance=ETHER)
        with opened(self.home) as store, store.database.transaction() as transaction:
            for name in ("late", "dead"):
                hook = Notification(name, "webhook", f"{self.receiver.url}/{name}", has_signing_key=False)
                create_row(notification_changes.TABLE, transaction, store.vault, hook)
            for number, (name, node) in enumerate(self.nodes.items(), 1):
                made = relayer(name, custom_rpc_urls=(RpcUrl(node.url),), policies=policies, address=ADDRESS)
                create_row(relayer_rows.TABLE, transaction, store.vault, made)
                if name == "short":
                    balance_history.save(transaction, [(number, each) for each in _spent_before()])
            for name in ("late", "dead"):
                url = (RpcUrl(self.nodes["low"].url),)
                made = relayer(f"to-{name}", notification_id=name, custom_rpc_urls=url, address=ADDRESS)
                create_row(relayer_rows.TABLE, transaction, store.vault, made)
            url = (RpcUrl(self.nodes["low"].url),)
            damaged = relayer("damaged", custom_rpc_urls=url, paused=True, address=ADDRESS)
            create_row(relayer_rows.TABLE, transaction, store.vault, damaged)

    def damage(self) -> None:
        broken = r"UPDATE relayers SET sealed_rpc_urls = '\x0100000001' WHERE id = 'damaged'"
        self.database.ask(broken, self.name)

    def garble_the_audit_log(self) -> None:
        """Its entries are no JSON any more, which no code expects of what Relaydeck wrote itself."""
        self.database.ask("UPDATE audit SET after_change = 'no JSON'", self.name)

    def hide_the_master_key(self) -> None:
        """A start could not read it, as when its key system does not answer."""
        (self.home / "master.key").rename(self.home / "hidden.key")

    def show_the_master_key(self) -> None:
        (self.home / "hidden.key").rename(self.home / "master.key")

    async def flap(self, watch: Watch) -> None:
        """The limit server hangs again and again, long enough for the service to stop waiting for it."""
        for number in range(60):
            if number >= 14 and "RelaydeckLimitsFlapping" in watch.fired:
                return
            with self.valkey.frozen():
                await asyncio.sleep(0.5)
            await asyncio.sleep(1.5)

    def move_the_clock(self, seconds: int) -> None:
        self.database.ask(f"UPDATE faults.clock SET ahead = interval '{seconds} s'", self.name)

    def resize_the_disk(self, size: str) -> None:
        if self.disk is not None:
            resize(self.disk, size)

    def hang_in_a_migration(self, until: threading.Event) -> None:
        """As a new version does that changes the leases and waits for a forgotten session of an operator."""
        with closing(psycopg.connect(self.database.url(self.name).reveal())) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [OPENING_LOCK])
            connection.execute("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE")
            until.wait(900)

    @contextmanager
    def connections_used_up(self) -> Iterator[None]:
        self.database.ask(f"ALTER DATABASE {self.name} CONNECTION LIMIT 20")
        with ExitStack() as others:
            for _ in range(15):
                others.enter_context(closing(psycopg.connect(self.database.url(self.name).reveal())))
            yield

    def forge_a_token(self) -> None:
        self.database.ask("UPDATE clock SET revision = revision + 1", self.name)
        self.database.ask(
            "INSERT INTO tokens (name, kind, digest, created_at, proof, revision)"
            r" SELECT 'forged', 'admin', '\x00', 0, '\x00', revision FROM clock",
            self.name,
        )

    async def stop(self) -> None:
        self.late.set()
        await asyncio.to_thread(self.service.stop)
        for node in self.nodes.values():
            await node.stop()
        await self.receiver.stop()
        self.valkey.stop()


def _spent_before() -> list[BalancePeriod]:
    """Thirty hours of spending 900 ether an hour."""
    now = int(time.time())
    return [
        BalancePeriod(now - ago * HOUR, now - ago * HOUR, (18_000 + ago * 900) * ETHER, (30 - ago) * 900 * ETHER)
        for ago in range(30, 0, -1)
    ]


async def fail_everything_but_the_database(stage: Stage, callers: Callers, watch: Watch) -> None:
    await stage.nodes["unreachable"].stop()
    stage.nodes["low"].answers["eth_getBalance"] = "0x5"
    stage.nodes["short"].answers["eth_getBalance"] = hex(9_000 * ETHER)
    stage.nodes["slow"].mood = "hangs"
    await callers.change("POST", "/api/v1/signers", json={"id": "bad", "type": "plain", "config": {"key": "no key"}})
    padding = {"padding": "0" * 62_500}
    large = {"type": "provider_b_kms", "config": {"key": padding, "service_account": padding}}
    for _ in range(320):
        assert await callers.ask("POST", "/api/v1/signers", json=large) == 201
    for name in ("to-late", "to-dead"):
        await callers.change("POST", f"/admin/v1/relayers/{name}/pause")
    await asyncio.to_thread(stage.damage)
    await callers.change("POST", "/admin/v1/relayers/damaged/resume")
    await asyncio.to_thread(stage.garble_the_audit_log)
    await asyncio.to_thread(stage.move_the_clock, 60)
    stage.resize_the_disk("500m")
    callers.repeat(0.5, lambda: callers.ask("GET", "/admin/v1/audit", admin=True))
    callers.repeat(0.3, callers.estimate)
    callers.repeat(0.02, lambda: callers.ask("GET", "/api/v1/relayers"))
    stage.service.reading.clear()
    await callers.overfill_the_log()
    await stage.flap(watch)
    stage.valkey.stop()
    with stage.connections_used_up():
        await watch.until_fired(WITH_EVERYTHING_ELSE - WITH_A_MIGRATION - {"RelaydeckDeliveriesLate"}, LONGEST_WAIT)
    await callers.stop()  # what they cause has fired, and a busy service can miss a scrape, which starts the wait again
    over = threading.Event()
    migrating = asyncio.create_task(asyncio.to_thread(stage.hang_in_a_migration, over))
    await watch.until_fired(WITH_EVERYTHING_ELSE, LONGEST_WAIT)
    over.set()
    await migrating


async def repair_everything(stage: Stage, callers: Callers, watch: Watch) -> None:
    stage.service.reading.set()
    stage.late.set()
    stage.resize_the_disk("2g")
    await asyncio.to_thread(stage.move_the_clock, 0)
    await asyncio.to_thread(stage.valkey.start)
    unreachable = stage.nodes["unreachable"]
    await unreachable.start(unreachable.port)
    for name in ("low", "short"):
        stage.nodes[name].answers["eth_getBalance"] = hex(90_000 * ETHER)
    stage.nodes["slow"].mood = "healthy"
    await callers.change("DELETE", "/admin/v1/signers/bad")
    callers.repeat(0.5, lambda: callers.ask("GET", "/api/v1/relayers"))
    backup = await asyncio.to_thread(run_command, stage.home, "backup", str(stage.home.parent / "backup"))
    assert backup.returncode == 0, backup.stderr
    await watch.until_cleared(WITH_EVERYTHING_ELSE - LAST_TO_CLEAR, LONGEST_WAIT)
    await callers.stop()


async def lose_the_master_key(stage: Stage, watch: Watch) -> None:
    stage.hide_the_master_key()
    await watch.until_fired({"RelaydeckMasterKeyAway"}, LONGEST_WAIT)
    stage.show_the_master_key()


async def delay_writes(stage: Stage, callers: Callers, watch: Watch) -> None:
    callers.repeat(0.1, callers.create)
    stage.database.ask(_SLOW_WRITES, stage.name)
    await watch.until_fired({"RelaydeckWritesSlow"}, LONGEST_WAIT)
    stage.database.ask("DROP FUNCTION faults.wait CASCADE", stage.name)
    await callers.stop()


async def fail_over(stage: Stage, watch: Watch) -> None:
    """The primary ends, and the service reaches a standby until that is promoted."""
    stage.database.stop()
    stage.database.make_standby()
    await watch.until_fired(WITH_A_STANDBY, LONGEST_WAIT)
    stage.database.promote()
    await watch.until_fired({"RelaydeckHistoryChanged"}, LONGEST_WAIT)


async def fail_the_worker(stage: Stage, watch: Watch) -> None:
    stage.forge_a_token()
    await watch.until_fired({"RelaydeckForgedTokens"}, LONGEST_WAIT)
    stage.service.kill_workers()
    await watch.until_fired({"RelaydeckWorkersRestarting"}, LONGEST_WAIT)


async def fail_the_database(stage: Stage, callers: Callers, watch: Watch) -> None:
    newer = {"Relaydeck-Min-Revision": "1000000000"}  # the list waits for the database
    callers.repeat(0.1, lambda: callers.ask("GET", "/api/v1/signers", headers=newer))
    callers.repeat(0.2, lambda: callers.ask("GET", "/admin/v1/events", admin=True))
    callers.repeat(0.2, callers.create)
    stage.database.freeze()
    await watch.until_fired(WITH_THE_DATABASE, LONGEST_WAIT)
    stage.database.thaw()
    await callers.stop()


async def lose_the_target(stage: Stage, prometheus: Prometheus, watch: Watch) -> None:
    await asyncio.to_thread(stage.service.stop)
    await watch.until_fired({"RelaydeckDown"}, LONGEST_WAIT)
    prometheus.hide_target()
    await watch.until_fired({"RelaydeckMissing"}, LONGEST_WAIT)
    await asyncio.to_thread(stage.service.start)
    prometheus.show_target()
    await watch.until_cleared(WITH_THE_TARGET, LONGEST_WAIT)


@asynccontextmanager
async def scraped(stage: Stage, folder: Path) -> AsyncIterator[Prometheus]:
    await stage.start()
    prometheus = Prometheus(folder, stage.port)
    try:
        yield prometheus
    finally:
        await asyncio.to_thread(prometheus.stop)
        await stage.stop()


async def observe(folder: Path, disk: Path | None, database: PostgresServer, template: str) -> Watch:
    stage = Stage(folder, disk, database, template)
    api, admin = issue(stage.home, "api"), issue(stage.home, "root", "admin")
    async with scraped(stage, folder) as prometheus, Callers(stage.port, api, admin) as callers:
        watch = Watch(prometheus, has_disk=disk is not None)
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(8)  # two rounds, and enough scrapes for every rate
        await fail_everything_but_the_database(stage, callers, watch)
        await repair_everything(stage, callers, watch)
        await lose_the_master_key(stage, watch)
        await delay_writes(stage, callers, watch)
        await fail_the_database(stage, callers, watch)
        await fail_over(stage, watch)
        await fail_the_worker(stage, watch)
        callers.repeat(0.3, lambda: callers.ask("GET", "/api/v1/signers"))
        await watch.until_cleared(LATER, LONGEST_WAIT)
        await callers.stop()
        await lose_the_target(stage, prometheus, watch)
        await watch.until_cleared(alert_names(), LONGEST_WAIT)
        watching.cancel()
    return watch


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory, migrated: str, postgres: PostgresServer) -> Iterator[Watch]:
    folder = tmp_path_factory.mktemp("alerts")
    with small_disk(folder / "disk", "2g") as mounted:
        yield asyncio.run(observe(folder, folder / "disk" if mounted else None, postgres, migrated))


@pytest.mark.parametrize("alert", alert_names())
def test_a_real_fault_fires_it_and_it_clears_when_the_fault_is_over(watch: Watch, alert: str) -> None:
    """Where no disk may be mounted, none runs out of space."""
    is_expected = alert in watch.expected
    assert (alert in watch.fired, alert in watch.cleared) == (is_expected, is_expected), (
        watch.history[alert],
        watch.history["RelaydeckDown"],
    )
