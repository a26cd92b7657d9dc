"""Others write while an apply is prepared: they do not wait for it, and what they change is noticed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.errors import NotPossible
from relaydeck.notifications.model import EventKind
from relaydeck.provisioning.apply import Apply, Outdated
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.references import Resolver
from relaydeck.relayers import relayer_changes
from relaydeck.store import audit
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealed_columns import check_all
from relaydeck.store.sealing import sealing_key_of
from tests.provisioning.conftest import NETWORK, NOTIFICATION, RELAYER, SIGNER, WHOLE, ProvisionedHome, lines
from tests.support.declared import read_file

OTHER_SIGNER = SIGNER.replace('"ops"', '"other"')
OTHER_NETWORK = NETWORK.replace("sepolia", "holesky")
COUNT = 300  # more than are written one by one
MANY = "".join(RELAYER.replace('"one"', f'"{number}"') for number in range(COUNT))


class Others:
    """Another process on the same database, which acts each time that an apply has prepared its first step."""

    def __init__(self, home: ProvisionedHome, *acts: Callable[[ProvisionedHome], object]) -> None:
        self._home = home
        self._acts = list(acts)
        self.prepared = 0  # how often the apply was prepared

    def progress(self, steps: list[Step]) -> Iterable[Step]:
        self.prepared += 1
        for number, step in enumerate(steps):
            if number == 1 and self._acts:
                with closing((other := ProvisionedHome(self._home.folder)).store):
                    self._acts.pop(0)(other)
            yield step


def applies(text: str, *, prune: bool = False) -> Callable[[ProvisionedHome], object]:
    return lambda other: other.apply(text, prune=prune)


def verified(home: ProvisionedHome) -> None:
    """The audit log is whole, and every sealed value opens and is the newest one."""
    database = home.store.database
    with database.snapshot():
        assert isinstance(audit.verify(database.stream, home.store.vault), audit.Head)
        assert [problem for problem in check_all(database, home.store.vault) if problem] == []


@pytest.fixture(autouse=True)
def sound(provisioned: ProvisionedHome) -> Iterator[None]:
    yield
    verified(provisioned)


def test_apply_of_many_relayers_does_not_stop_other_writes_while_it_is_prepared(provisioned: ProvisionedHome) -> None:
    others = Others(provisioned, applies(OTHER_SIGNER))
    plan = provisioned.apply(NETWORK + SIGNER + NOTIFICATION + MANY, progress=others.progress)
    assert (len(plan.steps), others.prepared) == (COUNT + 3, 1)
    assert provisioned.rows("SELECT id FROM signers ORDER BY seq") == [("other",), ("ops",)]
    assert provisioned.rows("SELECT count(*) FROM relayers") == [(COUNT,)]


def test_many_changes_and_removals_are_made_like_single_ones(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE + MANY)
    plan = provisioned.apply(NETWORK + SIGNER + NOTIFICATION + MANY.replace("= 100", "= 200"), prune=True)
    assert [line.partition(" ")[0] for line in lines(plan.steps)] == ["Change"] * COUNT + ["Remove"]
    entries = "SELECT action, record, before_change, after_change FROM audit ORDER BY seq DESC LIMIT 2"
    removed, changed = provisioned.rows(entries)
    assert removed[:2] + removed[3:] == ("relayer.deleted", "one", None)
    assert changed == (
        "relayer.updated",
        f"{COUNT - 1}",
        '{"policies.gas_price_cap":100}',
        '{"policies.gas_price_cap":200}',
    )
    assert provisioned.rows("SELECT count(*) FROM relayers WHERE revision = (SELECT revision FROM clock)") == [(COUNT,)]
    assert provisioned.rows("SELECT count(*) FROM removals") == [(1,)]


def test_a_record_of_the_file_that_somebody_creates_meanwhile(provisioned: ProvisionedHome) -> None:
    others = Others(provisioned, applies(WHOLE.replace('name = "One"', 'name = "Uno"')))
    plan = provisioned.apply(WHOLE, progress=others.progress)
    assert lines(plan.steps) == ["Change relayers one | name: Uno -> One"]
    assert others.prepared == 2


def test_a_record_that_somebody_removes_meanwhile_is_created_again(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    changed = WHOLE.replace("= 100", "= 200").replace("hooks.example", "other.example")
    others = Others(provisioned, applies(NETWORK + SIGNER + NOTIFICATION, prune=True))
    plan = provisioned.apply(changed, progress=others.progress)
    assert [line.split(" |")[0] for line in lines(plan.steps)] == ["Change notifications pager", "Create relayers one"]


def test_a_record_that_a_relayer_refers_to_is_removed_meanwhile(provisioned: ProvisionedHome) -> None:
    provisioned.apply(NETWORK + SIGNER + NOTIFICATION)
    two = RELAYER + RELAYER.replace('"one"', '"two"')
    others = Others(provisioned, applies(NETWORK + SIGNER, prune=True))
    assert provisioned.mistakes_of(lambda: provisioned.apply(two, progress=others.progress)) == [
        "relayers[0].notification_id: there is no such notification, in this file or stored",
        "relayers[1].notification_id: there is no such notification, in this file or stored",
    ]
    assert provisioned.rows("SELECT id FROM relayers") == []


def test_a_record_that_another_apply_adds_meanwhile_is_pruned_too(provisioned: ProvisionedHome) -> None:
    others = Others(provisioned, applies(OTHER_NETWORK))
    plan = provisioned.apply(WHOLE, prune=True, progress=others.progress)
    assert [line for line in lines(plan.steps) if line.startswith("Remove")] == ["Remove networks holesky"]


def test_a_relayer_without_an_id_that_another_apply_creates_meanwhile(provisioned: ProvisionedHome) -> None:
    nameless = WHOLE.replace('id = "one"\n', "")
    plan = provisioned.apply(nameless, progress=Others(provisioned, applies(nameless)).progress)
    assert plan.steps == []
    assert provisioned.rows("SELECT count(*) FROM relayers") == [(1,)]


def test_records_that_others_change_four_times(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    acts = [applies(WHOLE.replace("= 100", f"= {cap}")) for cap in range(4)]
    others = Others(provisioned, *acts)
    both = WHOLE.replace("hooks.example", "other.example").replace("= 100", "= 4")
    plan = provisioned.apply(both, progress=others.progress)
    assert lines(plan.steps)[-1] == "Change relayers one | policies.gas_price_cap: 3 -> 4"
    assert others.prepared == 5


def test_records_that_others_change_again_and_again(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    others = Others(provisioned, *(applies(WHOLE.replace("= 100", f"= {cap}")) for cap in range(5)))
    both = WHOLE.replace("hooks.example", "other.example").replace("= 100", "= 4")
    with pytest.raises(NotPossible, match="others keep changing the same records: nothing was changed"):
        provisioned.apply(both, progress=others.progress)
    assert (others.prepared, provisioned.plan(WHOLE.replace("= 100", "= 4")).steps) == (5, [])


def test_the_data_key_is_rotated_meanwhile(provisioned: ProvisionedHome) -> None:
    def rotate(other: ProvisionedHome) -> None:
        with other.store.database.transaction() as transaction:
            other.store.vault.add_data_key(transaction, 0)

    provisioned.apply(WHOLE, progress=Others(provisioned, rotate).progress)
    sealed = [provisioned.rows(f"SELECT sealed_rpc_urls FROM {table}")[0][0] for table in ("networks", "relayers")]
    assert [sealing_key_of(bytes(each)) for each in sealed] == [2, 2]


@pytest.mark.parametrize("kind", ["in the file", "pruned", "without an id"])
def test_reports_of_the_monitor_change_no_record_of_a_plan(provisioned: ProvisionedHome, kind: str) -> None:
    def report(other: ProvisionedHome) -> None:
        with other.store.database.transaction() as transaction:
            context = ChangeContext(transaction, AuditLog(other.store.vault), "monitor", 1)
            relayer_changes.report(context, EventKind.RELAYER_LOW_BALANCE, "one", {"balance": "1", "min_balance": "2"})

    provisioned.apply(WHOLE)
    more = "".join(RELAYER.replace('"one"', f'"{name}"') for name in ("two", "three"))
    nameless = more.replace('id = "two"\n', "") if kind == "without an id" else more
    others = Others(provisioned, report)
    provisioned.apply(WHOLE + nameless, prune=kind == "pruned", progress=others.progress)
    assert (others.prepared, provisioned.rows("SELECT count(*) FROM relayers")) == (1, [(3,)])


def test_a_plan_is_not_valid_in_another_history(provisioned: ProvisionedHome, tmp_path: Path) -> None:
    """As after the promotion of a standby that lacked the last commit."""
    promoted = ProvisionedHome(tmp_path / "promoted")
    two = RELAYER.replace('"one"', '"two"')
    with closing(promoted.store):
        for home in (provisioned, promoted):
            home.apply(WHOLE)
        provisioned.apply(WHOLE + two)
        file = read_file((WHOLE + two.replace("100", "7")).encode(), Resolver({}, tmp_path))
        apply, database = Apply(provisioned.store, file, False), provisioned.store.database
        with database.snapshot():
            apply.prepare()
        with promoted.store.database.transaction() as transaction, pytest.raises(Outdated):
            apply.require_valid(transaction)
        with database.transaction() as transaction:
            apply.require_valid(transaction)


def test_a_rotation_that_ends_meanwhile_retires_no_key_that_is_needed(provisioned: ProvisionedHome) -> None:
    """The signing key stays as it is, but the old data key that sealed it is removed."""
    provisioned.apply(WHOLE)
    rotation = Rotation(provisioned.store, EVERY_PROOF)
    rotation.begin(now=0)

    def finish(other: ProvisionedHome) -> None:
        assert sum(rotation.batches()) > 0
        assert rotation.finish().retired == 1

    changed = WHOLE.replace("= 100", "= 200").replace("hooks.example", "other.example")
    others = Others(provisioned, finish)
    plan = provisioned.apply(changed, progress=others.progress)
    assert (len(plan.steps), others.prepared) == (2, 1)
    with closing((fresh := ProvisionedHome(provisioned.folder)).store):  # without the keys that are in memory
        verified(fresh)
