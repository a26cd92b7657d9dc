"""The page of what runs out first, and the chart of a relayer, compared with the database."""

import csv
import html
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaydeck.console import chart
from relaydeck.console.chart import balance_chart
from relaydeck.console.formats import short_amount
from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalanceHistory, BalancePeriod, BalancePoint, TopUp
from relaydeck.relayers.model import Policies
from relaydeck.relayers.runway import Runway, read_runway
from relaydeck.relayers.snapshots import StoredRunway
from relaydeck.timestamps import utc
from tests.console.conftest import Operator, plain
from tests.support.running import Running
from tests.support.seeding import ADDRESS, fill, issue, opened, relayer

CONSOLE = Path(chart.__file__).parent
HOUR, COIN = 3600, 10**18
BALANCES = {"soon": 5 * COIN, "later": 50 * COIN}  # each spends a tenth of a coin an hour


def spend(home: Path, balances: dict[str, int], *, now: int) -> None:
    """A day of even spending that ends with these balances."""
    with opened(home) as store, store.database.transaction() as transaction:
        for row in transaction.all("SELECT seq, id FROM relayers"):
            if row.id not in balances:
                continue
            periods = [
                (
                    row.seq,
                    BalancePeriod(at := now - hours * HOUR, at + 60, balances[row.id] + hours * COIN // 10, -hours),
                )
                for hours in range(24, -1, -1)
            ]
            spent = [(seq, each._replace(spent=(24 + each.spent) * COIN // 10)) for seq, each in periods]
            balance_history.save(transaction, spent)
            snapshots.save_runway(
                transaction, row.seq, StoredRunway(now, now + balances[row.id] // COIN * 36_000, None)
            )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("runway") / "home"
    fill(home, relayers=[relayer("idle"), relayer("later"), relayer("soon", policies=Policies(min_balance=COIN))])
    spend(home, BALANCES, now=int(time.time()))
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as started:
        yield started


@pytest.fixture
def operator(running: Running) -> Operator:
    return Operator(running.port).sign_in(running.token)


def rows_of(page: str) -> list[list[str]]:
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in body.split("<tr>")[1:]]
    return [[" ".join(html.unescape(re.sub(r"<[^>]*>", " ", each)).split()) for each in row] for row in cells]


def test_what_runs_out_first_is_on_top_with_what_to_add(running: Running, operator: Operator) -> None:
    rows = rows_of(operator.text("/runway?days=10"))
    assert [row[0] for row in rows] == ["Relayer soon dev", "Relayer later dev", "Relayer idle dev"]
    with opened(running.home) as store:
        soon = read_runway(store, "soon", warn_hours=24, now=int(time.time()), days=10)
    assert soon.spent_per_day is not None and soon.needed is not None
    assert soon.needed == soon.min_balance + 10 * soon.spent_per_day - BALANCES["soon"]
    assert rows[0][1].startswith("5 ETH") and rows[0][2] == "2.4 ETH" and rows[0][5] == "20 ETH"
    assert rows[2][1:4] == ["–", "–", "no balance was read yet"]


def test_a_new_balance_is_on_the_next_page(tmp_path: Path) -> None:
    fill(tmp_path / "home", relayers=[relayer("r1")])
    spend(tmp_path / "home", {"r1": 4 * COIN}, now=int(time.time()) - 60)
    with Running(
        tmp_path / "home", token=issue(tmp_path / "home", "root", "admin"), monitor_interval_seconds="0"
    ) as now:
        operator = Operator(now.port).sign_in(now.token)
        before = rows_of(operator.text("/runway"))[0]
        with opened(tmp_path / "home") as store, store.database.transaction() as transaction:
            moment = int(time.time())
            balance_history.save(transaction, [(1, BalancePeriod(moment, moment, 9 * COIN, 24 * COIN // 10))])
        after = rows_of(operator.text("/runway"))[0]
    assert (before[1][:5], after[1][:5], before[4]) == ("4 ETH", "9 ETH", "none in 7 d")
    assert after[4].startswith("5 ETH")


def test_by_network_and_name(operator: Operator) -> None:
    assert [row[0] for row in rows_of(operator.text("/runway?name=LATER"))] == ["Relayer later dev"]
    assert "No relayer matches." in operator.text("/runway?network=none")
    assert operator.get("/runway?days=0").status == 400


def test_the_file_has_exact_amounts(running: Running, operator: Operator) -> None:
    answer = operator.get("/runway/csv?days=10&network=dev")
    assert answer.headers["content-disposition"] == 'attachment; filename="runway.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    found = {
        each["relayer_id"]: each for each in running.ask("GET", "/admin/v1/runways?days=10").json["data"]["runways"]
    }
    assert [row["relayer_id"] for row in rows] == ["soon", "later", "idle"]
    assert {name: int(rows[0][f"{name}_wei"]) for name in ("balance", "needed")} == {
        name: found["soon"][name] for name in ("balance", "needed")
    }
    assert rows[2]["balance_wei"] == rows[2]["needed_wei"] == ""


def test_days_and_order_are_no_filters(operator: Operator, tmp_path: Path) -> None:
    shown = [
        " ".join(re.findall(r"Filters[^<]*<", operator.text(path))) for path in ("/runway", "/relayers?order=name")
    ]
    assert shown == ["Filters<", "Filters<"]
    fill(tmp_path / "home")
    token = issue(tmp_path / "home", "root", "admin")
    with Running(tmp_path / "home", token=token, monitor_interval_seconds="0") as now:
        assert "There are no relayers yet." in Operator(now.port).sign_in(now.token).text("/runway")


def test_a_cell_is_no_formula(tmp_path: Path) -> None:
    fill(tmp_path / "home", relayers=[relayer("=1+1")])
    with Running(
        tmp_path / "home", token=issue(tmp_path / "home", "root", "admin"), monitor_interval_seconds="0"
    ) as now:
        body = Operator(now.port).sign_in(now.token).text("/runway/csv")
    assert "\n'=1+1,Relayer =1+1," in body.replace("\r", "")


def test_the_code_of_an_address_is_a_picture(operator: Operator) -> None:
    answer = operator.get("/relayers/soon/code")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.body.startswith(b"<svg")


def test_the_page_of_a_relayer_has_each_span(operator: Operator) -> None:
    for span in ("1d", "7d", "90d"):
        page = operator.get(f"/relayers/soon?span={span}")
        assert f"spent in {span}" in plain(page)
        assert page.body.count(b'class="chart"') == 1


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Each balance was saved some minutes ago. The monitor checks those that are not paused once an hour."""
    home: Path = tmp_path_factory.mktemp("monitored") / "home"
    fill(home, relayers=[relayer("fresh"), relayer("old"), relayer("paused", paused=True)])
    with opened(home) as store, store.database.transaction() as transaction:
        for number, ago in enumerate((7, 121, 7), 1):
            moment = int(time.time()) - 60 * ago
            balance_history.save(transaction, [(number, BalancePeriod(moment, moment, COIN))])
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as started:
        yield started


SAVED = {"fresh": "1 ETH", "old": "1 ETH last saved … ago", "paused": "1 ETH last saved … ago"}
_SPAN = re.compile(r"(?<=last saved ).*(?= ago)")


@pytest.mark.parametrize(("path", "column"), [("/relayers", 4), ("/runway", 1)])
def test_a_list_has_no_moment_of_a_balance_that_the_monitor_reads(monitored: Running, path: str, column: int) -> None:
    operator = Operator(monitored.port).sign_in(monitored.token)
    shown = {name: rows_of(operator.text(f"{path}?name={name}"))[0][column] for name in SAVED}
    assert {name: _SPAN.sub("…", each) for name, each in shown.items()} == SAVED


def test_nor_has_the_page_of_a_relayer(monitored: Running) -> None:
    operator = Operator(monitored.port).sign_in(monitored.token)
    pages = {name: _SPAN.sub("…", plain(operator.get(f"/relayers/{name}"))) for name in SAVED}
    assert {name: re.findall("balance(1 ETH.*)", page) for name, page in pages.items()} == {
        name: [text] for name, text in SAVED.items()
    }


@pytest.mark.parametrize("path", ["/relayers/csv", "/runway/csv"])
def test_nor_has_a_file(monitored: Running, path: str) -> None:
    rows = csv.DictReader(io.StringIO(Operator(monitored.port).sign_in(monitored.token).text(path)))
    with opened(monitored.home) as store:
        periods = store.database.read("SELECT r.id, until FROM balances JOIN relayers r ON r.seq = relayer_seq")
    assert {row.get("relayer_id") or row["id"]: row["balance_at"] for row in rows} == {
        each.id: utc(each.until) for each in periods
    } | {"fresh": ""}


NOW = 1_772_366_400  # 2026-03-01T12:00:00Z


def history(*balances: int | None) -> BalanceHistory:
    start = NOW - HOUR * (len(balances) - 1)
    points = tuple(BalancePoint(at=utc(start + HOUR * each), balance=balance) for each, balance in enumerate(balances))
    top_up = TopUp(at=utc(NOW - HOUR), amount=COIN)
    return BalanceHistory(
        relayer_id="r1",
        start=utc(start),
        end=utc(NOW),
        step="1h",
        balance=balances[-1],
        seen_at=utc(NOW),
        spent=0,
        top_ups=(top_up,),
        points=points,
    )


def shown(balance: int, min_balance: int = 0, spent_per_hour: int | None = None) -> Runway:
    return Runway(
        relayer_id="r1",
        name="R1",
        address=ADDRESS,
        network="dev",
        native_symbol="<b>",
        balance=balance,
        balance_at=utc(NOW),
        min_balance=min_balance,
        warn_hours=24,
        low=False,
        unknown=None,
        spent_per_hour=spent_per_hour,
        window=None,
        until_minimum=None,
        until_zero=None,
        days=30,
        needed=None,
        top_ups=(),
    )


def test_every_runway_is_greyed_with_what_else_ages_on_a_stale_page() -> None:
    rule = next(line for line in (CONSOLE / "static/console.css").read_text("utf-8").splitlines() if ".stale" in line)
    assert ".lasts" in rule
    for template in (CONSOLE / "templates").glob("*.html"):
        text = template.read_text("utf-8")
        for shown in re.finditer(r"\| (?:lasts|left)\b", text):
            assert 'class="lasts' in re.findall(r"<(?:td|dd)\b[^>]*>", text[: shown.start()])[-1], template.name


def test_a_chart_has_its_parts() -> None:
    drawn = balance_chart(history(4 * COIN, 3 * COIN, None, 2 * COIN), shown(2 * COIN, COIN, COIN), "1d")
    assert '<path class="line" d="M76.0 22.0 L235.0 63.5 M553.0 105.0"/>' in drawn
    assert '<path class="minimum" d="M76 146.5H712"/>' in drawn
    assert '<path class="forecast" d="M553.0 105.0L712.0 146.5"/>' in drawn
    assert '<path class="top-up" d="M394.0 180l5 8h-10z"/>' in drawn
    assert ">Mar 01 12:00</tspan>: 2 &lt;b&gt;</text>" in drawn
    assert ">Mar 01 11:00</tspan>: not known, top-up 1</text>" in drawn
    assert [drawn.count(f">{each}</text>") for each in ("0", "1", "2", "3", "4", "UTC")] == [1] * 6
    assert "<b>" not in drawn


def test_one_balance_makes_no_chart() -> None:
    assert balance_chart(history(None, COIN), shown(COIN), "1d") == ""
    low = balance_chart(history(10 * COIN, 5 * COIN), shown(5 * COIN, COIN // 10, COIN), "7d")
    heights = [
        float(re.findall(rf'y="([\d.]+)" text-anchor="end">{each}<', low)[0]) for each in ("minimum", "forecast")
    ]
    assert heights[0] - heights[1] == 20  # one word above the other
    assert 'class="minimum"' not in balance_chart(history(COIN, COIN), shown(COIN), "1d")
    assert 'class="forecast"' not in balance_chart(history(0, 0), shown(0), "7d")


@pytest.mark.parametrize(
    ("wei", "text"),
    [
        (0, "0"),
        (1, "0.000000000000000001"),
        (123_456_789, "0.00000000012345"),
        (1_999_999 * 10**12, "1.9999"),
        (123_456 * COIN, "123,456"),
        (1_234_567 * 10**16, "12,345"),
        (COIN + 1, "1"),
    ],
)
def test_an_amount_has_five_significant_digits_and_is_never_more(wei: int, text: str) -> None:
    assert short_amount(wei) == text
