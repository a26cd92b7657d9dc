"""The read model against a plain list: the same items, in the same order, on every page."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from relaydeck.contract.operations import encode_page
from relaydeck.http.request import Page, read_page
from relaydeck.store.database import Database, Row
from relaydeck.store.follower import Follower
from relaydeck.store.listing import Encoded, Listing, ListingChanges
from relaydeck.store.migrate import migrate
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.store.conftest import Connect
from tests.support.stored_rows import remove_signer

pytestmark = pytest.mark.slow

MAX_PER_PAGE = 7


def encode(row: Row) -> Encoded:
    note = "odd" if row.id.endswith("!") else ""
    return Encoded(json.dumps({"id": row.id, "config": row.open_config}).encode(), note)


class Books:
    """A database and the read model of its signers, as one worker holds them."""

    whole_in_memory = False

    def __init__(self, database: Database) -> None:
        self.database = database
        self.listing = Listing("signers", "id, open_config", encode, self.database, preload=self.whole_in_memory)
        self.follower = Follower(self.database, [self.listing], lambda: None)
        with self.database.snapshot():
            self.follower.load()

    def create(self, name: str, config: str = "{}") -> None:
        with self.database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
                " VALUES (:id, 'plain', :config, :sealed, 'api', 0, :revision)",
                {"id": name, "config": config, "sealed": b"", "revision": transaction.revision},
            )

    def change(self, name: str, config: str) -> None:
        with self.database.transaction() as transaction:
            transaction.execute(
                "UPDATE signers SET open_config = :config, revision = :revision WHERE id = :id",
                {"id": name, "config": config, "sealed": b"", "revision": transaction.revision},
            )

    def remove(self, name: str) -> None:
        with self.database.transaction() as transaction:
            remove_signer(transaction, name)

    def page(self, page: Page) -> dict[str, Any]:
        self.follower.catch_up()
        self._fill(*page.bounds(self.listing.total))
        body: dict[str, Any] = json.loads(encode_page(self.listing, page))
        return body

    def whole(self) -> list[dict[str, Any]]:
        self.follower.catch_up()
        self._fill(0, self.listing.total)
        return [json.loads(item) for item in self.listing.items(0, self.listing.total)]

    def _fill(self, start: int, stop: int) -> None:
        if not self.whole_in_memory:
            self.listing.fill(start, stop)

    def close(self) -> None:
        self.database.close()


class WholeBooks(Books):
    """The same with every item in memory, as on PostgreSQL: a page reads nothing from the database."""

    whole_in_memory = True


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


class ListingAgainstAList(RuleBasedStateMachine):
    kind = Books

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        database = SqliteDatabase(folder / "db", WriteSignal(folder / "write-signal"))
        migrate(database)
        self.books = self.kind(database)
        self.model: list[dict[str, Any]] = []
        self.made = 0

    def teardown(self) -> None:
        self.books.close()
        self.folder.cleanup()

    @rule(odd=st.booleans())
    def create(self, odd: bool) -> None:
        self.made += 1
        name = f"s{self.made}{'!' if odd else ''}"
        self.books.create(name)
        self.model.append({"id": name, "config": "{}"})

    @precondition(lambda self: self.model)
    @rule(data=st.data(), config=st.text(alphabet="xyz", max_size=3))
    def change(self, data: st.DataObject, config: str) -> None:
        item = data.draw(st.sampled_from(self.model))
        self.books.change(item["id"], config)
        item["config"] = config

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.model))
        self.books.remove(item["id"])
        self.model.remove(item)

    @rule(page=st.integers(0, 5), per_page=st.integers(0, 9))
    def ask_for_a_page(self, page: int, per_page: int) -> None:
        asked = read_page(f"page={page}&per_page={per_page}".encode(), MAX_PER_PAGE)
        size = min(per_page or 10, MAX_PER_PAGE)
        start = (max(page, 1) - 1) * size
        shown = self.model[start : start + size]
        logs = [{"message": "odd", "level": "log"} for item in shown if item["id"].endswith("!")]
        if per_page > MAX_PER_PAGE:
            logs.append({"message": "per_page was reduced to the largest allowed, 7", "level": "log"})
        assert self.books.page(asked) == {
            "data": shown,
            "error": "",
            "metadata": {"logs": logs, "traces": []},
            "pagination": {"current_page": max(page, 1), "per_page": size, "total_items": len(self.model)},
            "success": True,
        }

    @rule()
    def load_anew(self) -> None:
        self.books.follower.load()

    @rule()
    def look_without_being_told(self) -> None:
        self.books.follower.refresh()

    @invariant()
    def the_whole_list_is_the_model(self) -> None:
        assert self.books.whole() == self.model


class WholeListingAgainstAList(ListingAgainstAList):
    kind = WholeBooks


TestWholeListingAgainstAList = WholeListingAgainstAList.TestCase
TestWholeListingAgainstAList.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestListingAgainstAList = ListingAgainstAList.TestCase
TestListingAgainstAList.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@given(total=st.integers(0, 60), per_page=st.integers(1, 12))
def test_the_pages_one_after_the_other_are_the_whole_list(total: int, per_page: int) -> None:
    items = list(range(total))
    pages = [Page(str(n), per_page, False).bounds(total) for n in range(1, total // per_page + 3)]
    assert [item for start, stop in pages for item in items[start:stop]] == items


@given(number=st.integers(1, 10**30), per_page=st.integers(1, 1000), total=st.integers(0, 10**6))
def test_no_page_reaches_outside_the_list(number: int, per_page: int, total: int) -> None:
    start, stop = Page(str(number), per_page, False).bounds(total)
    assert 0 <= start <= stop <= total
    assert stop - start <= per_page


@given(page=st.integers(0, 10**40), per_page=st.integers(0, 10**40), largest=st.integers(1, 10**6))
def test_any_two_numbers_are_a_page(page: int, per_page: int, largest: int) -> None:
    asked = read_page(f"page={page}&per_page={per_page}".encode(), largest)
    assert asked == Page(str(page or 1), min(per_page or min(10, largest), largest), per_page > largest)


def test_a_new_item_does_not_shift_an_earlier_page(books: Books) -> None:
    for n in range(5):
        books.create(f"s{n}")
    first = books.page(Page("1", 3, False))["data"]
    books.create("later")
    assert books.page(Page("1", 3, False))["data"] == first


def test_a_page_reads_only_its_own_items(books: Books) -> None:
    encoded: list[str] = []

    def encode_and_tell(row: Row) -> Encoded:
        encoded.append(row.id)
        return encode(row)

    for n in range(50):
        books.create(f"s{n}")
    listing = Listing("signers", "id, open_config", encode_and_tell, books.database)
    listing.replace(listing.read_all(books.database))
    listing.fill(40, 43)
    listing.fill(40, 43)
    assert encoded == ["s40", "s41", "s42"]


def test_a_write_of_another_process_is_in_the_next_answer(connect: Connect) -> None:
    ours, theirs = Books(connect()), Books(connect())
    assert ours.whole() == []
    theirs.create("from elsewhere")
    assert ours.whole() == [{"id": "from elsewhere", "config": "{}"}]


def test_a_write_that_was_undone_is_in_no_answer(books: Books) -> None:
    with pytest.raises(RuntimeError), books.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
            " VALUES ('undone', 'plain', '{}', :sealed, 'api', 0, :revision)",
            {"sealed": b"", "revision": transaction.revision},
        )
        raise RuntimeError
    assert books.whole() == []


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("others", [[], [1, 2, 3], [1, 5000, 5001, 9000]])
def test_very_many_changes_keep_the_order_of_creation(books: Books, *, whole: bool, others: list[int]) -> None:
    """As with an apply beside other writes: some items are new, before or after those of others, and some changed."""
    listing = Listing("signers", "id", unused, books.database, preload=whole)
    listing.apply_changes(ListingChanges([], [(seq, Encoded(b"old") if whole else None) for seq in others]))
    many = range(2, 8000, 2)
    listing.apply_changes(ListingChanges([], [(seq, Encoded(b"%d" % seq, "note") if whole else None) for seq in many]))
    expected = dict.fromkeys(others, b"old") | {seq: b"%d" % seq for seq in many}
    assert list(listing._seqs) == sorted(expected)
    assert listing.items(0, listing.total) == ([expected[seq] for seq in sorted(expected)] if whole else [])
    assert listing.notes(0, listing.total) == (["note"] * len(many) if whole else [])


def unused(_row: Row) -> Encoded:
    raise AssertionError("no row is read")
