"""Proposals under faults: a change is made once or not at all, and the audit log is complete and verifies.

The faults: kill -9 before each call of the database in the transaction and after its end, approvals in several
processes at once, another change between the reading and the transaction of an approval, the end of the proposal's time
there, and its author.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest

from relaydeck.admin import api  # noqa: F401  # registers the handlers
from relaydeck.admin.handling import HANDLERS, OwnTransaction, Request
from relaydeck.admin.proposals import OPEN_SECONDS, make_or_propose
from relaydeck.api.operations import BY_NAME
from relaydeck.cli.home_target import HomeServices
from relaydeck.doctor.integrity import verify_audit
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Call
from relaydeck.settings.model import read_settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.postgres_connection import PostgresConnection
from relaydeck.store.vault import Vault
from tests.conftest import DEMO
from tests.support.places import ENGINES, choose
from tests.support.postgres import PostgresServer
from tests.support.running import eventually, run_command
from tests.support.seeding import opened

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

NOW = 1_800_000_000
LABELS = b'{"labels": {"team": "a"}}'
REASON = b'{"reason": "at night"}'
FILE = {
    "networks": {"new": {"network_type": "evm", "chain_id": 5, "native_symbol": "ETH"}},
    "signers": [{"id": "new", "type": "plain", "config": {"key": "0x" + "5e" * 32}}],
    "notifications": [{"id": "new", "type": "webhook", "url": "https://new.example/"}],
    "relayers": [{"id": "new", "name": "New", "network": "new", "network_type": "evm", "signer_id": "new"}],
}
ASKED = {
    "update_signer": ("ops", LABELS),
    "apply": ("", msgspec.json.encode({"document": FILE})),
}
CHANGED = {
    "update_signer": ["signer.updated"],
    "apply": ["network.created", "signer.created", "notification.created", "relayer.created"],
}
_JSON = {b"content-type": b"application/json"}
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


class Place(NamedTuple):
    """A home, and where its data lies unless in the home."""

    home: Path
    url: str = ""

    def open(self) -> Any:
        if self.url:
            choose(self.home, DatabaseUrl(self.url))
        return opened(self.home)


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    home, url = tmp_path / "home", ""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.fresh()).reveal()
        choose(home, DatabaseUrl(url))
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    assert run_command(home, "protection", "create", "main").returncode == 0
    yield Place(home, url)


def run(
    place: Place,
    name: str,
    identifier: str,
    body: bytes,
    actor: str,
    *,
    now: int = NOW,
    between: Callable[[], Awaitable[None]] | None = None,
    last: int = 0,
) -> None:
    """Run an operation as a worker does. Killed at call number `last` of the database in its transaction; 0: never.

    `between`: after the handler has read, before the transaction.
    """
    with place.open() as store:
        call = Call(identifier, _JSON, body, b"", None)
        asyncio.run(_run(store, name, call, ActingThen(store, actor, now, between, last)))


class ActingThen(NamedTuple):
    store: Store
    actor: str
    now: int
    between: Callable[[], Awaitable[None]] | None = None
    last: int = 0

    def context_of(self, transaction: Transaction, vault: Vault | None = None) -> ChangeContext:
        if self.last:
            sys.setprofile(_killing(self.last))
        return ChangeContext(transaction, AuditLog(vault or self.store.vault), self.actor, self.now)


async def _run(store: Store, name: str, call: Call, acting: ActingThen) -> None:
    operation, services = BY_NAME[name], HomeServices(read_settings({}), store)
    services.local_actor = ""
    outcome: Any = await HANDLERS[name](services, Request(call, operation))
    if acting.between is not None:
        await acting.between()
    try:
        if isinstance(outcome, OwnTransaction):

            def work(transaction: Transaction, vault: Vault) -> Any:
                return make_or_propose(acting.context_of(transaction, vault), operation, call, outcome.change)

            await outcome.transact(work)
        else:
            with store.database.transaction() as transaction:
                make_or_propose(acting.context_of(transaction), operation, call, outcome)
    finally:
        await services.close()


_POSTGRES = {
    each.__code__ for each in (PostgresConnection.execute, psycopg.Cursor.executemany, PostgresConnection.close)
}


def _killing(last: int) -> Callable[[FrameType, str, Any], None]:
    numbers = count(1)

    def look(frame: FrameType, event: str, called: Any) -> None:
        calls_sqlite = event == "c_call" and isinstance(getattr(called, "__self__", None), sqlite3.Connection)
        calls_postgres = event == "call" and frame.f_code in _POSTGRES
        if (calls_sqlite or calls_postgres) and next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return look


def was_killed(work: Callable[..., None], last: int) -> bool:
    process = _PROCESSES.Process(target=work, kwargs={"last": last})
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def stored(place: Place) -> tuple[list[str], list[str], list[str]]:
    """What was changed, the state of each proposal, and what the audit log says was done. It verifies."""
    with place.open() as store:
        if place.url:  # the server may not know yet that the process is gone
            eventually(lambda: store.database.read(_OTHERS)[0].total == 0)
        read = store.database.read
        with store.database.snapshot():
            assert verify_audit(store.database, store.vault, None).problem is None
        labelled = [f"{row.id} {row.labels}" for row in read("SELECT id, labels FROM signers ORDER BY seq")]
        named = read("SELECT id FROM relayers UNION SELECT name AS id FROM networks ORDER BY 1")
        named += read("SELECT id FROM notifications ORDER BY seq")
        actions = [row.action for row in read("SELECT action FROM audit ORDER BY seq")]
        return (
            [*labelled, *(row.id for row in named)],
            [row.state for row in read("SELECT state FROM proposals ORDER BY created_at, id")],
            actions[actions.index("protection.created") + 1 :],
        )


_OTHERS = (
    "SELECT count(*) AS total FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
)
BEFORE = ["ops None", "sepolia", "sepolia-1", "pager"]
AFTER = {
    "update_signer": ['ops {"team":"a"}', *BEFORE[1:]],
    "apply": ["ops None", "new None", "new", "sepolia", "sepolia-1", "pager", "new"],
}


def propose(place: Place, kind: str) -> str:
    """The proposal of that change, by `token:author`."""
    run(place, kind, *ASKED[kind], "token:author")
    with place.open() as store:
        found: str = store.database.read("SELECT id FROM proposals ORDER BY created_at DESC, id DESC")[0].id
    return found


@pytest.mark.parametrize(
    ("kind", "decision"),
    [("update_signer", each) for each in ("propose", "approve", "force")] + [("apply", "approve")],
)
def test_a_change_that_needs_approval_is_made_once_or_not_at_all(place: Place, kind: str, decision: str) -> None:
    """With kill -9 before each call of the database, and after the end of the transaction."""
    work, done = partial(run, place, kind, *ASKED[kind], "token:author"), (BEFORE, ["open"], ["change.proposed"])
    if decision != "propose":
        body, actor = (b"", "token:other") if decision == "approve" else (REASON, "token:author")
        work = partial(run, place, f"{decision}_proposal", propose(place, kind), body, actor)
        state = {"approve": "applied", "force": "forced"}[decision]
        done = (AFTER[kind], [state], ["change.proposed", f"change.{state}", *CHANGED[kind]])
    before = stored(place)
    for last in count(1):
        if not was_killed(work, last):
            break
        found = stored(place)
        assert found in (before, done), last
        if found == done:  # killed after the commit
            break
    print(f"{last - 1} kills")
    assert (stored(place), last > 10) == (done, True)


def decide(place: Place, proposal: str, actor: str, together: Any) -> None:
    together.wait(60)
    try:
        run(place, "approve_proposal", proposal, b"", actor)
    except RequestError as refusal:
        sys.exit(refusal.status)


@pytest.mark.parametrize("kind", ASKED)
def test_of_several_approvals_at_once_one_is_applied(place: Place, kind: str) -> None:
    """In processes of their own, as replicas are."""
    proposal, together = propose(place, kind), _PROCESSES.Barrier(4)
    processes = [
        _PROCESSES.Process(target=decide, args=(place, proposal, f"token:other {number}", together))
        for number in range(4)
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join(120)
    # sys.exit keeps the lowest byte.
    assert sorted(each.exitcode or 0 for each in processes) == [0, *[409 & 0xFF] * 3]
    assert stored(place) == (AFTER[kind], ["applied"], ["change.proposed", "change.applied", *CHANGED[kind]])


@pytest.mark.parametrize("kind", ASKED)
def test_what_refuses_an_approval_leaves_all_as_it_was(place: Place, kind: str) -> None:
    """The author, whoever is late, and whoever read before another changed the same."""
    proposal = propose(place, kind)
    approve = partial(run, place, "approve_proposal", proposal, b"")
    before = stored(place)
    assert refused(partial(approve, "token:author")) == 403
    assert refused(partial(approve, "token:other", now=NOW + OPEN_SECONDS)) == 409
    assert stored(place) == before
    body = b'{"labels": {"team": "b"}}' if kind == "update_signer" else NEW_NETWORK

    async def another() -> None:
        with place.open() as store:
            with store.database.transaction() as transaction:
                transaction.execute("DELETE FROM protections")
            name, call = "create_network", Call("", _JSON, body, b"", None)
            if kind == "update_signer":
                name, call = kind, Call("ops", _JSON, body, b"", None)
            await _run(store, name, call, ActingThen(store, "token:third", NOW))

    assert refused(partial(approve, "token:other", between=another)) == 412
    records, states, actions = stored(place)
    expected = BEFORE[1:] if kind == "update_signer" else ["new", *BEFORE[1:]]
    assert (records[1:], states) == (expected, ["open"])
    changed = "signer.updated" if kind == "update_signer" else "network.created"
    assert actions == ["change.proposed", changed]
    assert refused(partial(approve, "token:other")) == 412


NEW_NETWORK = b'{"name": "new", "network_type": "evm", "chain_id": 6, "native_symbol": "X"}'


def refused(work: Callable[[], None]) -> int:
    with pytest.raises(RequestError) as refusal:
        work()
    return refusal.value.status
