"""`--prune` removes what an apply created and the file no longer names, and nothing else."""

from tests.provisioning.conftest import (
    NETWORK,
    NOTIFICATION,
    RELAYER,
    SIGNER,
    WHOLE,
    ProvisionedHome,
    lines,
)


def test_relayers_go_before_what_they_refer_to(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    assert lines(provisioned.apply("", prune=True).steps) == [
        "Remove relayers one",
        "Remove notifications pager",
        "Remove signers ops | type: plain -> ",
        "Remove networks sepolia",
    ]
    assert provisioned.state() == {"networks": [], "signers": [], "notifications": [], "relayers": []}


def test_running_servers_are_told(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    provisioned.apply("", prune=True)
    revision = provisioned.revision
    assert provisioned.rows("SELECT revision, resource, seq FROM removals ORDER BY resource") == [
        (revision, "networks", 1),
        (revision, "notifications", 1),
        (revision, "relayers", 1),
        (revision, "signers", 1),
    ]


def test_without_it_nothing_is_removed(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    assert provisioned.apply("").steps == []


def test_what_others_created_stays(provisioned: ProvisionedHome) -> None:
    provisioned.apply(NETWORK + SIGNER + NOTIFICATION)
    provisioned.write("UPDATE signers SET origin = 'api'")
    assert lines(provisioned.apply("", prune=True).steps) == [
        "Remove notifications pager",
        "Remove networks sepolia",
    ]
    assert [each["id"] for each in provisioned.state()["signers"]] == ["ops"]


def test_what_a_remaining_relayer_refers_to_is_not_removed(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    provisioned.write("UPDATE relayers SET origin = 'admin'")
    assert provisioned.mistakes("", prune=True) == [
        "--prune: the notification 'pager' cannot be removed: the relayer 'one' refers to it",
        "--prune: the signer 'ops' cannot be removed: the relayer 'one' refers to it",
        "--prune: the network 'sepolia' cannot be removed: the relayer 'one' refers to it",
    ]


def test_what_the_file_itself_refers_to_is_not_removed(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    assert provisioned.mistakes(NETWORK + SIGNER + RELAYER, prune=True) == [
        "--prune: the notification 'pager' cannot be removed: relayers[0].notification_id refers to it"
    ]


def test_a_relayer_that_the_file_moves_elsewhere_frees_its_old_signer(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    moved = NETWORK + SIGNER.replace('"ops"', '"new"') + NOTIFICATION + RELAYER.replace('"ops"', '"new"')
    assert lines(provisioned.apply(moved, prune=True).steps) == [
        "Create signers new | type:  -> plain",
        "Change relayers one | signer_id: ops -> new",
        "Remove signers ops | type: plain -> ",
    ]


def test_a_relayer_named_by_its_name_is_named(provisioned: ProvisionedHome) -> None:
    nameless = NETWORK + SIGNER + NOTIFICATION + RELAYER.replace('id = "one"\n', "")
    provisioned.apply(nameless)
    assert provisioned.apply(nameless, prune=True).steps == []
