"""Processor time of every page of the console, with 200 relayers and with as many as the longest list.

Each list is also read with every filter and order that it offers, on its first page and on its last. The homes have
what a fleet gathers: balances, forecasts, problems, events with their deliveries, a long audit log.
"""

import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from itertools import product
from typing import NamedTuple
from urllib.parse import urlencode

from bench.comparing import Ratio
from bench.homes import Home, open_store
from bench.processes import Server
from bench.rows import Row
from bench.run import Run
from relaydeck.api.list_filters import FILTERS, order_of
from relaydeck.api.operations import BY_NAME
from relaydeck.console import pages  # noqa: F401  # registers them
from relaydeck.console.page_request import PAGES
from relaydeck.credentials import tokens
from relaydeck.credentials.tokens import new_token
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.roles import Role
from tests.support.statements import run_statement
from tests.support.stored_rows import create_row

_LOADS = 3  # of each page, after one that is not counted
_SHOWN = 20  # of the pages, in the small print
_TIMEOUT_SECONDS = 300.0
_FAR = "20000"  # the last page of 10^6, and far behind the last one of shorter lists
_RECORDS = {
    "relayers": "relayer-0000007",
    "signers": "signer-0000001",
    "networks": "sepolia",
    "notifications": "pager",
    "events": "evt_7",
    "deliveries": "evt_7",
    "tokens": "bench",
    "proposals": "proposal-1",
}
# Not pages to look at, or pages that answer as late as a node or the whole audit log.
_LEFT_OUT = ("/csv", "/code", "/export", "/now", "/why", "/nodes", "/verify", "/checks", "/backtest", "/{id}/revert")
_LISTS = (
    *("relayers", "runway", "networks", "signers", "notifications"),
    *("tokens", "events", "deliveries", "audit", "proposals"),
)
# What filters without fixed choices are given: what many records have, what few have, and what none has.
_GIVEN = {
    "name": ("relayer", "0000123", "nothing"),
    "id": ("0000", "0000012", "nothing"),
    "label": ("team=payments", "owner=ana", "team=nobody"),
    "network": ("sepolia", "small"),
    "type": ("provider_c", "provider_d"),
    "signer_id": ("signer-0000001",),
    "notification_id": ("pager", "pager-1"),
    "relayer_id": ("relayer-0000007", "nothing"),
    "actor": ("monitor", "token:alice", "token:nobody"),
    "action": ("relayer.created", "relayer.paused", "nothing"),
    "record": ("relayer-0000007", "nothing"),
    "author": ("token:alice", "token:nobody"),
    "from": ("2026-01-01",),
    "to": ("2023-11-15",),
    "after": (),
    "before": ("500",),
}
_TEXTS = (
    *("relayer-0000123", "relayer-00000", "relayer", "Sepolia relayer", "a", "0x", "7", "ff", "pager", "sepolia"),
    *("0x2f4e8a", "d0e1f2", "abcdef01", "1a2b", "no such thing", "signer-0000001", "evt_7", "relayer 0000123"),
    *("payments", "team=payments", "0x2f4e…1a2b", "r-00", "ana"),
)


class PageTime(NamedTuple):
    path: str
    milliseconds: float  # of the server's processor
    wall: float


def slowest_page(run: Run, server: Server, headers: Mapping[str, str], relayers: int, allowed_ms: int) -> Row:
    """Server CPU depends less on what else the machine does than time. The small print has the slowest pages."""
    times = sorted((_time_of(server, headers, path) for path in addresses()), key=lambda each: -each.milliseconds)
    run.small_print += [
        f"console, {relayers:,} relayers, {path}: {spent:.0f} ms CPU, {wall:.0f} ms"
        for path, spent, wall in times[:_SHOWN]
    ]
    share = times[0].milliseconds / allowed_ms
    what = f"console, the slowest of {len(times)} pages ({times[0].path}), {relayers:,} relayers"
    return Row(what, "what is allowed", f"server CPU, as a share of {allowed_ms} ms", Ratio(share, share, share), 1)


def addresses() -> list[str]:
    """Of every page that is read, of further views of lists, of searches, and of the same in the admin API."""
    found = [path for path, methods in PAGES.items() if "GET" in methods and not path.endswith(_LEFT_OUT) and path]
    known = [path for path in found if "{id}" not in path or path.split("/")[1] in _RECORDS]
    single = [path.replace("{id}", _RECORDS.get(path.split("/")[1], "")) for path in sorted(known)]
    return [f"/console{path}" for path in [*single, *_views()]] + [f"/admin/v1/{path}" for path in _api_views()]


def _views() -> Iterator[str]:
    for each in _LISTS:
        yield from (f"/{each}?{urlencode(query)}" for query in _queries(each))
    yield from (f"/find?{urlencode({'text': text})}" for text in _TEXTS)


