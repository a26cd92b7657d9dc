"""An apply of so many relayers that it writes them before the lock for which others wait, or from staged rows."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import NotPossible, StoreConflict
from relaydeck.provisioning import prepared_plan as prepared_plan_module
from relaydeck.provisioning import stored as stored_module
from relaydeck.provisioning.apply import apply_prepared
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.prepared_plan import PreparedPlan
from relaydeck.provisioning.references import Resolver
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows, Transaction
from tests.places import ENGINES, place_of
from tests.provisioning.conftest import NETWORK, NOTIFICATION, RELAYER, SIGNER, ProvisionedHome
from tests.provisioning.killed_apply import LARGE, POINTS
from tests.provisioning.test_beside_other_writes import Others, applies, verified

HEAD = NETWORK + SIGNER + NOTIFICATION
ENTRIES = "SELECT moment, actor, action, record, before_change, after_change, origin FROM audit ORDER BY seq"


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_plan_module, "LARGE", LARGE)


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


def prepared_plan(home: ProvisionedHome, text: str, *, prune: bool = False) -> PreparedPlan:
    planner = FilePlanner(read_file(text.encode(), Resolver({}, home.folder)), prune)
    database, vault = home.store
    with database.snapshot():
        plan = planner.plan(database.read, vault, KnownAddresses())
        return PreparedPlan(planner, plan, database.read, vault)


def context_of(home: ProvisionedHome) -> Callable[[Transaction], ChangeContext]:
    return lambda transaction: ChangeContext(transaction, AuditLog(home.store.vault), "apply", 1_800_000_000)


def test_a_large_apply_writes_what_small_ones_write(
    home: ProvisionedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creations, then changes and removals together with the removal of a record that relayers referred to."""
    small = ProvisionedHome(tmp_path / "small")
    with closing(small.store):
        for first in range(0, 2 * LARGE, LARGE // 2):
            small.apply(HEAD + relayers(LARGE // 2, first))
        home.apply(HEAD + relayers(2 * LARGE))
        assert home.state() == small.state()

        rest = (NETWORK + SIGNER + relayers(LARGE)).replace("= 100", "= 200").replace('notification_id = "pager"\n', "")
        for part in (relayers(LARGE // 2), relayers(LARGE // 2, LARGE // 2)):
            small.apply((HEAD + part).replace("= 100", "= 200").replace('notification_id = "pager"\n', ""))
        monkeypatch.setattr(prepared_plan_module, "LARGE", 2 * LARGE)
        small.apply(rest, prune=True)
        monkeypatch.setattr(prepared_plan_module, "LARGE", LARGE)
        home.apply(rest, prune=True)
        assert home.state() == small.state()
        assert sorted(map(str, home.rows(ENTRIES))) == sorted(map(str, small.rows(ENTRIES)))
    assert home.rows("SELECT count(*) FROM removals WHERE resource = 'relayers'") == [(LARGE,)]
    newest = "SELECT count(*) FROM relayers WHERE revision = (SELECT revision FROM clock)"
    assert home.rows(newest) == [(LARGE,)]


@pytest.mark.parametrize("prune", [False, True])
def test_others_write_while_a_large_apply_is_prepared(home: ProvisionedHome, *, prune: bool) -> None:
    def create(other: ProvisionedHome) -> None:
        with other.store.database.transaction() as transaction:
            signer_changes.create(
                context_of(other)(transaction), NewSigner("other", "plain", LocalConfig(Secret("11" * 32)))
            )

    others = Others(home, create)
    plan = home.apply(HEAD + relayers(LARGE), prune=prune, progress=others.progress)
    assert (len(plan.steps), others.prepared) == (LARGE + 3, 1)
    assert home.rows("SELECT id FROM signers ORDER BY seq") == [("other",), ("ops",)]


def test_a_relayer_of_a_large_file_that_somebody_creates_meanwhile(home: ProvisionedHome) -> None:
    others = Others(home, applies(HEAD + relayers(1).replace("= 100", "= 7")))
    plan = home.apply(HEAD + relayers(LARGE + 1), progress=others.progress)
    assert (others.prepared, len(plan.steps)) == (2, LARGE + 1)


def test_a_large_apply_that_others_keep_overtaking_is_refused(home: ProvisionedHome) -> None:
    """A small one would be planned while the others wait."""
    home.apply(HEAD + relayers(1))
    others = Others(home, *(applies(HEAD + relayers(1).replace("= 100", f"= {cap}")) for cap in (1, 2, 3)))
    with pytest.raises(NotPossible, match="others keep changing the same records: nothing was changed"):
        home.apply(HEAD + relayers(LARGE + 1), progress=others.progress)
    assert (others.prepared, home.rows("SELECT id FROM relayers")) == (3, [("0",)])


def test_a_large_apply_that_ends_at_any_point_leaves_nothing(home: ProvisionedHome) -> None:
    home.apply(HEAD)
    before, revision = home.rows(ENTRIES), home.revision
    prepared = prepared_plan(home, HEAD + relayers(LARGE))
    with pytest.raises(KeyboardInterrupt), prepared.transaction(home.store.database, context_of(home)) as transaction:
        prepared.write(context_of(home)(transaction))
        with closing(ProvisionedHome(home.folder).store) as other:
            assert other.database.read("SELECT count(*) FROM relayers") == [(0,)]
        raise KeyboardInterrupt
    assert (home.rows(ENTRIES), home.revision, home.rows("SELECT count(*) FROM relayers")) == (before, revision, [(0,)])
    home.apply(HEAD + relayers(LARGE))
    assert home.rows("SELECT count(*) FROM relayers") == [(LARGE,)]


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_is_killed_in_a_large_apply_leaves_nothing(home: ProvisionedHome, point: str) -> None:
    home.apply(HEAD)
    before, revision, where = home.rows(ENTRIES), home.revision, place_of(home.folder)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.provisioning.killed_apply", home.folder, point],
        input=(HEAD + relayers(LARGE)).encode(),
        env=os.environ | ({"DATABASE": where.reveal()} if isinstance(where, DatabaseUrl) else {}),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (home.rows(ENTRIES), home.revision, home.rows("SELECT count(*) FROM relayers")) == (before, revision, [(0,)])
    home.apply(HEAD + relayers(LARGE))
    assert home.rows("SELECT count(*) FROM relayers") == [(LARGE,)]


def test_a_large_plan_that_is_no_longer_valid_is_not_applied(home: ProvisionedHome) -> None:
    home.apply(HEAD)
    prepared = prepared_plan(home, HEAD + relayers(LARGE))
    other = ProvisionedHome(home.folder)
    with closing(other.store):
        other.apply(HEAD + relayers(1).replace("= 100", "= 7"))
    # PostgreSQL refuses the row that is there already; SQLite would refuse it later, so the plan is judged first.
    try:
        with prepared.transaction(home.store.database, context_of(home)) as transaction:
            assert not prepared.is_valid(transaction)
            raise StoreConflict("as the apply does")
    except StoreConflict:
        assert home.rows("SELECT count(*) FROM relayers") == [(1,)]


def test_a_work_that_does_not_need_a_large_plan_leaves_nothing_of_it(home: ProvisionedHome) -> None:
    """A repeated request gets its first answer: what was written early is rolled back."""
    home.apply(HEAD)
    before, database = home.rows(ENTRIES), home.store.database
    revisions = list[int]()

    def repeat(_prepared: PreparedPlan, context: ChangeContext) -> str:
        revisions.append(context.transaction.revision)
        return "the first answer"

    def prepare(read: ReadRows) -> PreparedPlan:
        planner = FilePlanner(read_file((HEAD + relayers(LARGE)).encode(), Resolver({}, home.folder)), False)
        vault = home.store.vault
        return PreparedPlan(planner, planner.plan(read, vault, KnownAddresses()), read, vault)

    assert apply_prepared(database, prepare, context_of(home), repeat) == "the first answer"
    assert (home.rows(ENTRIES), home.rows("SELECT count(*) FROM relayers")) == (before, [(0,)])
    assert revisions[-1] == home.revision  # it is one that readers can wait for


def test_the_last_attempt_removes_relayers_while_others_wait(home: ProvisionedHome) -> None:
    """Otherwise a monitor that writes about one of them all the time would prevent it."""
    home.apply(HEAD + relayers(LARGE))
    prepared = prepared_plan(home, HEAD, prune=True)
    prepared.removes_early = False
    with prepared.transaction(home.store.database, context_of(home)) as transaction:
        assert transaction.all("SELECT count(*) AS number FROM relayers")[0].number == LARGE
        prepared.write(context_of(home)(transaction))
    assert home.rows("SELECT count(*) FROM relayers") == [(0,)]
    assert home.rows("SELECT count(*) FROM removals WHERE resource = 'relayers'") == [(LARGE,)]


def test_relayers_of_the_same_names_are_found_among_many(
    home: ProvisionedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_module, "_NAMES_AT_ONCE", 3)
    named = "".join(RELAYER.replace('"one"', f'"{each}"').replace('"One"', f'"Name {each}"') for each in range(8))
    home.apply(HEAD + named)
    home.write("UPDATE relayers SET origin = 'admin'")
    plan = home.plan(HEAD + re.sub(r'id = "\d"\n', "", named))
    assert [note.partition("created: ")[2][:2] for note in plan.notes] == [f"{each}." for each in range(8)]
