"""Two machines on one PostgreSQL server: what one writes, the other takes up; and what happens while it is away."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from relaydeck.credentials import tokens
from relaydeck.credentials.token_cache import TokenCache
from relaydeck.doctor.database import database_findings
from relaydeck.errors import BadRequest, ServerFailure, Unauthorized
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.store import follower as followers
from relaydeck.store.database import Row, without_progress
from relaydeck.store.follower import RemoteFollower
from relaydeck.store.listing import Encoded, Listing
from relaydeck.store.migrate import migrate
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_reader import PostgresReader
from relaydeck.store.sealing import RowProofs
from relaydeck.store.write_signal import WriteSignal
from tests.support.postgres import PostgresServer
from tests.support.postgres_faults import lost_on_the_way
from tests.support.stored_rows import remove_signer


def encode(row: Row) -> Encoded:
    if row.id == "broken":
        raise ValueError("no such row should be")
    return Encoded(json.dumps({"id": row.id}).encode())


PROOFS = RowProofs(bytes(32))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Machine(NamedTuple):
    """One process on a machine of its own: it shares no write signal with another one."""

    database: PostgresDatabase
    book: TokenCache
    listing: Listing
    follower: RemoteFollower
    clock: Clock
    announced: list[str]
    forks: list[str]

    @property
    def name(self) -> str:
        """Of the database on its server."""
        return self.database._url.reveal().rpartition("/")[2]

    def create(self, name: str) -> int:
        with self.database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
                " VALUES (:id, 'plain', '{}', :sealed, 'api', 0, :revision)",
                {"id": name, "sealed": b"", "revision": transaction.revision},
            )
            return transaction.revision

    def issue(self, name: str) -> None:
        """A token of that name and text."""
        with self.database.transaction() as transaction:
            tokens.add(transaction, PROOFS, name, Role.API, Secret(name), now=0)

    def token_names(self) -> list[str]:
        return [name for name in ("kept", "lost") if self._accepts(name)]

    def _accepts(self, token: str) -> bool:
        try:
            return self.book.find(f"Bearer {token}".encode(), 0).name == token
        except Unauthorized:
            return False

    def remove(self, name: str) -> None:
        with self.database.transaction() as transaction:
            remove_signer(transaction, name)

    def names(self) -> list[str]:
        return [json.loads(item)["id"] for item in self.listing.items(0, self.listing.total)]

    async def headers(self) -> list[tuple[bytes, bytes]]:
        """What an answer would say of its age."""
        behind = self.follower.catch_up()
        return [] if behind is None else list(await behind)


async def eventually(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not seen():
            await asyncio.sleep(0.005)


@pytest.fixture
async def machines(postgres: PostgresServer, migrated: str, tmp_path: Path) -> AsyncIterator[list[Machine]]:
    url, made = postgres.url(postgres.fresh(migrated)), []
    for number in (1, 2):
        made.append(machine(PostgresDatabase(url, WriteSignal(tmp_path / f"write-signal-{number}"))))
    yield made
    for each in made:
        await each.follower.close()
        each.database.close()


def machine(database: PostgresDatabase) -> Machine:
    clock, announced, forks = Clock(), list[str](), list[str]()
    book = TokenCache(PROOFS, lambda token: None)
    listing = Listing("signers", "id", encode, database, preload=True)
    follower = RemoteFollower(
        database,
        [book, listing],
        lambda: None,
        stale_seconds=60,
        report_problem=announced.append,
        report_fork=lambda problem, known: forks.append(problem),
        distrust_tokens=book.distrust,
        monotonic=clock,
    )
    follower.load()
    return Machine(database, book, listing, follower, clock, announced, forks)


async def test_what_another_machine_writes_is_taken_up_without_being_asked(machines: list[Machine]) -> None:
    here, there = machines
    there.create("one")
    await eventually(lambda: here.names() == ["one"])
    there.create("two")
    there.remove("one")
    await eventually(lambda: here.names() == ["two"])


async def test_a_revision_that_is_waited_for_is_there(machines: list[Machine]) -> None:
    here, there = machines
    for number in range(20):
        await here.follower.reach(there.create(f"s{number}"))
        assert here.names()[-1] == f"s{number}"


async def test_a_revision_that_nobody_wrote_yet_is_refused(machines: list[Machine]) -> None:
    here, there = machines
    with pytest.raises(BadRequest):
        await here.follower.reach(there.create("one") + 1)
    assert here.names() == ["one"]


async def test_a_write_of_the_same_machine_is_in_the_next_answer(machines: list[Machine]) -> None:
    here, _ = machines
    for number in range(20):
        here.create(f"s{number}")
        assert await here.headers() == []
        assert here.names()[-1] == f"s{number}"


async def test_a_row_that_cannot_be_read_is_told_and_followed_again_when_it_is_mended(machines: list[Machine]) -> None:
    here, there = machines
    there.create("broken")
    await eventually(lambda: here.follower.problem == "an unexpected ValueError")
    with there.database.transaction() as transaction:
        transaction.execute(
            "UPDATE signers SET id = 'mended', revision = :revision", {"revision": transaction.revision}
        )
    await eventually(lambda: here.names() == ["mended"])
    assert (here.follower.problem, here.announced) == ("", ["an unexpected ValueError", ""])


async def test_a_write_of_this_machine_that_could_not_be_looked_at_is_told(machines: list[Machine]) -> None:
    here, _ = machines
    here.create("broken")
    assert await here.headers() == [(b"relaydeck-stale", b"1")]


async def test_while_the_database_is_away_answers_tell_their_age_until_they_are_too_old(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        with closing(PostgresDatabase(server.url(server.fresh()), WriteSignal(tmp_path / "write-signal"))) as database:
            migrate(database)
            here = machine(database)
            here.create("one")
            assert await here.headers() == []
            server.stop()
            await eventually(lambda: here.follower.problem != "")
            here.clock.now += 20
            assert (await here.headers(), here.names()) == ([(b"relaydeck-stale", b"20")], ["one"])
            here.clock.now += 41
            with pytest.raises(ServerFailure):
                await here.headers()
            server.start()
            await eventually(lambda: here.follower.problem == "")
            assert (await here.headers(), here.names()) == ([], ["one"])
            assert [bool(each) for each in here.announced] == [True, False]
            await here.follower.close()
    finally:
        server.remove()


async def test_a_pause_of_this_process_is_not_taken_for_a_silent_database(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "REFRESH_SECONDS", 0.02)
    here, there = machines
    here.clock.now += 10
    assert here.follower.problem == ""
    there.create("after")
    await eventually(lambda: here.names() == ["after"])
    assert (here.follower.problem, here.announced) == ("", [])


async def test_a_connection_of_the_follower_that_falls_silent_is_broken_off(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One backend hangs, as behind a pooler that dropped its session: the server itself is healthy."""
    monkeypatch.setattr(followers, "_SILENT_SECONDS", 0.3)
    here, there = machines
    await here.follower.reach(there.create("before"))
    silent = here.follower._reader.reader.info.backend_pid
    os.kill(silent, signal.SIGSTOP)
    try:
        there.create("after")
        await eventually(lambda: here.names() == ["before", "after"])
    finally:
        os.kill(silent, signal.SIGCONT)
    assert here.announced == ["the database server does not answer", ""]


