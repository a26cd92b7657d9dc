"""Finding records, and lists of relayers in another order than that of their creation, on both engines."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from relaydeck.admin.find import search
from relaydeck.relayers import snapshots
from relaydeck.relayers.snapshots import Incident, StoredRunway
from tests.support.places import ENGINES
from tests.support.running import Running
from tests.support.seeding import fill, issue, opened, relayer

ADDRESSES = {
    "payments-1": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    "payouts-1": "0x2c75000000000000000000000000000000005C23",
    "bridge": "0xAbCd00000000000000000000000000000000FFfF",
}


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", request.param)


@pytest.fixture
def filled(home: Path) -> Path:
    every = [relayer(name, address=address) for name, address in ADDRESSES.items()]
    fill(home, signers=("ops", "5c23-key"), notifications={"pager": None}, relayers=every)
    issue(home, "Payments pipeline")
    return home


FOUND: tuple[tuple[str, list[str]], ...] = (
    ("payments-1", ["relayer payments-1"]),
    ("PAYMENTS", ["token Payments pipeline", "relayer payments-1"]),
    ("relayer p", ["relayer payments-1", "relayer payouts-1"]),
    ("0x2C7536", ["relayer payments-1"]),
    ("5c23", ["signer 5c23-key", "relayer payouts-1", "relayer payments-1"]),
    ("a65c23", ["relayer payments-1"]),
    ("0x2c7536…a65c23", ["relayer payments-1"]),
    ("0x2c75...5c23", ["relayer payouts-1", "relayer payments-1"]),
    ("ridg", ["relayer bridge"]),
    ("dev", ["network dev"]),
    ("ffff" * 11, []),
    ("100%", []),
    ("nobody", []),
)


def test_what_is_found(filled: Path) -> None:
    with opened(filled) as store:
        for text, expected in FOUND:
            named = [f"{each.kind} {each.id}" for each in search(store.database.read, text, 20).found]
            assert sorted(named) == sorted(expected), text


def test_what_matches_as_a_whole_is_first(home: Path) -> None:
    fill(home, relayers=[relayer("a-b"), relayer("a")], signers=("ops", "ab", "xa"))
    with opened(home) as store:
        found, more = search(store.database.read, "A", 20)
        assert [each.id for each in found] == ["a", "a-b", "ab", "xa"]
        assert more == ()
        found, more = search(store.database.read, "a", 2)
        assert ([each.id for each in found], more) == (["a", "ab"], ("relayer", "signer"))


def test_many_of_a_kind_leave_room_for_the_others(home: Path) -> None:
    signers = [f"v-{number:02}" for number in range(25)]
    fill(home, relayers=[relayer("x-v"), relayer("v")], signers=("ops", "v", *signers))
    with opened(home) as store:
        found, more = search(store.database.read, "v", 20)
    expected = ["relayer v", "signer v", *(f"signer {each}" for each in signers[:16]), "network dev", "relayer x-v"]
    assert sorted(f"{each.kind} {each.id}" for each in found) == sorted(expected)
    assert [each.id for each in found][:3] == ["v", "v", "v-00"]
    assert more == ("signer",)


def test_many_ids_that_begin_so_leave_room_for_a_name_that_is_so(home: Path) -> None:
    called = msgspec.structs.replace(relayer("other"), name="v")
    fill(home, relayers=[*(relayer(f"v-{number:02}") for number in range(25)), called])
    with opened(home) as store:
        found, more = search(store.database.read, "V", 20)
    assert (found[0].id, len(found), more) == ("other", 20, ("relayer",))


def test_a_response_says_of_which_kinds_more_match(home: Path) -> None:
    fill(home, relayers=[relayer("v-1"), relayer("v-2")], signers=("ops", "v-3", "v-4"))
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as running:
        few = running.ask("GET", "/admin/v1/find?text=v-&first=2").json
        every = running.ask("GET", "/admin/v1/find?text=v-").json
    assert [each["message"] for each in few["metadata"]["logs"]] == [
        "more relayers, signers match: enter a longer text"
    ]
    assert every["metadata"]["logs"] == []


def test_over_http_blanks_do_not_count(filled: Path) -> None:
    with Running(filled, token=issue(filled, "root", "admin"), monitor_interval_seconds="0") as running:
        answer = running.ask("GET", "/admin/v1/find?text=%20bridge%20&first=5").json
        refused = running.ask("GET", "/admin/v1/find?text=%20")
    address = ADDRESSES["bridge"]
    expected = {"kind": "relayer", "id": "bridge", "name": "Relayer bridge", "network": "dev", "address": address}
    assert (answer["data"], refused.status) == ([expected], 400)


def listed(running: Running, query: str) -> list[str]:
    return [each["id"] for each in running.ask("GET", f"/admin/v1/relayers?{query}").json["data"]]


@pytest.fixture
def troubled(home: Path) -> Path:
    """c is disabled, b has a low balance, d a low runway; a and e are well."""
    every = [relayer(name) for name in "edcba"]
    every[2] = msgspec.structs.replace(every[2], system_disabled=True)
    fill(home, relayers=every)
    with opened(home) as store, store.database.transaction() as transaction:
        low = Incident(0, None, (), 5, 3, 5)
        snapshots.save_incident(transaction, "b", low)
        for sequence, runway in ((2, StoredRunway(1, 50, 9)), (5, StoredRunway(1, 40, None)), (1, StoredRunway(1))):
            snapshots.save_runway(transaction, sequence, runway)
    return home


def test_lists_in_other_orders_have_every_record_once_on_each_page(troubled: Path) -> None:
    with Running(troubled, token=issue(troubled, "root", "admin"), monitor_interval_seconds="0") as running:
        assert listed(running, "order=name") == ["a", "b", "c", "d", "e"]
        assert listed(running, "order=problem") == ["c", "b", "d", "e", "a"]
        assert listed(running, "order=runway") == ["a", "d", "e", "c", "b"]
        for order in ("oldest", "newest", "name", "problem", "runway", "balance"):
            whole = listed(running, f"order={order}")
            paged = [each for page in (1, 2, 3) for each in listed(running, f"order={order}&per_page=2&page={page}")]
            assert paged == whole, order
            # Few are sorted at once, and more are read with indexes.
            assert listed(running, f"order={order}&network=dev") == whole, order
            last = running.ask("GET", f"/admin/v1/relayers?order={order}&network=dev&per_page=2&page=4").json
            assert (last["data"], last["pagination"]["total_items"]) == ([], 5)
        assert listed(running, "problem=any") == ["d", "c", "b"]
        assert listed(running, "problem=none") == ["e", "a"]
        assert listed(running, "problem=none&order=runway") == ["a", "e"]
        totals = [
            running.ask("GET", f"/admin/v1/relayers?{query}").json["pagination"]["total_items"]
            for query in ("problem=none", "problem=none&state=active", "state=active", "state=active&network=other")
        ]
        assert totals == [2, 2, 4, 0]
        assert [listed(running, f"problem={each}") for each in ("disabled", "low_balance", "low_runway")] == [
            ["c"],
            ["b"],
            ["d"],
        ]
        assert running.ask("GET", "/admin/v1/relayers?problem=other").status == 400
        for path, expected in (("networks?problem=any", ["dev"]), ("networks?problem=none", [])):
            assert [each["name"] for each in running.ask("GET", f"/admin/v1/{path}").json["data"]] == expected
        assert running.ask("GET", "/admin/v1/notifications?problem=any").json["data"] == []
