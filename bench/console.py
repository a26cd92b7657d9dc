"""Processor time of every page of the console, with 200 relayers and with as many as the longest list.

The homes have what a fleet gathers: balances, forecasts, problems, events with their deliveries, a long audit log.
"""

from http.client import HTTPConnection
from typing import NamedTuple

from bench.comparing import Ratio
from bench.homes import Home, open_store
from bench.processes import Server
from bench.rows import Row
from bench.run import Run
from relaydeck.console import pages  # noqa: F401  # registers them
from relaydeck.console.page_request import PAGES
from tests.support.statements import run_statement

_LOADS = 5  # of each page, after one that is not counted
_TIMEOUT_SECONDS = 120.0
_RECORDS = {
    "relayers": "relayer-0000007",
    "signers": "signer-0000001",
    "networks": "sepolia",
    "notifications": "pager",
    "events": "evt_7",
    "deliveries": "evt_7",
    "tokens": "bench",
}
# Not pages to look at, or pages that answer as late as a node or the whole audit log.
_LEFT_OUT = ("/csv", "/code", "/export", "/now", "/why", "/nodes", "/verify", "/checks", "/backtest", "/{id}/revert")
# Views of a list that other indices serve than its first page.
_VIEWS = (
    "/relayers?problem=any",
    "/relayers?state=disabled",
    "/relayers?state=active",
    "/relayers?order=problem",
    "/relayers?order=runway",
    "/relayers?order=name",
    "/relayers?name=0000123",
    "/relayers?page=100000000",
    "/deliveries?state=dead",
    "/deliveries?notification_id=pager",
    "/audit?by=people",
    "/audit?record=relayer-0000007",
    "/audit?actor=token%3Aalice",
    "/find?text=relayer-00000",
    "/find?text=0x000000000000000000000000000000000000007b",
)


class PageTime(NamedTuple):
    path: str
    milliseconds: float


def slowest_page(run: Run, server: Server, cookie: str, relayers: int, allowed_ms: int) -> Row:
    """Server CPU does not depend on what else the machine does. The small print has every page, the slowest first."""
    times = sorted((_time_of(server, cookie, path) for path in addresses()), key=lambda each: -each.milliseconds)
    run.small_print += [f"console, {relayers:,} relayers, {path}: {spent:.0f} ms CPU" for path, spent in times]
    share = times[0].milliseconds / allowed_ms
    what = f"console, the slowest of {len(times)} pages ({times[0].path}), {relayers:,} relayers"
    return Row(what, "what is allowed", f"server CPU, as a share of {allowed_ms} ms", Ratio(share, share, share), 1)


def addresses() -> list[str]:
    """Of every page that is read, and of further views of lists."""
    found = [path for path, methods in PAGES.items() if "GET" in methods and not path.endswith(_LEFT_OUT) and path]
    known = [path for path in found if "{id}" not in path or path.split("/")[1] in _RECORDS]
    return [*(path.replace("{id}", _RECORDS.get(path.split("/")[1], "")) for path in sorted(known)), *_VIEWS]


def _time_of(server: Server, cookie: str, path: str) -> PageTime:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_SECONDS)
    before = 0.0
    for number in range(_LOADS + 1):
        if number == 1:
            before = server.cpu_seconds()
        connection.request("GET", f"/console{path}", headers={"Cookie": cookie})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} was answered with {response.status}")
    connection.close()
    return PageTime(path, (server.cpu_seconds() - before) / _LOADS * 1000)


def add_history(home: Home) -> None:
    """What the monitor, receivers and people leave behind, by plain statements: a row for each relayer, or several."""
    store = open_store(home.folder)
    try:
        run_statement(store.database, "PRAGMA synchronous = OFF")
        for statement in _HISTORY:
            run_statement(store.database, statement)
        run_statement(store.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()


_NOW = "CAST(strftime('%s') AS INTEGER)"
_HISTORY = (
    "INSERT INTO notifications (id, type, url, origin, created_at, revision)"
    " VALUES ('pager', 'webhook', 'https://hooks.example.com/', 'api', 1700000000, 1)",
    "UPDATE relayers SET notification_id = 'pager', paused = seq % 100 = 3, system_disabled = seq % 200 = 4",
    "INSERT INTO balances SELECT seq, now - 86400 * (2 - part), now - 86400 * (1 - part),"
    " CAST(10000000000000000 + seq * 1000000000000 - part * 1000000000 AS TEXT),"
    " CAST(part * 1000000000 AS TEXT) FROM relayers,"
    f" (SELECT 0 AS part UNION SELECT 1), (SELECT {_NOW} AS now)",
    f"INSERT INTO runways SELECT seq, {_NOW}, {_NOW} + 3600 + seq * 7919 % 2592000,"
    f" CASE WHEN seq % 50 = 5 THEN {_NOW} - 600 END FROM relayers",
    'INSERT INTO troubles SELECT id, seq % 2, 1700000000, \'[["https://rpc.example.com","refused the connection"]]\','
    f" CASE WHEN seq % 2 THEN NULL ELSE 1700000000 END, '1', {_NOW} FROM relayers WHERE seq % 100 = 6",
    "INSERT INTO events (id, kind, relayer_id, notification_id, data, created_at) SELECT 'evt_' || seq,"
    " 'relayer.paused', id, 'pager', '{\"relayer\":{\"id\":\"' || id || '\"}}', 1700000000 + seq FROM relayers",
    "INSERT INTO deliveries (seq, notification_id, relayer_id, state, in_line, tries, due_at, finished_at, revision)"
    " SELECT seq, 'pager', relayer_id, CASE seq % 100 WHEN 1 THEN 'dead' WHEN 2 THEN 'pending' ELSE 'delivered' END,"
    " seq % 100 = 2, 1, CASE WHEN seq % 100 = 2 THEN 4000000000000 END,"
    " CASE WHEN seq % 100 <> 2 THEN 1700000000000 + seq END, 1 FROM events",
    "INSERT INTO attempts (delivery, started_at, duration, status, problem, answer) SELECT seq, 1700000000000 + seq,"
    " 20, CASE WHEN seq % 100 < 3 THEN NULL ELSE 204 END,"
    " CASE WHEN seq % 100 < 3 THEN 'connection_refused' ELSE '' END, '' FROM deliveries",
    "INSERT INTO audit (moment, actor, action, record, before_change, after_change, hash, origin)"
    " SELECT 1700000000 + seq, CASE WHEN seq % 1000 = 9 THEN 'token:alice' ELSE 'monitor' END,"
    " CASE WHEN seq % 1000 = 9 THEN 'relayer.paused' ELSE 'relayer.disabled' END, id, NULL, '{\"paused\":true}',"
    " zeroblob(32), 'api' FROM relayers",
)
