"""Every signer with a driver is checked once in an interval, by one process of all that share the database."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from relaydeck.log import Log
from relaydeck.notifications import events
from relaydeck.scheduling.rounds import RoundOptions
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.signers import signer_changes
from relaydeck.signers.check_results import SignerCheckRounds
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import KmsConfig, LocalConfig, NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer
from tests.notifications.conftest import Clock
from tests.support.places import ENGINES
from tests.support.seeding import fill, open_home, relayer

INTERVAL = 3600.0
ADDRESS = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"  # of the key that `fill` gives a signer


class Scene:
    def __init__(self, store: Store, writer: Writer) -> None:
        self.store, self.writer, self.clock = store, writer, Clock()
        self.counted: list[str] = []
        self.processes: list[SignerCheckRounds] = []
        self.access = SignerKeys(Settings())

    def process(self) -> SignerCheckRounds:
        made = SignerCheckRounds(
            self.store,
            self.writer,
            AuditLog(self.store.vault),
            Log(as_json=True, level="error"),
            self.access,
            self.counted.append,
            RoundOptions(INTERVAL, lease_seconds=INTERVAL),
            now=self.clock,
            monotonic=self.clock,
        )
        self.processes.append(made)
        self.follow(made)
        return made

    def follow(self, process: SignerCheckRounds) -> None:
        process.update_schedule(process.fetch_changes(self.store.database.read, 0, removed=False))

    async def round(self, *processes: SignerCheckRounds, steps: int = 12) -> list[int]:
        """An interval passes; how many checks each part of it had."""
        counts = []
        for process in processes:
            await process.turn()
        for _ in range(steps):
            self.clock.pass_(INTERVAL / steps)
            before = len(self.counted)
            for process in processes:
                await process.turn()
                while process.checks:
                    await process.checks.join()
                    await process.turn()
            counts.append(len(self.counted) - before)
        return counts

    def add(self, *signers: NewSigner) -> None:
        with self.store.database.transaction() as transaction:
            for each in signers:
                signer_changes.insert(
                    transaction, self.store.vault, [signer_changes.prepare(each)], origin="api", now=0
                )
        for process in self.processes:
            self.follow(process)

    def outcomes(self) -> dict[str, str]:
        rows = self.store.database.read("SELECT signer_id, outcome FROM signer_checks", {})
        return {row[0]: row[1] for row in rows}


@pytest.fixture(params=ENGINES)
async def scene(
    request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]
) -> AsyncIterator[Scene]:
    home = lend(tmp_path / "home", request.param)
    fill(home, relayers=[msgspec.structs.replace(relayer("r1"), address=ADDRESS)])
    store = open_home(home)
    writer = Writer(store.database)
    scene = Scene(store, writer)
    yield scene
    for process in scene.processes:
        await process.close()
    await scene.access.close()
    await writer.stop()
    store.close()


def plain(name: str, key: str = "22" * 32) -> NewSigner:
    return NewSigner(name, "plain", LocalConfig(key=Secret(key)))


async def test_each_signer_with_a_driver_is_checked_once_in_an_interval(scene: Scene) -> None:
    scene.add(plain("two"), plain("bad", "no key"))
    scene.add(NewSigner("cloud", "provider_a_kms", KmsConfig(key_id="k", region="r")))
    await scene.round(scene.process())
    assert scene.outcomes() == {"ops": "ok", "two": "ok", "bad": "wrong_key_kind"}
    assert sorted(scene.counted) == ["failed", "ok", "ok"]


async def test_two_processes_check_each_signer_once(scene: Scene) -> None:
    scene.add(*(plain(f"s{number}") for number in range(20)))
    await scene.round(scene.process(), scene.process())
    assert len(scene.counted) == 21


async def test_checks_are_spread_evenly(scene: Scene) -> None:
    scene.add(*(plain(f"s{number}") for number in range(119)))
    counts = await scene.round(scene.process(), steps=12)
    assert sum(counts) == 120
    assert max(counts) <= 12 and min(counts) >= 8


async def test_rows_of_another_history_are_added_to_the_schedule(scene: Scene) -> None:
    """As after a failover: nothing told the process that they were written."""
    process = scene.process()
    await process.turn()
    scene.processes.clear()
    scene.add(*(plain(f"s{number}") for number in range(20)))
    scene.processes.append(process)
    process.replace(process.read_all(scene.store.database))
    await scene.round(process)
    assert scene.counted == ["ok"] * 21


async def test_a_mismatch_is_told_once_over_many_rounds(scene: Scene) -> None:
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET address = :to", {"to": "0x" + "11" * 20})
    process = scene.process()
    for _ in range(3):
        await scene.round(process)
    reported = [(each.kind, each.relayer_id) for each in events.list_events(scene.store.database.read)]
    assert reported == [("signer.mismatch", "r1")]


async def test_a_result_that_comes_after_the_lease_was_lost_is_not_kept(scene: Scene) -> None:
    slow, quick = scene.process(), scene.process()
    await slow.turn()
    slow._leases.seconds = 1e6  # it believes that it still holds it
    await slow._leases.claim(scene.store.database, scene.writer)
    scene.clock.pass_(2 * INTERVAL)
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE leases SET holder = 'another', fence = fence + 1")
    signers = slow.read_due([1])
    await asyncio.gather(*(slow._check(*each) for each in signers))
    assert (scene.outcomes(), quick.checks.__len__()) == ({}, 0)