async def test_a_history_that_went_back_is_noticed_and_loaded_again(
    machines: list[Machine], postgres: PostgresServer
) -> None:
    """As after a restore: the last commit is gone, and another one has its revision."""
    here, there = machines
    there.create("kept")
    await here.follower.reach(there.create("lost"))
    postgres.ask("DELETE FROM signers WHERE id = 'lost'", there.name)
    postgres.ask("UPDATE clock SET revision = revision - 1", there.name)
    await eventually(lambda: here.names() == ["kept"])
    assert here.forks == ["its revision went back from 2 to 1"]


async def test_a_reload_that_fails_halfway_leaves_memory_as_it_was_and_is_tried_again(
    machines: list[Machine], postgres: PostgresServer
) -> None:
    here, there = machines
    there.issue("kept")
    there.issue("lost")
    there.create("kept")
    await here.follower.reach(there.create("lost"))
    postgres.ask(
        "BEGIN; DELETE FROM tokens WHERE name = 'lost'; UPDATE signers SET id = 'broken' WHERE id = 'lost';"
        " UPDATE clock SET revision = revision - 1; COMMIT",
        there.name,
    )
    await eventually(lambda: here.follower.problem == "an unexpected ValueError")
    here.clock.now += 20
    assert (here.token_names(), here.names(), here.forks) == (["kept", "lost"], ["kept", "lost"], [])
    assert await here.headers() == [(b"relaydeck-stale", b"20")]
    postgres.ask("UPDATE signers SET id = 'mended' WHERE id = 'broken'", there.name)
    await eventually(lambda: here.names() == ["kept", "mended"])
    assert (here.token_names(), here.forks) == (["kept"], ["its revision went back from 4 to 3"])


async def test_a_reload_that_hangs_blocks_no_request_and_is_bounded(
    machines: list[Machine], postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "_LONGEST_READ", 0.3)
    here, there = machines
    there.create("kept")
    await here.follower.reach(there.create("lost"))
    reached, reader, in_threads = threading.Event(), here.follower._reader, set[bool]()
    with ExitStack() as lost:

        def lose(row: Row) -> Encoded:
            assert isinstance(reader, PostgresReader)
            in_threads.add(threading.current_thread() is not threading.main_thread())
            lost.enter_context(lost_on_the_way(reader.reader))
            here.listing._encode = encode
            reached.set()
            return encode(row)

        here.listing._encode = lose
        postgres.ask(
            "BEGIN; DELETE FROM signers WHERE id = 'lost'; UPDATE clock SET revision = revision - 1; COMMIT", there.name
        )
        await eventually(reached.is_set)
        assert (in_threads, here.names(), here.forks) == ({True}, ["kept", "lost"], [])
        assert here.book._known.revision == -1  # each write checks its token in the database

        def seconds_later() -> bool:
            here.clock.now += 1
            return here.names() == ["kept"]

        await eventually(seconds_later)
    assert here.forks == ["its revision went back from 2 to 1"]
    assert here.book._known.revision == 0


