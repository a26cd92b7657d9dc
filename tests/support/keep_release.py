"""Keeps what a version stores, so that every later version can be tried on it: `python -m tests.support.keep_release`.

    python -m tests.support.keep_release NAME COMMIT

Writes a home with SQLite, a dump of PostgreSQL, a backup of each and the facts about them to tests/store/releases/NAME.
It is run once for each release, by hand, and what it wrote never changes.
"""

import asyncio
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from tests.console.conftest import Operator
from tests.support import shapes
from tests.support.fault_node import CHAIN_ID, FaultNode
from tests.support.places import choose
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.running import Running, eventually
from tests.support.versions import RunningVersion, environment_of, run_version

RELEASES = Path(__file__).parents[1] / "store" / "releases"
LISTS = ("networks", "signers", "notifications", "relayers", "tokens", "events", "deliveries", "audit")
LATER_LISTS = ("protections", "proposals")
SETTINGS = {"monitor_interval_seconds": "0"}
DOCUMENT = """
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{ url = "http://127.0.0.1:9/rpc?key=of-a-node", weight = 1 }]

[[notifications]]
id = "pager"
type = "webhook"
url = "http://127.0.0.1:9/hooks?key=of-a-receiver"
signing_key = "the signing key of a receiver"

[[signers]]
id = "ops"
type = "plain"
config = { key = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318" }

[[relayers]]
id = "one"
name = "One"
network = "dev"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
custom_rpc_urls = [{ url = "http://127.0.0.1:9/custom?key=of-a-relayer", weight = 3 }]
policies = { gas_price_cap = 123456789012345678901234567890 }
"""


# Run with the sources of that version: a session as the sign-in of a person at a provider leaves it.
PERSON = """
import time
from relaydeck.credentials import people
from relaydeck.credentials.console_sessions import SessionLimits, session_digest
from relaydeck.secret import Secret
from relaydeck.settings.model import read_settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import open_store
store, now, secret = open_store(read_settings()), int(time.time()), Secret("p-kept")
person = people.Person("company", "subject", "alice@example.com", "operator", "company: groups = relayers", "sid")
token = people.encrypted(secret, "the refresh token of a person")
session = people.PersonSession(person, session_digest(secret), now, now, now, token)
with store.database.transaction() as transaction:
    people.store(transaction, AuditLog(store.vault), session, SessionLimits(1800.0, 43200.0), now)
store.close()
"""


# A day in which the relayer `spending` spent much: its next check forecasts a short runway.
HISTORY = """
import time
from relaydeck.relayers import balance_history
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.settings.model import read_settings
from relaydeck.store.open_store import open_store
store, now = open_store(read_settings()), int(time.time())
with store.database.transaction() as transaction:
    sequence = transaction.one("SELECT seq FROM relayers WHERE id = :id", {"id": "spending"}).seq
    for hours in range(24, 0, -1):
        since = now - hours * 3600
        period = BalancePeriod(since, since + 3599, 1000 + hours * 100, 2400 - hours * 100)
        balance_history.save(transaction, [(sequence, period)])
store.close()
"""


def listed(ask: Any) -> dict[str, Any]:
    """What a service shows, by list. Earlier versions have no lists of what came later."""
    answers = {path: ask("GET", f"/admin/v1/{path}?per_page=100") for path in (*LISTS, *LATER_LISTS)}
    return {path: answer.json["data"] for path, answer in answers.items() if answer.status == 200}