def _queries(path: str) -> Iterator[dict[str, str]]:
    """Each filter, of relayers in each order; and each order on the last page."""
    table = "relayers" if path == "runway" else path
    filters = [(each.name, value) for each in FILTERS[table] for value in each.choices or _GIVEN[each.name]]
    orders = order_of(table).choices if table not in ("events", "deliveries") else ()
    yield from ({name: value} for name, value in filters)
    yield from ({"order": order} for order in orders)
    yield from ({"order": order, "page": _FAR} for order in orders)
    if path == "relayers":
        yield from ({name: value, "order": order} for (name, value), order in product(filters, orders))


def _api_views() -> Iterator[str]:
    """The lists that the console has no page of, too."""
    for name, operation in BY_NAME.items():
        if name.startswith("list_") and operation.path != "relayers":  # whose page reads the same list
            queries = _queries(operation.path) if operation.path in FILTERS else [{}]
            yield from (f"{operation.path}?{urlencode(query)}" for query in queries)
    yield from (f"find?{urlencode({'text': text})}" for text in _TEXTS)


def _time_of(server: Server, headers: Mapping[str, str], path: str) -> PageTime:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_SECONDS)
    before, started = 0.0, 0.0
    for number in range(_LOADS + 1):
        if number == 1:
            before, started = server.cpu_seconds(), time.perf_counter()
        connection.request("GET", path, headers=dict(headers))
        response = connection.getresponse()
        response.read()
        if response.status not in (200, 400):  # 400: an order for fewer records
            raise RuntimeError(f"{path} was answered with {response.status}")
    connection.close()
    wall, spent = time.perf_counter() - started, server.cpu_seconds() - before
    return PageTime(path, spent / _LOADS * 1000, wall / _LOADS * 1000)


