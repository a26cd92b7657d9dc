"""Removals are forgotten after a while; a process that was away for longer still learns which records are gone."""

import pytest

from relaydeck.store import changes
from relaydeck.store.database import Database
from tests.store.conftest import Connect
from tests.store.test_listing import Books, WholeBooks
from tests.support.statements import column
from tests.support.stored_rows import remove_signer


@pytest.fixture(autouse=True)
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEPT_REVISIONS", 3)


def stored(database: Database) -> tuple[list[int], int]:
    revisions = column(database, "SELECT revision FROM removals ORDER BY revision")
    return revisions, database.read("SELECT removals_pruned_to FROM clock")[0].removals_pruned_to


def test_only_the_newest_removals_are_kept(database: Database) -> None:
    books = Books(database)
    for name in "abcde":
        books.create(name)
    for name in "abcde":
        books.remove(name)
    assert stored(database) == ([8, 9, 10], 7)


def test_nothing_is_pruned_while_nothing_is_old(database: Database) -> None:
    books = Books(database)
    books.create("a")
    books.remove("a")
    assert stored(database) == ([2], 0)


@pytest.mark.parametrize("kind", [Books, WholeBooks])
@pytest.mark.parametrize("last_is_removed", [True, False])
def test_a_process_that_was_away_removes_what_is_gone(
    connect: Connect, kind: type[Books], last_is_removed: bool
) -> None:
    away, writing = kind(connect()), Books(connect())
    for name in "abcdef":
        writing.create(name)
    assert [item["id"] for item in away.whole()] == list("abcdef")
    for name in "abcd" + "f" * last_is_removed:
        writing.remove(name)
    writing.create("g")
    writing.change("e", "new")
    assert stored(writing.database)[1] > away.follower.revision
    expected = [{"id": "e", "config": "new"}, {"id": "f", "config": "{}"}, {"id": "g", "config": "{}"}]
    assert away.whole() == [item for item in expected if not (last_is_removed and item["id"] == "f")]


def test_a_process_that_is_not_behind_what_was_pruned_reads_only_the_removals(connect: Connect) -> None:
    following, writing = Books(connect()), Books(connect())
    for name in "abcdef":
        writing.create(name)
        following.whole()
        writing.remove(name)
        assert changes.removed_since(following.database.read, "signers", following.follower.revision) == [
            column(following.database, "SELECT max(seq) FROM removals")[0]
        ]
    assert following.whole() == []


@pytest.mark.parametrize("count", [100, 101, 250])
def test_many_items_are_removed_at_once(connect: Connect, count: int) -> None:
    following, writing = Books(connect()), Books(connect())
    with writing.database.transaction() as transaction:
        columns = ("id", "type", "open_config", "sealed_config", "origin", "created_at", "revision")
        rows = [(f"s{n}!", "plain", "{}", b"", "api", 0, transaction.revision) for n in range(300)]
        transaction.insert("signers", columns, rows)
    assert len(following.whole()) == 300
    with writing.database.transaction() as transaction:
        for number in range(25, 25 + count):
            remove_signer(transaction, f"s{number}!")
    left = [f"s{number}!" for number in range(300) if not 25 <= number < 25 + count]
    assert [item["id"] for item in following.whole()] == left
    assert following.listing.notes(0, 300) == ["odd"] * len(left)
