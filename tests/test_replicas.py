"""Two replicas on one PostgreSQL database: what is written through one is shown by the other."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.support.places import choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.running import Answer, Running, eventually, free_port, make_token, run_command

SIGNER = {"type": "plain", "config": {"key": "11" * 32}}


class Replicas(NamedTuple):
    one: Running
    other: Running
    server: PostgresServer

    @property
    def both(self) -> tuple[Running, Running]:
        return self.one, self.other


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    server = PostgresServer()
    folder = tmp_path_factory.mktemp("replicas")
    url, key = server.url(server.fresh()), str(folder / "master.key")
    homes = [folder / name for name in ("one", "other")]
    for home in homes:
        choose(home, url)
    started: list[Running] = []
    try:
        assert run_command(homes[0], "token", "create", "me", master_key_file=key).returncode == 0
        token = make_token_of(homes[0], "admin", key)
        for home in homes:
            home.mkdir(exist_ok=True)
            started.append(Running(home, token=token, master_key_file=key, rate_limit_per_second="0"))
        yield Replicas(started[0], started[1], server)
    finally:
        for each in started:
            each.stop()
        server.remove()


def make_token_of(home: Path, kind: str, key: str) -> str:
    done = run_command(home, "token", "create", f"a-{kind}", "--kind", kind, master_key_file=key)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def names(running: Running, **headers: str) -> list[str]:
    answer = running.ask("GET", "/api/v1/signers?per_page=1000", headers=headers)
    assert answer.status == 200, answer
    return [each["id"] for each in answer.json["data"]]


def names_on_both(replicas: Replicas) -> list[str]:
    """The signers, once each replica shows what the other wrote."""
    eventually(lambda: names(replicas.one) == names(replicas.other))
    return names(replicas.one)


def create(running: Running, name: str) -> Answer:
    return running.ask("POST", "/api/v1/signers", {"id": name, **SIGNER})


def test_with_the_revision_of_a_write_every_replica_shows_it(replicas: Replicas) -> None:
    for number in range(50):
        writer, reader = replicas.both[number % 2], replicas.both[1 - number % 2]
        created = create(writer, f"asked-{number}")
        revision = created.headers["relaydeck-revision"]
        assert (created.status, revision.isdigit()) == (201, True)
        assert f"asked-{number}" in names(reader, **{"Relaydeck-Min-Revision": revision})


def test_the_replica_that_wrote_shows_it_without_being_asked(replicas: Replicas) -> None:
    for number in range(20):
        assert create(replicas.one, f"own-{number}").status == 201
        assert f"own-{number}" in names(replicas.one)


def test_the_other_one_shows_it_soon(replicas: Replicas) -> None:
    create(replicas.one, "soon")
    eventually(lambda: "soon" in names(replicas.other))


def test_no_id_is_accepted_twice(replicas: Replicas) -> None:
    assert create(replicas.one, "only-one").status == 201
    assert create(replicas.other, "only-one").status == 409


@pytest.mark.parametrize("given", ["-1", "x", "1, 2", "9" * 19])
def test_what_is_no_revision_is_refused(replicas: Replicas, given: str) -> None:
    answer = replicas.one.ask("GET", "/api/v1/signers", headers={"Relaydeck-Min-Revision": given})
    assert (answer.status, answer.headers["relaydeck-reason"]) == (400, "Relaydeck-Min-Revision is not a revision")


def test_a_token_revoked_through_one_is_refused_by_the_other(replicas: Replicas) -> None:
    issued = replicas.one.ask("POST", "/admin/v1/tokens", {"name": "passing", "kind": "readonly"})
    token = issued.json["data"]["token"]
    eventually(lambda: replicas.other.ask("GET", "/api/v1/signers", token=token).status == 200)
    assert replicas.one.ask("DELETE", "/admin/v1/tokens/passing").status == 200
    eventually(lambda: replicas.other.ask("GET", "/api/v1/signers", token=token).status == 401)


def test_what_is_closed_through_one_is_hidden_by_the_other(replicas: Replicas) -> None:
    issued = replicas.one.ask("POST", "/admin/v1/tokens", {"name": "application", "kind": "api"})
    token = issued.json["data"]["token"]

    def sees() -> int | None:
        answer = replicas.other.ask("GET", "/api/v1/signers", token=token).json
        return answer["pagination"]["total_items"] if answer["success"] else None

    create(replicas.one, "closed")
    notification = {"id": "closed", "type": "webhook", "url": "https://closed.example/"}
    assert replicas.one.ask("POST", "/admin/v1/notifications", notification).status == 201
    eventually(lambda: bool(sees()))
    assert replicas.one.ask("POST", "/admin/v1/protections", {"name": "all", "closed": True}).status == 201
    # A change asks the database itself, and does not wait until the replica has followed.
    changed = replicas.other.ask("PATCH", "/api/v1/notifications/closed", {"type": "webhook"}, token=token)
    eventually(lambda: sees() == 0)
    proposal = replicas.one.ask("DELETE", "/admin/v1/protections/all").json["data"]["id"]
    force = replicas.one.ask("POST", f"/admin/v1/proposals/{proposal}/force", {"reason": "a test"})
    eventually(lambda: bool(sees()))
    assert changed.json == {"data": None, "message": "Notification not found", "success": False}
    assert force.status == 200


def away(running: Running) -> int:
    page = running.ask("GET", "/metrics").body.decode()
    found = re.search(r"^relaydeck_store_away (\d+)$", page, re.MULTILINE)
    assert found is not None
    return int(found[1])


def is_stale(running: Running) -> bool:
    return "relaydeck-stale" in running.ask("GET", "/api/v1/signers").headers


def is_back(running: Running) -> bool:
    """Both: that it is away is announced a little later than it shows."""
    return not is_stale(running) and away(running) == 0


def has_counted_it(running: Running) -> bool:
    return b"relaydeck_history_changes_total 1\n" in running.ask("GET", "/metrics").body


def test_a_database_set_back_is_reported_with_one_event(replicas: Replicas) -> None:
    def reported() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = replicas.other.ask("GET", "/admin/v1/events").json["data"]
        return [each for each in events if each["type"] == "database.changed"]

    for number in range(10):
        create(replicas.one, f"before it {number}")
    names_on_both(replicas)
    with psycopg.connect(place_of(replicas.one.home).reveal()) as connection:  # type: ignore[union-attr]
        connection.execute("UPDATE clock SET revision = revision - 10")
    eventually(lambda: bool(reported()))
    for each in replicas.both:
        eventually(partial(has_counted_it, each))
    create(replicas.one, "after it")
    assert "after it" in names_on_both(replicas)
    (event,) = reported()
    assert event["data"]["details"]["problem"].startswith("its revision went back")


def test_a_database_that_goes_away_and_comes_back(replicas: Replicas) -> None:
    known = names_on_both(replicas)
    replicas.server.stop()
    try:
        for each in replicas.both:
            assert create(each, "lost").status == 500
            eventually(partial(is_stale, each))
            assert names(each) == known
            ready = each.ask("GET", "/readyz")
            said = r"ready, from memory: the database has been away for \d+ seconds\n"
            assert (ready.status, bool(re.fullmatch(said, ready.body.decode()))) == (200, True)
            assert away(each) == 1
    finally:
        replicas.server.start()
    for each in replicas.both:
        eventually(lambda: all(map(is_back, replicas.both)))
        assert create(each, f"back-{each.port}").status == 201
        assert (is_stale(each), each.ask("GET", "/readyz").body) == (False, b"ready\n")


def test_a_database_that_hangs_keeps_nobody_waiting(replicas: Replicas) -> None:
    known = names_on_both(replicas)
    replicas.server.freeze()
    try:
        for each in replicas.both:
            assert create(each, "hung").status == 500
            assert names(each) == known
    finally:
        replicas.server.thaw()
    eventually(lambda: all(map(is_back, replicas.both)))
    assert [create(each, f"thawed-{each.port}").status for each in replicas.both] == [201, 201]


def test_an_admin_does_not_wait_for_a_database_that_hangs(replicas: Replicas) -> None:
    asked = partial(replicas.one.ask, "GET", "/admin/v1/signers")
    eventually(lambda: asked().status == 200)
    replicas.server.freeze()
    try:
        waited, refused_at_once = asked(), asked()
        assert (waited.status, refused_at_once.status) == (500, 500)
    finally:
        replicas.server.thaw()
    eventually(lambda: asked().status == 200)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Replicas]:
    """One service on a server of its own, which is ended without asking when it does not end by itself."""
    server = PostgresServer()
    home = tmp_path / "home"
    choose(home, server.url(server.fresh()))
    running = Running(home, token=make_token(home, "me", "--kind", "admin"), stop_timeout_seconds="600")
    try:
        yield Replicas(running, running, server)
    finally:
        if running.process.poll() is None:
            running.kill()
        server.thaw()
        server.remove()


def test_a_service_whose_database_hangs_can_be_stopped(alone: Replicas) -> None:
    alone.server.freeze()
    eventually(partial(is_stale, alone.one))
    assert alone.one.stop() == 0


def test_what_waits_to_be_connected_to_a_database_that_hangs_is_answered(alone: Replicas) -> None:
    """Nothing was asked before: there is no connection yet that could be broken off."""
    alone.server.freeze()
    call = {"jsonrpc": "2.0", "method": "feeEstimate", "params": {}, "id": "1"}
    asked = [("GET", "/admin/v1/signers", None)] * 3 + [("POST", "/api/v1/relayers/nobody/rpc", call)] * 3
    with ThreadPoolExecutor(len(asked)) as clients:
        answers = clients.map(lambda each: alone.one.ask(*each), asked)
        assert [answer.status for answer in answers] == [500] * 6
    assert alone.one.stop() == 0


def test_what_was_refused_for_a_database_that_hangs_is_not_written_later(alone: Replicas) -> None:
    for number in range(2):  # the second time without a connection that writes
        alone.server.freeze()
        assert create(alone.one, f"refused-{number}").status == 500
        alone.server.thaw()
        eventually(partial(is_back, alone.one))
    assert create(alone.one, "written").status == 201
    assert names(alone.one) == ["written"]


def test_nobody_notices_that_a_database_hung(alone: Replicas) -> None:
    assert alone.one.ask("GET", "/admin/v1/signers").status == 200
    alone.server.freeze()
    eventually(lambda: away(alone.one) == 1)
    alone.server.thaw()
    eventually(partial(is_back, alone.one))
    assert (alone.one.ask("GET", "/admin/v1/signers").status, create(alone.one, "at-once").status) == (200, 201)
    alone.one.stop()
    assert (
        alone.one.log.count("the database is unreachable"),
        alone.one.log.count("the database is reachable again"),
    ) == (1, 1)


def test_the_port_for_operations_stays_ready_too(tmp_path: Path) -> None:
    server, operations = PostgresServer(), free_port()
    try:
        home = tmp_path / "home"
        choose(home, server.url(server.fresh()))
        token = make_token(home, "me")
        with Running(home, token=token, operations_address=f"127.0.0.1:{operations}") as running:
            running.port = operations
            running.await_answer()
            eventually(lambda: running.ask("GET", "/readyz").body == b"ready\n")
            server.stop()
            eventually(lambda: running.ask("GET", "/readyz").body != b"ready\n")
            ready = running.ask("GET", "/readyz")
            assert (ready.status, ready.body[:20]) == (200, b"ready, from memory: ")
    finally:
        server.remove()