def add_history(home: Home) -> None:
    """What operators, the monitor and receivers leave behind, by plain statements: of each relayer a row or several."""
    store = open_store(home.folder)
    try:
        run_statement(store.database, "PRAGMA synchronous = OFF")
        with store.database.transaction() as transaction:
            for number, name in enumerate(_NETWORKS, 1):
                network = Network(name, "evm", number, "ETH", (RpcUrl("https://rpc.example.com/v2/key"),))
                create_row(network_rows.TABLE, transaction, store.vault, network, origin="apply", now=1_700_000_000)
            for number in range(50):
                name = f"application-{number}"
                tokens.add(transaction, store.vault.proofs, name, Role.API, new_token(), now=1_700_000_000)
        for statement in _HISTORY:
            run_statement(store.database, statement)
        run_statement(store.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()


_NETWORKS = ("arbitrum", "base", "mainnet", "optimism", "small")
_NOW = "CAST(strftime('%s') AS INTEGER)"
_NETWORK = (
    "CASE WHEN seq % 40000 = 9 THEN 'small' ELSE CASE seq % 8 WHEN 0 THEN 'arbitrum' WHEN 1 THEN 'base'"
    " WHEN 2 THEN 'mainnet' WHEN 3 THEN 'mainnet' WHEN 4 THEN 'optimism' ELSE 'sepolia' END END"
)
# Addresses are scattered as real ones are.
_ADDRESS = "'0x' || printf('{}', {})".format(
    "%08x" * 5,
    ", ".join(
        f"(seq * {factor} + 12345) & 4294967295"
        for factor in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    ),
)
_FIRST = "SELECT relayer_seq FROM runways WHERE minimum_at IS NOT NULL ORDER BY minimum_at LIMIT 250"
_CHECK = (
    '\'{"signer_id":"\' || id || \'","checked_at":1700000000,"milliseconds":12,"outcome":"\' || outcome ||'
    ' \'","explanation":"the key system answered that it cannot be reached","address":null,"mismatched":[],'
    "\"failing_since\":' || CASE outcome WHEN 'ok' THEN 'null' ELSE '1700000000' END || '}'"
)
_HISTORY = (
    "INSERT INTO notifications (id, type, url, origin, created_at, revision)"
    " VALUES ('pager', 'webhook', 'https://hooks.example.com/', 'api', 1700000000, 1)",
    "INSERT INTO notifications (id, type, url, origin, created_at, revision, labels) SELECT 'pager-' || seq, 'webhook',"
    " 'https://hooks.example.com/', 'api', 1700000000, 1, '{\"team\":\"payments\"}' FROM relayers"
    " WHERE seq < 10 OR seq % 1000 = 0",
    # A key serves five relayers.
    "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision, labels)"
    " SELECT 'signer-' || printf('%07d', r.seq / 5), s.type, s.open_config, s.sealed_config, 'api', 1700000000, 1,"
    ' CASE WHEN r.seq % 2 THEN \'{"team":"payments"}\' END'
    " FROM relayers r CROSS JOIN signers s WHERE s.id = 'signer-0000001' AND r.seq % 5 = 0 AND r.seq / 5 > 9",
    "UPDATE relayers SET notification_id = CASE WHEN seq % 10 < 3 THEN 'pager' WHEN seq < 1000 THEN 'pager-1'"
    " ELSE 'pager-' || (seq / 1000 * 1000) END, paused = seq % 100 = 3, system_disabled = seq % 200 = 4,"
    ' disabled_reason = CASE WHEN seq % 200 = 4 THEN \'{"type":"NonceSyncFailed","details":"no node answered"}\''
    f" END, network = {_NETWORK}, address = {_ADDRESS}, signer_id = 'signer-' || printf('%07d', seq / 5),"
    ' labels = CASE WHEN seq % 100000 = 17 THEN \'{"owner":"ana","team":"payments"}\''
    ' WHEN seq % 10 < 5 THEN \'{"env":"prod","team":"payments"}\''
    ' WHEN seq % 10 < 8 THEN \'{"env":"prod","team":"bridge"}\' END',
    "INSERT INTO balances SELECT seq, now - 86400 * (2 - part), now - 86400 * (1 - part),"
    " CAST(10000000000000000 + seq * 1000000000000 - part * 1000000000 AS TEXT),"
    " CAST(part * 1000000000 AS TEXT) FROM relayers,"
    f" (SELECT 0 AS part UNION SELECT 1), (SELECT {_NOW} AS now)",
    f"INSERT INTO runways SELECT seq, {_NOW}, {_NOW} + 3600 + seq * 7919 % 2592000,"
    f" CASE WHEN seq % 50 = 5 THEN {_NOW} - 600 END FROM relayers WHERE seq % 5 <> 1",
    # The relayers that run out first have spent something in each quarter of an hour of a week.
    f"DELETE FROM balances WHERE relayer_seq IN ({_FIRST})",
    "INSERT INTO balances WITH RECURSIVE part (number) AS"
    " (SELECT 1 UNION ALL SELECT number + 1 FROM part WHERE number < 671)"
    " SELECT relayer_seq, now - 900 * (672 - number), now - 900 * (671 - number),"
    " CAST(10000000000000000 - number * 1000000000 AS TEXT), CAST((number + 1) * 1000000000 AS TEXT)"
    f" FROM ({_FIRST}), part,"
    f" (SELECT {_NOW} AS now)",
    'INSERT INTO troubles SELECT id, seq % 2, 1700000000, \'[["https://rpc.example.com","refused the connection"]]\','
    f" CASE WHEN seq % 2 THEN NULL ELSE 1700000000 END, '1', {_NOW} FROM relayers WHERE seq % 100 IN (6, 7)",
    "INSERT INTO signer_checks SELECT id, 1700000000, outcome, CASE outcome WHEN 'ok' THEN '' ELSE 'unreachable' END,"
    f" {_CHECK} FROM (SELECT id, CASE WHEN seq % 200 = 7 THEN 'unreachable' ELSE 'ok' END AS outcome FROM signers)",
    "INSERT INTO events (id, kind, relayer_id, notification_id, data, created_at) SELECT 'evt_' || seq,"
    " 'relayer.paused', id, notification_id, '{\"relayer\":{\"id\":\"' || id || '\"}}', 1700000000 + seq FROM relayers",
    "INSERT INTO deliveries (seq, notification_id, relayer_id, state, in_line, tries, due_at, finished_at, revision)"
    " SELECT seq, notification_id, relayer_id,"
    " CASE seq % 100 WHEN 1 THEN 'dead' WHEN 2 THEN 'pending' ELSE 'delivered' END,"
    " seq % 100 = 2, 1, CASE WHEN seq % 100 = 2 THEN 4000000000000 END,"
    " CASE WHEN seq % 100 <> 2 THEN 1700000000000 + seq END, 1 FROM events",
    "INSERT INTO attempts (delivery, started_at, duration, status, problem, answer) SELECT seq, 1700000000000 + seq,"
    " 20, CASE WHEN seq % 100 < 3 THEN NULL ELSE 204 END,"
    " CASE WHEN seq % 100 < 3 THEN 'connection_refused' ELSE '' END, '' FROM deliveries",
    *(
        "INSERT INTO audit (moment, actor, action, record, before_change, after_change, hash, origin)"
        f" SELECT 1700000000 + {part} * 10000000 + seq, CASE WHEN seq % 1000 = 9 THEN 'token:alice' ELSE '{actor}' END,"
        f" CASE WHEN seq % 1000 = 9 THEN 'relayer.paused' ELSE '{action}' END, id, NULL, '{{\"paused\":true}}',"
        " zeroblob(32), 'api' FROM relayers"
        for part, (actor, action) in enumerate((("cli:root", "relayer.created"), ("monitor", "relayer.disabled")))
    ),
    "INSERT INTO proposals (id, state, operation, plan, protections, revision, author, reason, created_at, expires_at,"
    " decided_by, decided_at, decision) SELECT 'proposal-' || seq, CASE WHEN seq <= 20 THEN 'open' ELSE 'applied' END,"
    ' \'update_relayer\', \'[{"action":"change","kind":"relayer","name":"\' || id || \'","fields":[{"name":"paused",'
    '"before":"false","after":"true"}]}]\', \'["mainnet"]\', \'"1"\', \'token:alice\', \'\', 1700000000, 4000000000,'
    " CASE WHEN seq > 20 THEN 'token:bob' END, CASE WHEN seq > 20 THEN 1700000000 END, ''"
    " FROM relayers WHERE seq <= 2000",
)
