"""What earlier versions stored and backed up, kept as files: the present version brings it up to date and serves it."""

import gzip
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from relaydeck.api.operation import CONTRACT_OPERATIONS, Operation
from relaydeck.api.operations import OPERATIONS
from relaydeck.credentials import people
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.secret import Secret
from relaydeck.store.migrate import newest_version
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.sealed_columns import check_all
from relaydeck.store.sealing import TOKEN_COLUMNS, RowProofs
from relaydeck.store.vault import read_master_keys
from tests.support import shapes
from tests.support.keep_release import RELEASES, SETTINGS, listed
from tests.support.places import ENGINES, choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.running import Running, ask, run_command
from tests.support.seeding import issue

FOR_EVER = SETTINGS | {"event_retention_days": "100000"}
NAMES = sorted(path.name for path in RELEASES.iterdir() if path.is_dir())


class Kept(NamedTuple):
    """A home as an earlier version left it."""

    home: Path
    folder: Path
    engine: str
    facts: dict[str, Any]  # token, head of the audit log, lists


@pytest.fixture(params=[(name, engine) for name in NAMES for engine in ENGINES], ids="-".join)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    name, engine = request.param
    folder, home = RELEASES / name, tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(folder / f"{engine}.key", home / "master.key")
    (home / "master.key").chmod(0o600)
    if engine == "sqlite":
        (home / "relaydeck.db").write_bytes(gzip.decompress((folder / "sqlite.db.gz").read_bytes()))
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.fresh())
        with closing(psycopg.connect(url.reveal(), autocommit=True)) as connection:
            connection.execute(gzip.decompress((folder / "postgresql.sql.gz").read_bytes()))
        choose(home, url)
    yield Kept(home, folder, engine, json.loads((folder / "facts.json").read_text("utf-8"))[engine])


def opened(kept: Kept) -> "closing[Store]":
    return closing(open_store_at(kept.home, place_of(kept.home), kept.home / "master.key"))


def lost(kept: Any, shown: Any, place: str = "") -> list[str]:
    """Every value of `kept` that `shown` has not. A newer version may show more fields."""
    if isinstance(kept, dict) and isinstance(shown, dict):
        return [each for key in kept for each in lost(kept[key], shown.get(key), f"{place}.{key}")]
    if isinstance(kept, list) and isinstance(shown, list) and len(kept) == len(shown):
        return [each for at, item in enumerate(kept) for each in lost(item, shown[at], f"{place}[{at}]")]
    return [] if kept == shown else [f"{place}: {kept!r} is now {shown!r}"]


def test_the_first_and_the_newest_kept_release_are_known() -> None:
    assert {"schema-5", "schema-19", "schema-31", "schema-32"} <= set(NAMES)


# On the way to schema 19, these values are sealed again. `check_all` opens them, and the lists compare them.
BEFORE_19 = {
    "audit_keys": {"sealed_key"},
    "clock": {"revision"},
    "networks": {"revision", "sealed_rpc_urls"},
    "notifications": {"revision", "sealed_signing_key", "url"},
    "relayers": {"revision", "sealed_rpc_urls"},
    "signers": {"revision", "sealed_config"},
}


def raw_connection(kept: Kept) -> Any:
    place = place_of(kept.home)
    return sqlite3.connect(place) if isinstance(place, Path) else psycopg.connect(place.reveal())