async def test_many_rows_are_loaded_again_in_their_order(machines: list[Machine], postgres: PostgresServer) -> None:
    here, there = machines
    postgres.ask(
        "BEGIN; INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
        " SELECT 's' || n, 'plain', '{}', '', 'api', 0, 1 FROM generate_series(1, 1001) AS n;"
        " UPDATE clock SET revision = 1; COMMIT",
        there.name,
    )
    await here.follower.reach(1)
    postgres.ask("BEGIN; DELETE FROM signers WHERE id = 's1001'; UPDATE clock SET revision = 0; COMMIT", there.name)
    await eventually(lambda: here.forks != [])
    assert here.names() == [f"s{number}" for number in range(1, 1001)]


async def test_a_history_that_forked_is_noticed_though_its_revision_is_higher(
    machines: list[Machine], postgres: PostgresServer
) -> None:
    here, there = machines
    audit = "INSERT INTO audit (seq, moment, actor, action, record, hash) VALUES (1, 0, 'a', 'b', 'c', 'one')"
    postgres.ask(audit, there.name)
    await here.follower.reach(there.create("lost"))
    await eventually(lambda: here.follower._history.remembered == {"remembered": 1})
    with there.database.transaction() as transaction:  # one moment for all readers
        transaction.execute("DELETE FROM signers")
        transaction.execute("UPDATE audit SET hash = 'two'")
        transaction.execute(
            "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
            " VALUES ('forked', 'plain', '{}', '', 'api', 0, 1)"  # a revision that the replica has seen already
        )
    await eventually(lambda: here.names() == ["forked"])
    assert here.forks == ["entry 1 of the audit log is missing or another one"]


async def test_a_promoted_standby_is_noticed_and_a_standby_is_read_only(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        with closing(PostgresDatabase(server.url(server.fresh()), WriteSignal(tmp_path / "write-signal"))) as database:
            migrate(database)
            here = machine(database)
            here.create("one")
            await here.follower.reach(1)
            assert (here.follower.read_only, database.write_problem()) == (False, "")
            server.stop()
            server.make_standby()
            await eventually(lambda: here.follower.read_only)
            assert database.write_problem() == "the database is a read-only standby"
            found = list(
                database_findings(Settings(home=tmp_path, database_url=database._url), time.time, without_progress)
            )
            assert "FAIL" in [each.result for each in found if "read-only standby" in each.remark]
            server.ask("SELECT pg_promote()")
            await eventually(lambda: not here.follower.read_only and bool(here.forks))
            assert (here.forks, here.names()) == (["another server was promoted"], ["one"])
            await here.follower.close()
    finally:
        server.remove()


async def test_requests_are_answered_while_very_many_changes_are_fetched(machines: list[Machine]) -> None:
    """Encoding them takes longer than a silent server is waited for: the database is not taken for unavailable."""
    here, there = machines
    await here.follower.reach(there.create("one"))
    reached, released = threading.Event(), threading.Event()

    def encode_slowly(row: Row) -> Encoded:
        reached.set()
        assert released.wait(60)
        return encode(row)

    here.listing._encode = encode_slowly
    problems: list[str] = []
    here.follower._on_change = lambda: problems.append(here.follower.problem)
    there.create("two")
    await eventually(reached.is_set)
    here.clock.now += 30
    assert (here.follower.problem, here.follower.catch_up_with_tokens(), here.names()) == ("", None, ["one"])
    released.set()
    await eventually(lambda: here.names() == ["one", "two"])
    assert (problems, here.announced) == ([""], [])


async def test_a_server_that_falls_silent_after_the_changes_were_read_is_noticed(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "_SILENT_SECONDS", 0.3)
    here, there = machines
    await here.follower.reach(there.create("one"))
    reached, reader = threading.Event(), here.follower._reader
    with ExitStack() as lost:

        def lose(row: Row) -> Encoded:
            assert isinstance(reader, PostgresReader)
            lost.enter_context(lost_on_the_way(reader.reader))
            here.listing._encode = encode
            reached.set()
            return encode(row)

        here.listing._encode = lose
        there.create("two")
        await eventually(lambda: here.names() == ["one", "two"])
    assert reached.is_set()
    assert here.announced == ["the database server does not answer", ""]


async def test_a_connection_that_falls_silent_while_changes_are_read_is_broken_off(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "_SILENT_SECONDS", 0.3)
    here, there = machines
    await here.follower.reach(there.create("one"))
    reader = here.follower._reader
    assert isinstance(reader, PostgresReader)
    snapshot = reader.snapshot
    with ExitStack() as lost:

        @contextmanager
        def lose() -> Iterator[None]:
            with snapshot():
                monkeypatch.setattr(reader, "snapshot", snapshot)
                lost.enter_context(lost_on_the_way(reader.reader))
                yield

        monkeypatch.setattr(reader, "snapshot", lose)
        there.create("two")
        await eventually(lambda: here.names() == ["one", "two"])
    assert here.announced == ["the database server does not answer", ""]