def keep(name: str, commit: str) -> None:
    found = subprocess.run(["git", "rev-parse", "--short=8", commit], capture_output=True, text=True, check=True)
    commit, folder = found.stdout.strip(), RELEASES / name
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "home"
        facts = {"commit": commit, "sqlite": _fill(commit, home)}
        _vacuum(home / "relaydeck.db")
        _compress(folder / "sqlite.db.gz", (home / "relaydeck.db").read_bytes())
        _keep_backup(commit, home, folder / "sqlite.backup")
        (folder / "sqlite.key").write_bytes((home / "master.key").read_bytes())
        server = PostgresServer()
        home = Path(temporary) / "replica"
        url = server.url(database := server.fresh())
        choose(home, url)
        facts["postgresql"] = _fill(commit, home)
        _compress(folder / "postgresql.sql.gz", dump(server, database))
        _keep_backup(commit, home, folder / "postgresql.backup")
        (folder / "postgresql.key").write_bytes((home / "master.key").read_bytes())
    (folder / "facts.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _fill(commit: str, home: Path) -> dict[str, Any]:
    run_version(commit, home, "apply", "-", stdin=DOCUMENT)
    token = run_version(commit, home, "token", "create", "kept", "--kind", "admin").split()[0]
    run_version(commit, home, "token", "create", "revoked")
    run_version(commit, home, "token", "revoke", "revoked")
    with RunningVersion(commit, home, token=token, **SETTINGS) as service:
        for kind in shapes.TYPES:
            assert service.ask("POST", "/api/v1/signers", shapes.request(kind, id=f"signer-{kind}")).status == 201
        for change in ("pause", "resume", "pause"):
            assert service.ask("POST", f"/admin/v1/relayers/one/{change}").status == 200
        later = _fill_later(commit, service) if "protections" in listed(service.ask) else {}
        lists = listed(service.ask)
    if later:
        lists = _fill_checked(commit, home, token)
    for each in lists.get("proposals", ()):  # what time decides of one that waits is not compared
        if each["state"] == "open":
            each.pop("state")
    for each in lists["tokens"]:  # nor is what each use changes
        each.pop("last_used_at", None), each.pop("last_used_from", None)
    head = run_version(commit, home, "audit", "head").split()[0]
    return {"token": token, "head": head, "lists": lists} | later


def _told(
    service: Running, status: int, method: str, path: str, body: Any = None, token: str = "", key: str = ""
) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    answer = service.ask(method, f"/admin/v1/{path}", body, token=token or service.token, headers=headers)
    assert answer.status == status, answer.body
    return answer.json["data"] if answer.body else None


def _run_sources(commit: str, home: Path, code: str) -> None:
    subprocess.run([sys.executable, "-c", code], env=environment_of(commit, home), check=True, timeout=300)


def _fill_later(commit: str, service: RunningVersion) -> dict[str, Any]:
    """What versions since schema 31 store: labels, scopes, protections, proposals of each state, sessions, a person."""
    for kind, name in (("relayers", "one"), ("signers", "ops"), ("networks", "dev"), ("notifications", "pager")):
        _told(service, 200, "PATCH", f"{kind}/{name}", {"labels": {"team": "payments"}})
    scope = {"networks": ["dev"], "labels": {"team": "payments"}}
    limits: dict[str, Any] = {"addresses": ["127.0.0.0/8"], "rate": 50, "purpose": "kept", "expires": "5000w"}
    given = {"name": "scoped", "kind": "editor", "scope": scope} | limits
    scoped = _told(service, 201, "POST", "tokens", given, key="of-a-token")["token"]
    second = _told(service, 201, "POST", "tokens", {"name": "second", "kind": "owner"})["token"]
    Operator(service.port).sign_in(service.token)
    closed = {"labels": {"team": "treasury"}}
    _told(service, 201, "POST", "protections", {"name": "closed", "scope": closed, "closed": True})
    protection = {"name": "payments", "kinds": ["relayer"], "scope": scope, "note": "funds"}
    _told(service, 201, "POST", "protections", protection)
    made = [
        _told(service, 202, "PATCH", "relayers/one", {"name": name}, scoped)["id"]
        for name in ("Approved", "No", "Open")
    ]
    _told(service, 200, "POST", f"proposals/{made[0]}/approve", None, second)
    _told(service, 200, "POST", f"proposals/{made[1]}/reject", {"reason": "not now"}, second)
    _run_sources(commit, service.home, PERSON)
    return {"scoped": scoped, "at": int(time.time())}


def _fill_checked(commit: str, home: Path, token: str) -> dict[str, Any]:
    """What a service stores that checks: balances, runways, incidents, checks of signers. Returns what is shown."""
    checking = {"monitor_interval_seconds": "1", "driver_provider_c": "vault-kv"}
    with _node() as node:
        with RunningVersion(commit, home, token=token, **SETTINGS) as service:
            network = {"name": "live", "network_type": "evm", "chain_id": CHAIN_ID, "native_symbol": "ETH"}
            _told(service, 201, "POST", "networks", network | {"rpc_urls": [{"url": node.url}]})
            relayers = (("spending", "live", 0), ("low", "live", 10**18), ("cut-off", "dev", 0))
            for name, network_name, minimum in relayers:
                relayer = {"id": name, "name": name, "network": network_name, "signer_id": "ops"}
                policies = {"min_balance": minimum}
                _told(service, 201, "POST", "relayers", relayer | {"network_type": "evm", "policies": policies})
            _told(service, 201, "POST", "signers", {"id": "removed", "type": "plain", "config": {"key": "k"}})
            _told(service, 200, "DELETE", "signers/removed")
        _run_sources(commit, home, HISTORY)
        with RunningVersion(commit, home, token=token, **checking) as service:
            _wait_for_checks(service)
    run_version(commit, home, "console")  # a link that nobody opens
    with RunningVersion(commit, home, token=token, **SETTINGS) as service:
        return listed(service.ask)


def _wait_for_checks(service: RunningVersion) -> None:
    def states() -> set[str]:
        return {each["state"] for each in _told(service, 200, "GET", "problems")}

    _told(service, 200, "POST", "signers/signer-provider_c/check")
    eventually(lambda: {"disabled", "low_balance", "low_runway"} <= states())
    problem = _told(service, 200, "GET", "problems")[0]["id"]
    _told(service, 200, "POST", f"problems/{problem}/acknowledge", {"note": "the provider knows", "until": "364d"})


@contextmanager
def _node() -> Iterator[FaultNode]:
    """One that runs beside this thread."""
    loop, node = asyncio.new_event_loop(), FaultNode()
    node.answers = {"eth_getTransactionCount": "0x7", "eth_getBalance": hex(500)}
    loop.run_until_complete(node.start())
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield node
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _keep_backup(commit: str, home: Path, target: Path) -> None:
    run_version(commit, home, "backup", "create", str(target))


def _vacuum(path: Path) -> None:
    """Without a write-ahead log beside it."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _compress(target: Path, content: bytes) -> None:
    target.write_bytes(gzip.compress(content, mtime=0))


def dump(server: PostgresServer, database: str) -> bytes:
    """As SQL, without what only a newer psql reads."""
    program = server.programs / "pg_dump"
    options = ("--inserts", "--no-owner", "--no-privileges", "--restrict-key=kept")
    command = [str(program), *options, "--host=127.0.0.1", f"--port={server.port}", "--username=relaydeck", database]
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    done = subprocess.run(command, capture_output=True, env=environment, check=True, timeout=300)
    return b"\n".join(line for line in done.stdout.splitlines() if not line.startswith(b"\\"))


if __name__ == "__main__":
    keep(*sys.argv[1:])