def stored(kept: Kept) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as it is, without the present version."""
    place, connection = place_of(kept.home), raw_connection(kept)
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    if isinstance(place, Path):
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    with closing(connection):
        cursor, found = connection.cursor(), dict[str, list[dict[str, Any]]]()
        for (table,) in cursor.execute(tables).fetchall():
            rows = cursor.execute(f'SELECT * FROM "{table}"').fetchall()
            columns = [each[0] for each in cursor.description]
            found[table] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found


def missing(before: dict[str, list[dict[str, Any]]], after: dict[str, list[dict[str, Any]]], altered: Any) -> list[str]:
    """Every row of before that is not there, apart from its altered columns."""
    found = []
    for table, rows in before.items():
        columns = [each for each in (rows or [{}])[0] if each not in altered.get(table, ())]
        ours, theirs = (
            Counter(repr([row.get(each) for each in columns]) for row in some) for some in (rows, after[table])
        )
        found += [f"{table} {columns}: {row}" for row in ours - theirs]
    return found


def test_every_stored_value_outlives_the_upgrade(kept: Kept) -> None:
    before, altered = stored(kept), BEFORE_19 if kept.folder.name == "schema-5" else {}
    with opened(kept):
        pass
    after = stored(kept)
    assert missing(before, after, altered) == []
    tables = {table for table, rows in before.items() if rows}
    assert {
        each.partition(" ")[0] for each in missing(before, {table: rows[1:] for table, rows in after.items()}, {})
    } == tables


def test_the_newest_kept_release_has_a_row_in_every_table_of_today(kept: Kept, tmp_path: Path) -> None:
    """When this fails: `python -m tests.support.keep_release schema-N COMMIT`, with what fills the new table."""
    before = stored(kept)
    newest = max(NAMES, key=lambda name: int(name.rpartition("-")[2]))
    with opened(kept) as store:
        today = {each.name for each in store.database.tables()}
    if kept.folder.name == newest:
        assert {table for table in today if not before.get(table)} == set()


def test_everything_is_there_and_tokens_work(kept: Kept) -> None:
    token = kept.facts["token"]
    with Running(kept.home, token=token, **FOR_EVER) as service:
        shown = listed(service.ask)
        relayers = service.ask("GET", "/api/v1/relayers").json["data"]
    # A delivery goes on: its state and its attempts are those of the moment.
    lists = kept.facts["lists"]
    assert [each for path in lists if path != "deliveries" for each in lost(lists[path], shown[path], path)] == []
    assert [relayer["id"] for relayer in relayers] == [each["id"] for each in lists["relayers"]]
    assert relayers[0]["policies"]["gas_price_cap"] == 123456789012345678901234567890


def test_scopes_and_sessions_of_people_hold(kept: Kept) -> None:
    if "scoped" not in kept.facts:
        return  # of a version before them
    with Running(kept.home, token=kept.facts["scoped"], **FOR_EVER) as service:
        proposed = service.ask("PATCH", "/admin/v1/relayers/one", {"name": "Protected"})
        seen = [each["id"] for each in service.ask("GET", "/api/v1/signers").json["data"]]
    assert (proposed.status, seen) == (202, ["ops"])
    with opened(kept) as store:
        now, secret = kept.facts["at"], Secret("p-kept")
        found = people.find(store.database.read, store.vault.proofs, secret, SessionLimits(1800.0, 43200.0), now)
    assert found is not None
    assert (found.person.actor, found.refresh_token(secret)) == (
        "person:alice@example.com",
        "the refresh token of a person",
    )


OLD_KINDS = ("admin", "api", "readonly")
# From one moment to the next.
DIFFERS = ("explain_relayer", "get_audit_head", "list_audit", "list_tokens", "run_doctor", "verify_audit")


def old_tokens(kept: Kept) -> dict[str, str]:
    """That of the earlier version, and others as it stored them. Before the present version opens the database."""
    made = {kind: new_token() for kind in OLD_KINDS[1:]}
    has_proofs, (key,) = kept.folder.name != "schema-5", read_master_keys(kept.home / "master.key")
    columns = [*TOKEN_COLUMNS, "revision", *(["proof"] if has_proofs else [])]
    rows: list[tuple[Any, ...]] = []
    for kind, token in made.items():
        row = (f"old {kind}", kind, digest_of(token.reveal().encode()), 1_795_000_000, None, None)
        rows.append((*row, 5, *([RowProofs(key.proof_key).of("tokens", row)] if has_proofs else [])))
    place = place_of(kept.home)
    mark, connection = (
        ("?", sqlite3.connect(place)) if isinstance(place, Path) else ("%s", psycopg.connect(place.reveal()))
    )
    with closing(connection):
        cursor, marks = connection.cursor(), ", ".join([mark] * len(columns))
        cursor.executemany(f"INSERT INTO tokens ({', '.join(columns)}) VALUES ({marks})", rows)
        connection.commit()
    return {"admin": kept.facts["token"]} | {kind: token.reveal() for kind, token in made.items()}


def answered(service: Running, operation: Operation, record: str, token: str, name: str) -> tuple[Any, ...]:
    """Without the name of the token where that is told."""
    path = "/".join(record if part.startswith("{") else part for part in operation.whole_path.split("/"))
    body: dict[str, Any] | None = None if operation.method == "GET" else {}
    answer = service.ask(operation.method, path, body, token=token, headers={"X-Request-Id": "one"})
    varying = ("date", "relaydeck-revision", "content-length")
    headers = {each: value for each, value in answer.headers.items() if each not in varying}
    differs = operation.name in DIFFERS and answer.status == 200
    shown = answer.body.replace(name.encode(), b"") if operation.name == "whoami" else answer.body
    return answer.status, headers, sorted(answer.json) if differs else shown


def test_old_tokens_get_the_answers_of_fresh_ones(kept: Kept) -> None:
    """For every operation of the table, with a record that is there and with one that is not."""
    old = old_tokens(kept)
    with Running(kept.home, token=old["admin"], rate_limit_per_second="0", **SETTINGS) as service:
        fresh = {kind: issue(kept.home, f"fresh {kind}", kind) for kind in OLD_KINDS}
        for operation, kind in product((*CONTRACT_OPERATIONS, *OPERATIONS), OLD_KINDS):
            records = ["none", "one", "dev", "pager", "ops"] if operation.method in ("GET", "PATCH") else ["none"]
            for record in records if operation.has_identifier else records[:1]:
                ours = answered(service, operation, record, old[kind], "kept" if kind == "admin" else f"old {kind}")
                assert ours == answered(service, operation, record, fresh[kind], f"fresh {kind}"), operation.name


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_an_old_token_still_does_what_it_did(kept: Kept, kind: str) -> None:
    """The five operations, and that a refused one is Unauthorized."""
    token, signer = old_tokens(kept)[kind], {"id": "fresh", "type": "plain", "config": {"key": "k"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "other", "params": {}}
    with Running(kept.home, token=token, **SETTINGS) as service:
        found = [
            service.ask(*each).status
            for each in (
                ("GET", "/api/v1/relayers"),
                ("GET", "/api/v1/signers"),
                ("POST", "/api/v1/signers", signer),
                ("PATCH", "/api/v1/notifications/pager", {}),
                ("POST", "/api/v1/relayers/one/rpc", call),
                ("GET", "/admin/v1/relayers"),
            )
        ]
    assert (
        found
        == {
            "admin": [200, 200, 201, 200, 200, 200],
            "api": [200, 200, 201, 200, 200, 403],
            "readonly": [200, 200, 401, 401, 401, 403],
        }[kind]
    )


def test_the_audit_log_still_holds_what_was_in_it(kept: Kept) -> None:
    verified = run_command(kept.home, "audit", "verify", "--head", kept.facts["head"])
    assert (verified.returncode, verified.stderr) == (0, "")


def test_every_secret_opens(kept: Kept) -> None:
    with opened(kept) as store, store.database.snapshot():
        checked = list(check_all(store.database, store.vault))
    # Two webhook secrets, the nodes of a network and of a relayer, and the keys of signers.
    assert (len(checked) >= len(shapes.TYPES) + 4, [each for each in checked if each is not None]) == (True, [])


def test_its_backup_is_restored_in_a_new_home(kept: Kept, tmp_path: Path) -> None:
    """With the explicit word where it has no MAC, and then its tokens are revoked."""
    new = tmp_path / "new"
    new.mkdir(mode=0o700)
    shutil.copy(kept.home / "master.key", new / "master.key")
    backup = str(kept.folder / f"{kept.engine}.backup")
    restored = run_command(new, "restore", backup)
    if is_revoked := restored.returncode != 0:
        assert "--unauthenticated" in restored.stderr
        restored = run_command(new, "restore", backup, "--unauthenticated")
    assert restored.returncode == 0, restored.stderr
    token = run_command(new, "token", "create", "new", "--kind", "admin").stdout.split()[0]
    with Running(new, token=token, **FOR_EVER) as service:
        shown = listed(service.ask)
        before = ask(service.port, "GET", "/api/v1/relayers", token=kept.facts["token"]).status
    paths = ("networks", "signers", "notifications", "relayers")
    assert [lost(kept.facts["lists"][path], shown[path]) for path in paths] == [[]] * len(paths)
    assert before == (401 if is_revoked else 200)


def test_a_version_before_refuses_what_a_newer_one_migrated(kept: Kept) -> None:
    """As the present version does with a schema of the future."""
    assert run_command(kept.home, "token", "list").returncode == 0
    future = newest_version() + 1
    with opened(kept) as store, store.database.transaction() as transaction:
        values = {"version": future, "moment": "2030-01-01T00:00:00Z"}
        transaction.execute("INSERT INTO schema_versions (version, applied_at) VALUES (:version, :moment)", values)
    refused = run_command(kept.home, "token", "list")
    assert (refused.returncode, "newer" in refused.stderr) == (1, True), refused.stderr
