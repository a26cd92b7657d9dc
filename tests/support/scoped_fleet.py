"""A fleet of ten teams, and copies of it in which all that is outside of a scope does not exist.

What is inside is decided here by names, without the statements of the store that decide it in the service.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.document import RecordDocument, remove_record
from relaydeck.relayers import relayer_changes
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.check import SignerCheck, compared
from relaydeck.signers.check_results import keep
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from tests.support.places import choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.running import run_command
from tests.support.seeding import opened

KEY, ADDRESS = "0x" + "4c" * 32, "0xdB00079cad3e665853Bf766eFe26F4C38cdbdCDA"
TEAMS = "abcdefghij"
SHARED = "both"
THEN = 1_790_000_000  # when what is stored happened
LONG_AGO = 1_000_000_000
FORMER = ("new-1", "nobody")  # identifiers that another team had then
SCOPES = {
    "labels": Scope(labels={"team": "a"}),
    "relayers": Scope(relayers=("a-1", "a-4", "nobody")),
    "networks": Scope((), ("net-a", SHARED), {"team": "a"}),
}
RELAYERS = {f"{team}-{number}": team for number in range(1, 5) for team in TEAMS}  # the teams take turns
_KINDS = ("paused", "resumed", "disabled", "enabled", "low_balance", "runway_low")
_TABLES = ("relayers", "signers", "notifications", "networks")


def network_of(relayer: str) -> str:
    return SHARED if relayer.endswith("3") else f"net-{relayer[0]}"


def signer_of(relayer: str) -> str:
    return f"sign-{SHARED if relayer.endswith('4') else relayer[0]}"


def receiver_of(relayer: str) -> str:
    return f"hook-{SHARED if relayer.endswith('4') else relayer[0]}"


def document() -> str:
    parts = []
    for team in (*TEAMS, SHARED):
        network = SHARED if team == SHARED else f"net-{team}"
        labels = f'labels = {{ team = "{team}" }}\n'
        parts.append(
            f'[networks.{network}]\nnetwork_type = "evm"\nchain_id = 1\nnative_symbol = "ETH"\n'
            f'rpc_urls = [{{ url = "http://127.0.0.1:9/" }}]\n{labels}'
            f'[[signers]]\nid = "sign-{team}"\ntype = "plain"\nconfig = {{ key = "{KEY}" }}\n{labels}'
            f'[[notifications]]\nid = "hook-{team}"\ntype = "webhook"\nurl = "https://hook-{team}.example/"\n{labels}'
        )
    for name, team in RELAYERS.items():
        parts.append(
            f'[[relayers]]\nid = "{name}"\nname = "One of {team}"\nnetwork = "{network_of(name)}"\n'
            f'network_type = "evm"\nsigner_id = "{signer_of(name)}"\n'
            f'notification_id = "{receiver_of(name)}"\nlabels = {{ team = "{team}", env = "e{name[-1]}" }}\n'
        )
    return "\n".join(parts)


@contextmanager
def changing(store: Store, actor: str = "cli:tester", now: int = THEN) -> Iterator[ChangeContext]:
    with store.database.transaction() as transaction:
        yield ChangeContext(transaction, AuditLog(store.vault), actor, now)


def make_fleet(home: Path) -> None:
    done = run_command(home, "apply", "-", stdin=document(), rpc_guard="off")
    assert done.returncode == 0, done.stderr
    draw = random.Random(33)
    with opened(home) as store, changing(store) as context:
        for name in RELAYERS:
            _fill_relayer(context, name, draw)
        for team in (*TEAMS, SHARED):
            _fill_shared(context, team)
        _finish_deliveries(context.transaction, draw)
        for table in _TABLES:
            context.transaction.execute(f"UPDATE {table} SET created_at = :then", {"then": THEN})
    with opened(home) as store, changing(store, "token:b", LONG_AGO) as context:
        for name in FORMER:
            make_records(context, name, {"team": "b"})
            remove_records(context, name)
    with opened(home) as store, changing(store) as context:
        relayer_changes.set_paused(context, "a-1", paused=True)  # the newest event is inside of each scope


def make_records(context: ChangeContext, name: str, labels: dict[str, str]) -> None:
    """One of every kind, all with the same identifier, with events, deliveries and attempts."""
    named = {"id": name, "labels": labels}
    signer_changes.create(context, NewSigner(name, "plain", LocalConfig(Secret(KEY)), labels))
    relayer = {"name": "New", "network": name, "network_type": "evm", "signer_id": name, "notification_id": name}
    documents: dict[Resource, dict[str, Any]] = {
        "networks": {"network_type": "evm", "chain_id": 1, "native_symbol": "ETH", "labels": labels},
        "notifications": named | {"type": "webhook", "url": f"https://{name}.example/"},
        "relayers": named | relayer,
    }
    for resource, document in documents.items():
        RecordDocument(resource, name, document).write(context, KnownAddresses(frozenset()), is_new=True)
    relayer_changes.set_paused(context, name, paused=True)
    test = EventKind.NOTIFICATION_TEST
    events.record(context.transaction, test, {}, notification_id=name, now=context.now)
    without = "SELECT seq FROM deliveries WHERE seq NOT IN (SELECT delivery FROM attempts)"
    attempt = {"started_at": 1, "duration": 1, "status": 500, "problem": "", "answer": ""}
    for row in context.transaction.all(without):
        _insert(context.transaction, "attempts", [{"delivery": row.seq} | attempt])


def remove_records(context: ChangeContext, name: str) -> None:
    resources: tuple[Resource, ...] = ("relayers", "signers", "notifications", "networks")
    for resource in resources:
        remove_record(context, resource, name)


def _fill_relayer(context: ChangeContext, name: str, draw: random.Random) -> None:
    transaction = context.transaction
    for kind in draw.sample(_KINDS, 3):
        facts = {"relayer": {"id": name}, "details": {"balance": str(draw.randrange(10**6))}}
        events.record(
            transaction, EventKind(f"relayer.{kind}"), facts,
            notification_id=receiver_of(name), relayer_id=name, now=THEN,
        )  # fmt: skip
        context.changed(f"relayer.{kind}", name, {"paused": False}, {"paused": True})
    (row,) = transaction.all("SELECT seq FROM relayers WHERE id = :id", {"id": name})
    same = {"relayer_seq": row.seq, "balance": str(draw.randrange(10**18)), "spent": "5"}
    periods = [{"since": THEN + each, "until": THEN + each + 60} for each in range(0, 18_000, 3600)]
    _insert(transaction, "balances", [same | each for each in periods])
    if draw.random() < 0.6:
        low = draw.choice((None, THEN))
        forecast = {"computed_at": THEN, "minimum_at": THEN + draw.randrange(10**5), "low_since": low}
        _insert(transaction, "runways", [{"relayer_seq": row.seq, **forecast}])
    if draw.random() < 0.6:
        trouble: dict[str, Any] = {"failed_rounds": draw.randrange(3), "failing_since": THEN, "evidence": "[]"}
        trouble |= {"low_since": draw.choice((None, THEN)), "balance": "7", "checked_at": THEN}
        _insert(transaction, "troubles", [{"relayer_id": name, **trouble}])
    if draw.random() < 0.3:
        relayer_changes.set_paused(context, name, paused=name != "a-1")


def _fill_shared(context: ChangeContext, team: str) -> None:
    """What the signer and the receiver of a team have, and what is about the whole service."""
    keep_check(context.transaction, f"sign-{team}", [each for each in RELAYERS if signer_of(each) == f"sign-{team}"])
    for kind in (EventKind.NOTIFICATION_TEST, EventKind.CHANGE_PROPOSED, EventKind.DATABASE_CHANGED):
        facts = {"details": {"proposal_id": f"of {team}", "author": f"token:{team}", "problem": "restored"}}
        events.record(context.transaction, kind, facts, notification_id=f"hook-{team}", now=THEN)
    for action, record in (
        ("signer.mismatch", f"sign-{team}"),
        ("signer.mismatch", f"{team}-1"),  # a signer may have the name of a relayer
        ("notification.tested", f"hook-{team}"),
        ("change.proposed", f"{team}-1"),
        ("problem.acknowledged", f"{team}-1"),
        ("token.created", f"token of {team}"),
        ("deliveries.replayed", ""),
    ):
        context.performed(action, record, {"explanation": f"relayers of {team}", "count": 3})
    made = {"note": "", "made_by": f"token:{team}", "created_at": THEN}
    scope = msgspec.json.encode(Scope(labels={"team": team, "only": "theirs"})).decode()
    _insert(context.transaction, "protections", [{"name": team, "kinds": '["relayer"]', "scope": scope, **made}])
    proposal: dict[str, Any] = {"id": f"of {team}", "state": "open", "operation": "delete_relayer", "plan": "[]"}
    proposal |= {"protections": f'["{team}"]', "revision": "", "author": f"token:{team}", "reason": "", "decision": ""}
    _insert(context.transaction, "proposals", [proposal | {"created_at": THEN, "expires_at": 2 * THEN}])


def keep_check(transaction: Transaction, signer: str, relayers: list[str]) -> None:
    """The key of a shared signer has another address than the relayers that use it."""
    address = "0x" + "77" * 20 if signer == f"sign-{SHARED}" else ADDRESS
    check = SignerCheck(signer, THEN, 5, "ok", "", address)
    check = compared(check, dict.fromkeys(relayers, ADDRESS))
    keep(transaction, check, "" if check.outcome == "ok" else "mismatch")


def _insert(transaction: Transaction, table: str, rows: list[dict[str, Any]]) -> None:
    transaction.insert(table, tuple(rows[0]), [tuple(each.values()) for each in rows])


def _finish_deliveries(transaction: Transaction, draw: random.Random) -> None:
    for row in transaction.all("SELECT seq FROM deliveries ORDER BY seq"):
        state = draw.choice(("pending", "failed", "dead", "delivered"))
        if state == "pending":
            continue
        ends = {"state": "pending" if state == "failed" else state, "seq": row.seq, "tries": 2, "in_line": False}
        ends |= {"due": THEN * 1000 + row.seq if state == "failed" else None}
        ends |= {"finished": None if state == "failed" else THEN * 1000 + row.seq}
        transaction.execute(
            "UPDATE deliveries SET state = :state, tries = :tries, in_line = :in_line, due_at = :due,"
            " finished_at = :finished WHERE seq = :seq",
            ends,
        )
        _insert(transaction, "attempts", [
            {"delivery": row.seq, "started_at": THEN * 1000 + each, "duration": 3, "status": 500, "problem": "",
             "answer": f"no {row.seq}"} for each in range(2)
        ])  # fmt: skip


# -- what is inside -------------------------------------------------------------------------------


def inside_of(scope: Scope) -> dict[str, list[str]]:
    """The names of the records by table."""
    relayers = [
        name
        for name, team in RELAYERS.items()
        if (not scope.relayers or name in scope.relayers)
        and (not scope.networks or network_of(name) in scope.networks)
        and (not scope.labels or scope.labels == {"team": team})
    ]
    labelled = [scope.labels["team"]] if scope.labels else []
    return {
        "relayers": relayers,
        "signers": [f"sign-{each}" for each in labelled] + [signer_of(each) for each in relayers],
        "notifications": [f"hook-{each}" for each in labelled] + [receiver_of(each) for each in relayers],
        "networks": [f"net-{each}" for each in labelled] + [network_of(each) for each in relayers] + [*scope.networks],
    }


def _is_inside(inside: dict[str, list[str]], action: str, record: str) -> bool:
    """Whether an entry of the audit log is about something inside, and names nothing else."""
    users = {each for each in RELAYERS if signer_of(each) == record}
    names_others = action == "signer.mismatch" and not users <= {*inside["relayers"]}
    return record in inside.get(f"{action.partition('.')[0]}s", ()) and not names_others


def copy_of(home: Path, to: Path, server: PostgresServer | None) -> Path:
    """`server`: that of its database, unless the home contains it."""
    shutil.copytree(home, to)
    if server is not None:
        name = place_of(home).reveal().rpartition("/")[2]  # type: ignore[union-attr]
        choose(to, server.url(server.fresh(name)))
    return to


def remove_outside(home: Path, scope: Scope) -> None:
    """Leave what is inside of the scope, as it would be without the rest."""
    inside = inside_of(scope)
    with opened(home) as store, store.database.transaction() as transaction:
        for row in transaction.all("SELECT seq, kind, relayer_id, notification_id FROM events"):
            about = inside["notifications"] if row.relayer_id is None else inside["relayers"]
            name = row.notification_id if row.relayer_id is None else row.relayer_id
            if name not in about or row.kind.startswith("change."):
                transaction.execute("DELETE FROM events WHERE seq = :seq", {"seq": row.seq})
        (newest,) = transaction.all("SELECT max(seq) AS seq FROM audit")
        for row in transaction.all("SELECT seq, action, record FROM audit"):
            if not _is_inside(inside, row.action, row.record) and row.seq != newest.seq:
                transaction.execute("DELETE FROM audit WHERE seq = :seq", {"seq": row.seq})
        for table in _TABLES:
            identity = "name" if table == "networks" else "id"
            for row in transaction.all(f"SELECT seq, {identity} AS name FROM {table}"):
                if row.name not in inside[table]:
                    transaction.execute(f"DELETE FROM {table} WHERE seq = :seq", {"seq": row.seq})
        for table in ("proposals", "protections"):
            transaction.execute(f"DELETE FROM {table}")
        for signer in dict.fromkeys(inside["signers"]):
            keep_check(transaction, signer, [each for each in inside["relayers"] if signer_of(each) == signer])
