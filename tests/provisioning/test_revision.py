"""A plan has a revision; with it, exactly that plan is applied."""

from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.errors import PlanChanged
from tests.provisioning.conftest import NETWORK, WHOLE, ProvisionedHome, lines


def refused(home: ProvisionedHome, text: str, revision: str) -> list[tuple[str, str]]:
    """What has changed since, as the refusal lists it; nothing may have changed."""
    before = home.revision
    with pytest.raises(PlanChanged) as refusal:
        home.apply(text, expected=revision)
    assert home.revision == before
    return [(each["action"], each["record"]) for each in refusal.value.changes]


def test_the_plan_that_was_made_is_applied(provisioned: ProvisionedHome) -> None:
    plan = provisioned.plan(WHOLE)
    assert provisioned.apply(WHOLE, expected=plan.revision).steps == plan.steps


def test_the_same_state_and_file_give_the_same_revision(provisioned: ProvisionedHome) -> None:
    assert provisioned.plan(WHOLE).revision == provisioned.plan(WHOLE).revision


def test_a_record_that_somebody_changed_meanwhile(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    text = WHOLE.replace("gas_price_cap = 100", "gas_price_cap = 300")
    plan = provisioned.plan(text)
    provisioned.apply(WHOLE.replace("gas_price_cap = 100", "gas_price_cap = 200"))
    assert refused(provisioned, text, plan.revision) == [("relayer.updated", "one")]


def test_a_change_in_a_part_that_a_plan_does_not_show(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    text = WHOLE.replace("a-signing-key", "ours")
    plan = provisioned.plan(text)
    provisioned.apply(WHOLE.replace("a-signing-key", "theirs"))
    assert refused(provisioned, text, plan.revision) == [("notification.updated", "pager")]


def test_a_plan_that_somebody_else_has_applied(provisioned: ProvisionedHome) -> None:
    plan = provisioned.plan(NETWORK)
    provisioned.apply(NETWORK)
    assert refused(provisioned, NETWORK, plan.revision) == [("network.created", "sepolia")]


def test_a_change_of_another_record_does_not_matter(provisioned: ProvisionedHome) -> None:
    plan = provisioned.plan(NETWORK)
    other = NETWORK.replace("networks.sepolia", "networks.other")
    provisioned.apply(other)
    assert lines(provisioned.apply(NETWORK, expected=plan.revision).steps) == ["Create networks sepolia"]


def test_a_plan_of_a_longer_log_was_made_elsewhere(provisioned: ProvisionedHome) -> None:
    position, _, digest = provisioned.plan(NETWORK).revision.partition("-")
    assert refused(provisioned, NETWORK, f"{int(position) + 1}-{digest}") == []


def test_another_home_has_another_revision(provisioned: ProvisionedHome, tmp_path: Path) -> None:
    """It is keyed: it appears in the logs of pipelines, where a digest of a weak secret could be guessed."""
    other = ProvisionedHome(tmp_path / "other")
    with closing(other.store):
        assert provisioned.plan(WHOLE).revision != other.plan(WHOLE).revision


def test_every_process_of_a_home_finds_the_same_revision(provisioned: ProvisionedHome) -> None:
    other = ProvisionedHome(provisioned.folder)
    with closing(other.store):
        assert provisioned.plan(WHOLE).revision == other.plan(WHOLE).revision


def test_a_rotated_data_key_does_not_matter(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    text = WHOLE.replace("a-signing-key", "ours")
    plan = provisioned.plan(text)
    with provisioned.store.database.transaction() as transaction:
        provisioned.store.vault.add_data_key(transaction, 1_800_000_000)
    assert lines(provisioned.apply(text, expected=plan.revision).steps) == [
        "Change notifications pager | signing_key:  -> "
    ]


def test_a_stored_value_that_changed_without_an_entry_in_the_audit_log(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    text = WHOLE.replace("gas_price_cap = 100", "gas_price_cap = 300")
    plan = provisioned.plan(text)
    provisioned.write("UPDATE relayers SET name = 'Another' WHERE id = 'one'")
    with pytest.raises(PlanChanged) as refusal:
        provisioned.apply(text, expected=plan.revision)
    assert (refusal.value.changes, refusal.value.records) == ([], [{"kind": "relayer", "name": "one"}])
