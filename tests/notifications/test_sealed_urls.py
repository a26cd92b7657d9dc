"""A webhook URL that may contain a key: sealed at rest and in exports, whole where it is used."""

from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.http.metric_counts import Metrics
from relaydeck.notifications.model import NotificationChange
from relaydeck.notifications.notification_changes import opened_url
from relaydeck.provisioning.export import exported
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import open_store_at
from relaydeck.store.sealed_columns import URLS_SINCE
from relaydeck.store.sqlite import SqliteDatabase, SqliteTransaction
from relaydeck.store.vault import Vault, create_master_key
from relaydeck.store.write_signal import WriteSignal
from relaydeck.web_addresses import may_contain_key
from tests.notifications.conftest import Scene
from tests.notifications.test_signing import update
from tests.support.running import run_command
from tests.support.seeding import opened
from tests.support.statements import run_statement

SECRET = "hidden-in-the-url"


def stored_columns(scene: Scene) -> tuple[str, bool]:
    (row,) = scene.store.database.read("SELECT url, sealed_url FROM notifications WHERE id = 'pager'")
    return row.url, row.sealed_url is not None


URLS = [f"https://user:{SECRET}@h.example/", f"https://h.example/hook?token={SECRET}", f"https://h.example/{SECRET}"]


@pytest.mark.parametrize("url", URLS)
async def test_a_url_that_may_contain_a_key_is_stored_sealed_and_answered_whole(scene: Scene, url: str) -> None:
    scene.notify("pager", "https://h.example/")
    assert stored_columns(scene) == ("https://h.example/", False)
    assert update(scene, "pager", NotificationChange(url=url)).url == url
    assert stored_columns(scene) == ("https://h.example", True)
    assert update(scene, "pager", NotificationChange()).url == url
    text = "".join(exported(scene.store))
    assert SECRET not in text
    assert 'url = { env = "NOTIFICATION_PAGER__URL" }' in text
    assert update(scene, "pager", NotificationChange(url="https://h.example/")).url == "https://h.example/"
    assert stored_columns(scene) == ("https://h.example/", False)


async def test_an_event_is_sent_to_the_whole_url(scene: Scene) -> None:
    receiver = await scene.receiver("other")
    scene.notify("pager", f"{receiver.url}?token={SECRET}")
    scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert [each.path.partition("?")[2] for each in receiver.got] == [f"token={SECRET}"]


async def test_a_url_that_does_not_open_costs_an_attempt_and_nothing_else(scene: Scene) -> None:
    scene.notify("pager", f"https://h.example/?token={SECRET}")
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE notifications SET sealed_url = :damaged", {"damaged": b"\2\0\0\0\1"})
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert [each.problem for each in scene.attempts(sequence)] == ["key_unreadable"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h.example", False),
        ("https://h.example/", False),
        ("https://h.example/path", True),
        ("https://u@h.example", True),
        ("https://h.example?x", True),
    ],
)
def test_a_user_part_a_path_or_a_query_may_be_a_key(url: str, expected: bool) -> None:
    assert may_contain_key(url) == expected


def test_a_home_that_an_earlier_version_serves_is_not_migrated(home: Path) -> None:
    (home / "run").mkdir(parents=True)
    create_master_key(home / "master.key")
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "run" / "write-signal"))) as database:
        migrate(database, to=URLS_SINCE - 1)
        Vault(database, home / "master.key").add_data_key(SqliteTransaction(database.writer, lambda _: None), 0)
    worker = Metrics(home / "run" / "metrics-1")
    worker.claim_row()
    refused = run_command(home, "token", "list")
    assert (refused.returncode, refused.stderr.splitlines()[1]) == (
        1,
        "Stop every service of the older version, then start this one. Nothing has been changed.",
    )
    del worker


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_an_earlier_version_stored_is_sealed_by_the_upgrade(home: Path, url: str) -> None:
    home.mkdir(exist_ok=True)
    create_master_key(home / "master.key")
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "signal"))) as database:
        migrate(database, to=URLS_SINCE - 1)
        transaction = SqliteTransaction(database.writer, lambda _: None)
        Vault(database, home / "master.key").add_data_key(transaction, 0)
        transaction.execute(
            "INSERT INTO notifications (id, type, url, origin, created_at, revision)"
            f" VALUES ('pager', 'webhook', '{url}', 'api', 0, 1)"
        )
    with closing(open_store_at(home, home / "relaydeck.db", home / "master.key")) as store:
        (row,) = store.database.read("SELECT url, sealed_url IS NOT NULL AS sealed FROM notifications")
        assert (row.url, bool(row.sealed)) == ("https://h.example", True)
    for path in home.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_doctor_finds_a_url_in_clear_and_a_key_rotation_seals_it(home: Path) -> None:
    """A replica of an earlier version stored it after the migration."""
    with opened(home) as store:
        run_statement(
            store.database,
            "INSERT INTO notifications (id, type, url, origin, created_at, revision)"
            f" VALUES ('pager', 'webhook', 'https://h.example/{SECRET}', 'api', 0, 1)",
        )
    found = "warn  sealed values: the URL of notification pager is not sealed; run: relaydeck key rotate"
    assert [line for line in run_command(home, "doctor").stdout.splitlines() if "pager" in line] == [found]
    assert run_command(home, "key", "rotate").returncode == 0
    assert "is not sealed" not in run_command(home, "doctor").stdout
    with opened(home) as store:
        (row,) = store.database.read("SELECT id, url, sealed_url, url_version FROM notifications")
        assert (row.url, opened_url(store.vault, row.id, row)) == ("https://h.example", f"https://h.example/{SECRET}")
