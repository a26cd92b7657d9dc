"""An apply of many records: it writes what single changes write, all of it or nothing, and does not hold up others."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.provisioning import stored as stored_module
from relaydeck.provisioning.apply import Apply, take_step
from relaydeck.provisioning.references import Resolver
from relaydeck.secret import Secret
from relaydeck.settings.values import DatabaseUrl
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from tests.provisioning.conftest import NETWORK, NOTIFICATION, RELAYER, SIGNER, ProvisionedHome
from tests.provisioning.killed_apply import POINTS
from tests.provisioning.test_beside_other_writes import Others, applies, verified
from tests.support.declared import read_file
from tests.support.places import ENGINES, place_of

HEAD = NETWORK + SIGNER + NOTIFICATION
ENTRIES = "SELECT moment, actor, action, record, before_change, after_change, origin FROM audit ORDER BY seq"
PREVIOUS_KEYS = "SELECT id, sealed_previous_key IS NULL FROM notifications ORDER BY seq"
REMOVALS = "SELECT resource, seq FROM removals ORDER BY resource, seq"


COUNT = 300


def relayers(count: int, first: int = 0) -> str:
    return "".join(RELAYER.replace('"one"', f'"{number}"') for number in range(first, first + count))


@pytest.fixture(params=ENGINES)
def home(
    request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]
) -> Iterator[ProvisionedHome]:
    home = ProvisionedHome(lend(tmp_path / "home", request.param))
    with closing(home.store):
        yield home
        verified(home)


def context_of(home: ProvisionedHome) -> Callable[[Transaction], ChangeContext]:
    return lambda transaction: ChangeContext(transaction, AuditLog(home.store.vault), "apply", 1_800_000_000)


def take_single_steps(home: ProvisionedHome, text: str, *, prune: bool = False) -> None:
    """As the admin API makes changes: each by itself."""
    for step in home.plan(text, prune=prune).steps:
        with home.store.database.transaction() as transaction:
            take_step(step, context_of(home)(transaction)._replace(origin="apply"))


def test_an_apply_writes_what_single_changes_write(home: ProvisionedHome, tmp_path: Path) -> None:
    """Every kind of step of every resource."""
    single = ProvisionedHome(tmp_path / "single")
    rotated = NOTIFICATION.replace("a-signing-key", "another-key")
    other = NOTIFICATION.replace("pager", "other").replace("signing_key", "# ")
    without = (NETWORK.replace("node-key", "new-key") + SIGNER + rotated + relayers(COUNT)).replace("= 100", "= 200")
    states = [
        (HEAD + other + SIGNER.replace('"ops"', '"spare"') + relayers(2 * COUNT), False),
        (without.replace('notification_id = "pager"\n', ""), True),
        (NETWORK + SIGNER, True),
        ("", True),
    ]
    with closing(single.store):
        for text, prune in states:
            take_single_steps(single, text, prune=prune)
            home.apply(text, prune=prune)
            assert home.state() == single.state()
            assert home.rows(ENTRIES) == single.rows(ENTRIES)
            assert home.rows(PREVIOUS_KEYS) == single.rows(PREVIOUS_KEYS)
            assert home.rows(REMOVALS) == single.rows(REMOVALS)
            newest = "SELECT count(*) FROM relayers WHERE revision = (SELECT revision FROM clock)"
            assert home.rows(newest) == home.rows("SELECT count(*) FROM relayers")


@pytest.mark.parametrize("prune", [False, True])
def test_others_write_while_an_apply_is_prepared(home: ProvisionedHome, *, prune: bool) -> None:
    def create(other: ProvisionedHome) -> None:
        with other.store.database.transaction() as transaction:
            signer_changes.create(
                context_of(other)(transaction), NewSigner("other", "plain", LocalConfig(Secret("11" * 32)))
            )

    others = Others(home, create)
    plan = home.apply(HEAD + relayers(COUNT), prune=prune, progress=others.progress)
    assert (len(plan.steps), others.prepared) == (COUNT + 3, 1)
    assert home.rows("SELECT id FROM signers ORDER BY seq") == [("other",), ("ops",)]


def test_a_relayer_of_many_that_somebody_creates_meanwhile(home: ProvisionedHome) -> None:
    others = Others(home, applies(HEAD + relayers(1).replace("= 100", "= 7")))
    plan = home.apply(HEAD + relayers(COUNT + 1), progress=others.progress)
    assert (others.prepared, len(plan.steps)) == (2, COUNT + 1)


def apply_of(home: ProvisionedHome, text: str) -> Apply:
    return Apply(home.store, read_file(text.encode(), Resolver({}, home.folder)), False)


def test_an_apply_that_ends_at_any_point_leaves_nothing(home: ProvisionedHome) -> None:
    home.apply(HEAD)
    before, revision = home.rows(ENTRIES), home.revision
    apply = apply_of(home, HEAD + relayers(COUNT))

    def interrupt(transaction: Transaction) -> None:
        apply.write(context_of(home)(transaction))
        with closing(ProvisionedHome(home.folder).store) as other:
            assert other.database.read("SELECT count(*) FROM relayers") == [(0,)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply.run(interrupt)
    assert (home.rows(ENTRIES), home.revision, home.rows("SELECT count(*) FROM relayers")) == (before, revision, [(0,)])
    home.apply(HEAD + relayers(COUNT))
    assert home.rows("SELECT count(*) FROM relayers") == [(COUNT,)]


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_is_killed_in_an_apply_leaves_nothing(home: ProvisionedHome, point: str) -> None:
    home.apply(HEAD)
    before, revision, where = home.rows(ENTRIES), home.revision, place_of(home.folder)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.provisioning.killed_apply", home.folder, point],
        input=(HEAD + relayers(COUNT)).encode(),
        env=os.environ | ({"DATABASE": where.reveal()} if isinstance(where, DatabaseUrl) else {}),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (home.rows(ENTRIES), home.revision, home.rows("SELECT count(*) FROM relayers")) == (before, revision, [(0,)])
    home.apply(HEAD + relayers(COUNT))
    assert home.rows("SELECT count(*) FROM relayers") == [(COUNT,)]


def test_a_work_that_does_not_write_the_plan_leaves_nothing_of_it(home: ProvisionedHome) -> None:
    """A repeated request gets its first answer."""
    home.apply(HEAD)
    before = home.rows(ENTRIES)
    apply = apply_of(home, HEAD + relayers(COUNT))
    assert apply.run(lambda transaction: transaction.revision) == home.revision
    assert (home.rows(ENTRIES), home.rows("SELECT count(*) FROM relayers")) == (before, [(0,)])


def test_temporary_tables_are_gone_after_an_apply(home: ProvisionedHome) -> None:
    apply, database = apply_of(home, HEAD), home.store.database
    tables = "pg_class WHERE relpersistence = 't'" if database.remote else "sqlite_temp_master"
    count = f"SELECT count(*) AS found FROM {tables}"
    assert apply.run(lambda transaction: transaction.all(count)[0].found) > 0
    with database.transaction() as transaction:
        assert transaction.all(count)[0].found == 0


def test_relayers_of_the_same_names_are_found_among_many(
    home: ProvisionedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_module, "_NAMES_AT_ONCE", 3)
    named = "".join(RELAYER.replace('"one"', f'"{each}"').replace('"One"', f'"Name {each}"') for each in range(8))
    home.apply(HEAD + named)
    home.write("UPDATE relayers SET origin = 'admin'")
    plan = home.plan(HEAD + re.sub(r'id = "\d"\n', "", named))
    assert [note.partition("created: ")[2][:2] for note in plan.notes] == [f"{each}." for each in range(8)]
