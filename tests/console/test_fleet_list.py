"""The list of relayers as something to work with: columns, orders, files, and changes of all that match."""

import csv
import io
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from relaydeck.api.list_filters import FILTERS, Parameter
from relaydeck.console.forms import label_of
from relaydeck.console.pages.selected import MOST_SELECTED
from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.snapshots import Incident, StoredRunway
from tests.console.conftest import Operator, plain
from tests.console.test_network_form import fields, problems
from tests.support.running import Answer, Running
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


def test_the_numbers_of_the_fleet_are_those_of_the_lists_that_they_lead_to(
    running: Running, operator: Operator
) -> None:
    states = {"r1": "paused = true", "r2": "system_disabled = true", "r3": "paused = true, system_disabled = true"}
    with opened(running.home) as store, store.database.transaction() as transaction:
        for name, change in states.items():
            transaction.execute(f"UPDATE relayers SET {change} WHERE id = :id", {"id": name})
    page = operator.text("/")
    shown = re.findall(r'\?state=(active|paused|disabled)"><b>([0-9]+)</b>', page)
    files = [operator.get(f"/relayers/csv?state={state}").body.decode() for state, _ in shown]
    listed = [
        (state, str(len([*csv.DictReader(io.StringIO(each))]))) for (state, _), each in zip(shown, files, strict=True)
    ]
    assert shown == listed == [("active", "57"), ("paused", "2"), ("disabled", "2")]


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


@pytest.fixture
def some(running: Running) -> list[str]:
    """Relayers whose address is that of their signer."""
    names = [f"b{number}" for number in range(1, 6)]
    signer = {"id": "plain", "type": "plain", "config": {"key": "0x" + "42" * 32}}
    assert running.ask("POST", "/admin/v1/signers", signer).status == 201
    network = running.ask("GET", "/admin/v1/relayers/r0").json["data"]["network"]
    for each in names:
        document = {"id": each, "name": each, "network": network, "network_type": "evm", "signer_id": "plain"}
        assert running.ask("POST", "/admin/v1/relayers", document).status == 201
    return names


def chosen(running: Running, *names: str) -> dict[str, dict[str, object]]:
    found = (running.ask("GET", f"/admin/v1/relayers/{each}").json["data"] for each in names)
    return {
        each["id"]: {**each["policies"], **{k: each.get(k) for k in ("notification_id", "labels")}} for each in found
    }


def test_several_relayers_change_together_and_all_of_it_is_taken_back(
    running: Running, operator: Operator, some: list[str]
) -> None:
    names = some[:3]
    assert running.ask("PATCH", "/admin/v1/relayers/b1", {"labels": {"team": "a", "env": "prod"}}).status == 200
    assert running.ask("PATCH", "/admin/v1/relayers/b3", {"policies": {"min_balance": 5 * 10**17}}).status == 200
    before = chosen(running, *names)
    form = operator.post("/relayers/selected/change", [("relayer", each) for each in names])
    assert "Change 3 relayers" in plain(form)
    typed = {
        "policies.min_balance": "0.5",
        "policies.eip1559_pricing": "off",
        "labels": "team=b",
        "removed_labels": "env",
    }
    shown = sent(operator, names, form, typed, "plan")
    assert "Changes of 3 relayers" in plain(shown)
    counts = {"Minimum balance": 2, "EIP-1559 pricing": 3, "Labels": 3}
    assert {f"{name}: changed in {count} relayers" in plain(shown) for name, count in counts.items()} == {True}
    assert "Minimum balance: 0 → 0.5 ETH" in plain(shown)
    assert chosen(running, *names) == before
    done = sent(operator, names, shown, {}, "apply")
    after = chosen(running, *names)
    assert {(each["min_balance"], each["eip1559_pricing"]) for each in after.values()} == {(5 * 10**17, False)}
    assert [each["labels"] for each in after.values()] == [{"team": "b"}] * 3
    entries = running.ask("GET", "/admin/v1/audit?order=newest&per_page=3").json["data"]
    assert [(each["action"], each["record"], each["origin"]) for each in entries] == [
        ("relayer.updated", each, "console") for each in reversed(names)
    ]
    planned = operator.post(f"/audit/{entries[-1]['sequence']}/revert", {"last": str(entries[0]["sequence"])})
    assert f'value="{entries[0]["sequence"]}"' in done.body.decode()
    assert operator.post("/apply/plan", fields(planned)).status == 200
    assert chosen(running, *names) == before


