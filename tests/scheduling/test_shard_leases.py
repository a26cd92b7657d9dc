"""How processes share the shards of a table: evenly, each shard with one holder, none without for long."""

from collections.abc import AsyncIterator

import pytest

from relaydeck.scheduling.leases import LeaseLost, ShardLeases
from relaydeck.store.database import Database
from relaydeck.store.writer import Writer
from tests.notifications.conftest import Clock

SECONDS = 30.0


class Group:
    def __init__(self, database: Database) -> None:
        self.database, self.writer, self.clock = database, Writer(database), Clock()

    def process(self, holder: str, shards: int = 8) -> ShardLeases:
        return ShardLeases("monitor", shards, SECONDS, holder=holder, now=self.clock, monotonic=self.clock)

    async def claim(self, *processes: ShardLeases) -> list[list[int]]:
        """Each claims, and releases what is above its share. Returns what each holds after that."""
        for each in processes:
            await each.claim(self.database, self.writer)
            await each.release(self.writer, dict.fromkeys(sorted(each.fences)[each.share :], 0.0))
        return [sorted(each.fences) for each in processes]


@pytest.fixture
async def group(database: Database) -> AsyncIterator[Group]:
    group = Group(database)
    yield group
    await group.writer.stop()


async def test_processes_that_join_get_an_even_share(group: Group) -> None:
    a, b, c = (group.process(name) for name in "abc")
    assert await group.claim(a) == [list(range(8))]
    assert await group.claim(b) == [[]]
    assert await group.claim(a, b) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    await group.claim(c)
    assert await group.claim(a, b, c) == [[0, 1, 2], [4, 5, 6], [3, 7]]


async def test_no_shard_has_two_holders_whoever_claims_when(group: Group) -> None:
    processes = [group.process(name) for name in "abcde"]
    for step in range(12):
        group.clock.pass_(SECONDS / 3)
        held = await group.claim(*processes[step % 3 :], *processes[: step % 3])
        shards = [shard for each in held for shard in each]
        assert len(shards) == len(set(shards))
    assert sorted(shards) == list(range(8))


async def test_the_shards_of_a_dead_process_are_taken_over_with_the_time_that_was_missed(group: Group) -> None:
    a, b = group.process("a"), group.process("b")
    await group.claim(a, b, a, b)
    group.clock.pass_(20)
    await group.claim(b)
    group.clock.pass_(9)
    assert await group.claim(b) == [[4, 5, 6, 7]]
    group.clock.pass_(1)
    assert await group.claim(b) == [list(range(8))]
    assert b.gaps == dict.fromkeys(range(4), 30.0)


async def test_a_claim_is_due_when_the_shards_of_another_process_expire(group: Group) -> None:
    a, b = group.process("a"), group.process("b")
    await group.claim(a)
    group.clock.pass_(25)
    await group.claim(b)
    assert (a.until_claim(), b.until_claim()) == (0, 5)


async def test_a_released_shard_is_taken_with_the_time_since_it_was_checked(group: Group) -> None:
    a, b = group.process("a"), group.process("b")
    await group.claim(a)
    await a.leave(group.writer, {0: 7.0})
    group.clock.pass_(2)
    assert await group.claim(b) == [list(range(8))]
    assert b.gaps == {0: 9.0} | dict.fromkeys(range(1, 8), 2.0)


async def test_a_process_that_overslept_saves_nothing(group: Group) -> None:
    a, b = group.process("a"), group.process("b")
    await group.claim(a)
    group.clock.pass_(SECONDS)
    await group.claim(b)
    with group.database.transaction() as transaction:
        assert a.protected(transaction, range(16)) == set()
        assert b.protected(transaction, range(16)) == set(range(16))
        with pytest.raises(LeaseLost, match="another process holds a shard of the lease 'monitor'"):
            a.require(transaction, 9)
    assert not a.held


async def test_only_the_rows_of_a_lost_shard_are_not_saved(group: Group) -> None:
    a = group.process("a")
    await group.claim(a)
    with group.database.transaction() as transaction:
        transaction.execute("UPDATE leases SET holder = 'b', fence = fence + 1 WHERE name = 'monitor 3'")
        assert a.protected(transaction, range(16)) == set(range(16)) - {3, 11}


async def test_the_only_shard_stays_with_its_holder_and_others_write_nothing(group: Group) -> None:
    a, b = group.process("a", shards=1), group.process("b", shards=1)
    assert await group.claim(a, b, a, b) == [[0], [], [0], []]
    assert group.database.read("SELECT name, holder FROM leases") == [("monitor", "a")]
    assert b.until_claim() == SECONDS
    group.clock.pass_(SECONDS)
    assert await group.claim(b) == [[0]]


async def test_nothing_is_taken_while_a_version_without_shards_checks_all_rows(group: Group) -> None:
    old, new = group.process("old", shards=1), group.process("new")
    await group.claim(old)
    assert await group.claim(new) == [[]]
    await old.leave(group.writer, {})
    assert await group.claim(new) == [list(range(8))]
    assert await group.claim(old) == [[]]


async def test_a_clock_that_was_set_back_does_not_keep_shards_taken(group: Group) -> None:
    a, b = group.process("a"), group.process("b")
    await group.claim(a)
    group.clock.pass_(-86_400)
    assert await group.claim(b) == [list(range(8))]
