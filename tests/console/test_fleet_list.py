"""The list of relayers as something to work with: columns, orders, files, and changes of all that match."""

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.snapshots import Incident, StoredRunway
from tests.console.conftest import Operator, plain
from tests.support.running import Running
from tests.support.seeding import fill, issue, opened, relayer

COUNT = 60  # more than a page


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """r7 has a low balance, and r9 runs out first."""
    home = tmp_path / "home"
    fill(home, relayers=[relayer(f"r{number}") for number in range(COUNT)])
    now = int(time.time())
    with opened(home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "r7", Incident(0, None, (), now - 60, 3, now))
        snapshots.save_runway(transaction, 10, StoredRunway(now, now + 7200, None))
        balance_history.save(transaction, [(8, BalancePeriod(now - 90, now - 30, 10**16, 0))])
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as started:
        yield started


@pytest.fixture
def operator(running: Running) -> Operator:
    return Operator(running.port).sign_in(running.token)


def paused(running: Running) -> set[str]:
    with opened(running.home) as store:
        return {row.id for row in store.database.read("SELECT id FROM relayers WHERE paused")}


def test_the_worst_problem_and_what_runs_out_first_are_on_top(operator: Operator) -> None:
    page = plain(operator.get("/relayers?order=problem"))
    assert page.index("Relayer r7") < page.index("Relayer r0")
    assert "low balance" in page and "0.01 ETH" in page
    runway = plain(operator.get("/relayers?order=runway"))
    assert runway.index("Relayer r9") < runway.index("Relayer r0")
    assert "1\xa0h" in runway or "1 h" in runway


def test_the_file_is_the_list(operator: Operator) -> None:
    body = operator.get("/relayers/csv?problem=low_balance").body.decode()
    (row,) = csv.DictReader(io.StringIO(body))
    assert (row["id"], row["problem"], row["balance_wei"]) == ("r7", "low_balance", str(10**16))


def test_all_that_match_are_paused_and_the_change_is_taken_back(running: Running, operator: Operator) -> None:
    operator.post("/relayers/r7/pause")
    asked = operator.post("/relayers/selected", {"every": "name=R", "verb": "pause", "relayer": "r1"})
    assert f"Pause {COUNT - 1} relayers?" in plain(asked)
    assert "1 of the selected is paused already and left out." in plain(asked)
    assert paused(running) == {"r7"}
    names = [("relayer", f"r{number}") for number in range(COUNT) if number != 7]
    done = operator.post("/relayers/selected", [*names, ("verb", "pause"), ("confirmed", "yes")])
    assert len(paused(running)) == COUNT
    assert f"Take it back: resume {COUNT - 1}" in plain(done)
    operator.post("/relayers/selected", [*names, ("verb", "resume"), ("confirmed", "yes")])
    assert paused(running) == {"r7"}


def test_a_filter_is_kept_by_all_that_match(running: Running, operator: Operator) -> None:
    asked = plain(operator.post("/relayers/selected", {"every": "problem=low_balance", "verb": "pause"}))
    assert "Pause 1 relayer?" in asked and "r7: not paused → paused" in asked
    assert "Select all 60 that match" in plain(operator.get("/relayers"))