def sent(operator: Operator, names: Sequence[str], page: Answer, typed: Mapping[str, str], button: str) -> Answer:
    form = {name: value for name, value in fields(page).items() if name != "relayer"} | dict(typed) | {"do": button}
    return operator.post("/relayers/selected/change", [*(("relayer", each) for each in names), *form.items()])


def test_one_entry_of_a_change_of_several_leads_to_all_of_it(
    running: Running, operator: Operator, some: list[str]
) -> None:
    names = some[3:]
    form = operator.post("/relayers/selected/change", [("relayer", each) for each in names])
    sent(operator, names, sent(operator, names, form, {"labels": "team=c"}, "plan"), {}, "apply")
    entries = running.ask("GET", "/admin/v1/audit?order=newest&per_page=2").json["data"]
    planned = operator.post(f"/audit/{entries[0]['sequence']}/revert")
    text = plain(planned)
    assert "This change was made together with 1 other." in text and "Revert all of it: 2 changes …" in text
    assert "~ change relayer b5" in text and "~ change relayer b4" not in text


def test_a_relayer_that_changes_meanwhile_stops_the_change_of_all(
    running: Running, operator: Operator, some: list[str]
) -> None:
    names = some[:2]
    form = operator.post("/relayers/selected/change", [("relayer", each) for each in names])
    shown = sent(operator, names, form, {"labels": "team=b"}, "plan")
    assert running.ask("PATCH", "/admin/v1/relayers/b2", {"labels": {"env": "dev"}}).status == 200
    stopped = sent(operator, names, shown, {}, "apply")
    assert (stopped.status, "somebody else has changed one of these relayers" in plain(stopped)) == (412, True)
    assert [each["labels"] for each in chosen(running, *names).values()] == [None, {"env": "dev"}]
    assert sent(operator, names, stopped, {}, "apply").status == 200
    assert [each["labels"] for each in chosen(running, *names).values()] == [{"team": "b"}, {"env": "dev", "team": "b"}]


@pytest.mark.parametrize(
    ("typed", "place", "problem"),
    [
        ({"policies.min_balance": "much"}, "policies.min_balance", "Enter an amount such as 0.5 ETH or 50 gwei."),
        ({"notification_id": "nobody"}, "notification_id", "There is no such notification, in this file or stored."),
        ({}, "", ""),
    ],
)
def test_a_mistake_in_a_change_of_several_is_at_its_field(
    running: Running, operator: Operator, some: list[str], typed: dict[str, str], place: str, problem: str
) -> None:
    form = operator.post("/relayers/selected/change", [("relayer", each) for each in some[:2]])
    answer = sent(operator, some[:2], form, typed, "plan")
    assert (answer.status, problems(answer)) == (400, {place: problem} if place else {})
    assert ("nothing was chosen" in plain(answer)) == (not place)


_LISTS = {
    "relayers": ("relayers", ()),
    "signers": ("signers", ()),
    "networks": ("networks", ()),
    "notifications": ("notifications", ()),
    "tokens": ("tokens", ()),
    "proposals": ("proposals", ()),
    "audit": ("audit", ()),
    "runway": ("relayers", ()),
    "deliveries": ("deliveries", ("after", "before")),  # which are no filters there
    "events": ("events", ("after", "before")),
}
_ACTIVE = [
    (path, each) for path, (of, leave_out) in _LISTS.items() for each in FILTERS[of] if each.name not in leave_out
]


def _some_value(filter: Parameter) -> str:
    if filter.choices:
        return next(iter(filter.choices))
    given = {filter.is_labels: "team=a", filter.is_moment: "2026-03-01", filter.is_integer: "3"}
    return given.get(True, "some_thing")


