"""The same records in PostgreSQL and in SQLite: lists, pages and starts should not tell which."""

from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from bench.comparing import Ratio, Side
from bench.creates import create_request
from bench.homes import Home, make_home
from bench.load import Request
from bench.pages import Served, large_home, rendered_pages
from bench.processes import Server
from bench.rows import CPU, THROUGHPUT, Row
from bench.run import RELAYERS, SIGNERS, Pace, Run, get, started_relaydeck
from bench.servers import copied, postgres_server
from bench.service import await_quiet, serve_relaydeck
from bench.starts import seconds_to_answer

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

_AT_LEAST_SQLITE = 0.9
_ALLOWED_SECONDS = 30
_WORKERS = 2
_WHERE = ", PostgreSQL"


def expected_seconds(pace: Pace) -> float:
    return 11 * pace.rounds * pace.seconds + 9e-5 * pace.large


def measure(run: Run) -> list[Row]:
    with postgres_server() as server:
        small = make_home(run.folder / "on-sqlite", signers=10, relayers=10)
        there = copied(small, server, run.folder / "on-postgresql")
        rows = _small(run, small, there)
        return [*rows, *_large(run, server, copied(small, server, run.folder / "short-on-postgresql"))]


def _small(run: Run, here: Home, there: Home) -> list[Row]:
    lists = [(f"{name}, two workers", path) for name, path in (("list-signers", SIGNERS), ("list-relayers", RELAYERS))]
    rows = []
    with ExitStack() as stack:
        servers = [started_relaydeck(stack, home, workers=_WORKERS) for home in (there, here)]
        for what, path in lists:
            throughput, cpu = _compare(run, what, servers, [get(there, path), get(here, path)])
            rows += [throughput._replace(at_least=_AT_LEAST_SQLITE), cpu]
        what = "create-signer, 64 clients, two workers, answered after the sync"
        return rows + _compare(run, what, servers, [create_request(there), create_request(here)])


def _compare(run: Run, what: str, servers: list[Server], requests: list[Request]) -> list[Row]:
    names = ("postgresql", "sqlite")
    found = run.compare(what, [Side(*each) for each in zip(names, servers, requests, strict=True)])
    row = Row(f"{what}{_WHERE}", "the same with SQLite", THROUGHPUT, found.throughput(*names))
    return [row, row._replace(measure=CPU, ratio=found.cpu(*names))]


def _large(run: Run, server: "PostgresServer", small: Home) -> list[Row]:
    large = copied(large_home(run), server, run.folder / "large-on-postgresql")
    start = _start(run, large)
    with ExitStack() as stack:
        served = [Served(home, started_relaydeck(stack, home, RELAYERS)) for home in (small, large)]
        for each in served:
            await_quiet(each.server)
        return [*rendered_pages(run, served, _WHERE), start]


def _start(run: Run, large: Home) -> Row:
    """With cold caches, requesting the last page first."""
    what = f"start, {large.relayers:,} relayers, last page{_WHERE}"
    last = get(large, f"{RELAYERS}?page={large.relayers // 10}")
    taken = [seconds_to_answer(lambda: serve_relaydeck(large), last) for _ in range(run.pace.starts_of_the_large)]
    run.small_print.append(f"{what}: {median(taken):.2f} s")
    shares = sorted(each / _ALLOWED_SECONDS for each in taken)
    ratio = Ratio(median(shares), shares[0], shares[-1])
    measure = f"time to first answer, as a share of {_ALLOWED_SECONDS} s"
    return Row(what, "what is allowed", measure, ratio, at_most=1)
