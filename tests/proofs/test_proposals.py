"""kill -9 at every statement of a change that needs approval: it is made once or not at all, as the audit log says."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from relaydeck.admin import api  # noqa: F401  # registers the handlers
from relaydeck.admin.handling import HANDLERS, Request
from relaydeck.admin.proposals import make_or_propose
from relaydeck.api.operations import BY_NAME
from relaydeck.doctor.integrity import verify_audit
from relaydeck.http.pipeline import Call
from relaydeck.provisioning.planner import NO_RULES
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from relaydeck.store.sqlite import SqliteDatabase
from tests.conftest import DEMO
from tests.support.running import run_command
from tests.support.seeding import opened

pytestmark = pytest.mark.prove

LABELS = b'{"labels": {"team": "a"}}'
REASON = b'{"reason": "at night"}'
_JSON = {b"content-type": b"application/json"}


class _Services:
    local_actor, urls = "", NO_RULES

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, work: Callable[[Store], Any]) -> Any:
        with self._store.database.snapshot():
            return work(self._store)


def run(home: Path, name: str, identifier: str, body: bytes, actor: str, last: int = 0) -> None:
    """Run an operation as a worker does. Killed at statement number `last` of its transaction; 0: never."""
    with opened(home) as store:
        assert isinstance(store.database, SqliteDatabase)
        operation, numbers = BY_NAME[name], count(1)

        def traced(_sql: str) -> None:
            if next(numbers) == last:
                os.kill(os.getpid(), signal.SIGKILL)

        call = Call(identifier, _JSON, body, b"", None)
        change: Any = asyncio.run(HANDLERS[name](_Services(store), Request(call, operation)))  # type: ignore[arg-type]
        store.database.writer.set_trace_callback(traced)
        with store.database.transaction() as transaction:
            context = ChangeContext(transaction, AuditLog(store.vault), actor, int(time.time()))
            make_or_propose(context, operation, call, change)


def was_killed(work: Callable[..., None], last: int) -> bool:
    process = get_context("spawn").Process(target=work, kwargs={"last": last})
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def stored(home: Path) -> tuple[bool, list[str], list[str]]:
    """Whether the signer has the labels, the state of each proposal, and what the audit log says was done."""
    with opened(home) as store:
        read = store.database.read
        assert verify_audit(store.database, store.vault, None).problem is None
        actions = "SELECT action FROM audit WHERE action LIKE 'change.%' OR action = 'signer.updated' ORDER BY seq"
        return (
            read("SELECT labels FROM signers")[0].labels is not None,
            [row.state for row in read("SELECT state FROM proposals")],
            [row.action for row in read(actions)],
        )


@pytest.mark.parametrize("decision", ["propose", "approve", "force"])
def test_a_change_that_needs_two_is_made_once_or_not_at_all(home: Path, decision: str) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    assert run_command(home, "protection", "create", "main").returncode == 0
    propose = partial(run, home, "update_signer", "ops", LABELS, "token:author")
    work, done = propose, (False, ["open"], ["change.proposed"])
    if decision != "propose":
        propose()
        with opened(home) as store:
            proposal = store.database.read("SELECT id FROM proposals")[0].id
        body, actor = (b"", "token:other") if decision == "approve" else (REASON, "token:author")
        work = partial(run, home, f"{decision}_proposal", proposal, body, actor)
        state = {"approve": "applied", "force": "forced"}[decision]
        done = (True, [state], ["change.proposed", f"change.{state}", "signer.updated"])
    before = stored(home)
    for last in count(1):
        if not was_killed(work, last):
            break
        found = stored(home)
        assert found in (before, done), last
        if found == done:  # killed after the commit
            return
    assert (stored(home), last > 10) == (done, True)