@pytest.mark.parametrize(("path", "filter"), _ACTIVE, ids=lambda each: getattr(each, "name", each))
def test_an_active_filter_is_shown_and_kept_by_the_next_search(served: Running, path: str, filter: Parameter) -> None:
    person, value = Operator(served.port).sign_in(served.token), _some_value(filter)
    page = person.get(f"/{path}?{urlencode({filter.name: value})}")
    shown = re.findall('aria-label="Remove the filter ([^"]*)"', page.body.decode())
    assert shown == [f"{label_of(filter.name)}: {value}"]
    form = page.body.decode().partition('id="filters"')[2].partition('<div class="scroll"')[0]
    given = re.findall(rf'name="{filter.name}" value="([^"]*)"', form)
    given += re.findall(r"<option(?: value=\"[^\"]*\")? selected>([^<]*)<", form)
    assert given, "the next search drops it"


def test_each_label_of_a_filter_is_removed_alone(operator: Operator) -> None:
    page = operator.text("/relayers?label=team%3Da%2Cenv%3Db&order=newest")
    for label, rest in (("team=a", "env%3Db"), ("env=b", "team%3Da")):
        assert f'<a href="?label={rest}&amp;order=newest" aria-label="Remove the filter Label: {label}">' in page


def test_the_days_of_a_runway_are_kept_by_the_next_page(operator: Operator) -> None:
    assert 'href="?days=9&amp;page=2"' in operator.text("/runway?days=9")


def test_more_than_can_change_at_once_are_not_offered(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home, relayers=[relayer(f"r{number}") for number in range(MOST_SELECTED + 1)])
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as started:
        page = plain(Operator(started.port).sign_in(started.token).get("/relayers"))
        fewer = plain(Operator(started.port).sign_in(started.token).get("/relayers?name=r1"))
    assert "filter them: at most 500 change at once, and 501 match." in page and "Select all" not in page
    assert "CSV of the first 500" in page and "Select all 111 that match" in fewer


def test_a_small_largest_page_bounds_what_is_selected(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home, relayers=[relayer(f"r{number}") for number in range(6)])
    with Running(home, token=issue(home, "root", "admin"), max_per_page="5") as running:
        operator = Operator(running.port).sign_in(running.token)
        page, second = plain(operator.get("/relayers")), plain(operator.get("/relayers?page=2"))
        refused = operator.post("/relayers/selected", [("verb", "pause"), ("every", ""), ("confirmed", "yes")])
    assert "filter them: at most 5 change at once, and 6 match." in page and "CSV of the first 5" in page
    assert "1–5 of 6" in page
    assert "Relayer r5" in second and "Relayer r5" not in page
    assert (refused.status, paused(running)) == (400, set())
    assert "6 relayers match, and at most 5 can change at once: filter them" in plain(refused)


def test_a_heading_sorts_the_list_and_keeps_its_filters(operator: Operator) -> None:
    page = operator.text("/relayers?network=dev&order=runway")
    for order, label in (("name", "name"), ("problem", "state"), ("balance", "balance"), ("runway", "runway")):
        assert f'<a href="?network=dev&amp;order={order}">{label}</a></th>' in page
    assert re.findall('aria-sort="([a-z]+)"', page) == ["ascending"]


def test_labels_are_a_column_and_a_filter(running: Running, operator: Operator, some: list[str]) -> None:
    form = operator.post("/relayers/selected/change", [("relayer", each) for each in some[:2]])
    for names, labels in ((some[:2], "team=a"), (some[1:2], "env=prod")):
        sent(operator, names, sent(operator, names, form, {"labels": labels}, "plan"), {}, "apply")
    rows = csv.DictReader(io.StringIO(operator.get("/relayers/csv?label=team=a&order=newest").body.decode()))
    assert {row["id"]: row["labels"] for row in rows} == {"b1": "team=a", "b2": "team=a,env=prod"}
    page = operator.text("/relayers?label=team=a")
    assert [f'value="{each}"' in page for each in ("b1", "b2", "b3")] == [True, True, False]
    assert '<a class="chip" title="env=prod" href="?label=team%3Da%2Cenv%3Dprod">env=prod</a>' in page
    assert ">b1<" not in plain(operator.get("/relayers?label=team%3Da%2Cenv%3Dprod"))
    for path in ("signers", "notifications", "networks"):
        assert f'href="/console/{path}">Show all' in operator.text(f"/{path}?label=team=a")
