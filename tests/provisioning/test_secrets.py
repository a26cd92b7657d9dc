"""Where a secret may come from, and what happens when it is not there."""

import json

from tests.provisioning.conftest import KEY, NETWORK, NOTIFICATION, SIGNER, WHOLE, ProvisionedHome

FROM_ENVIRONMENT = SIGNER.replace(f'"{KEY}"', '{ env = "OPS_KEY" }')
FROM_FILE = SIGNER.replace(f'"{KEY}"', '{ file = "ops.key" }')


def test_from_the_environment(provisioned: ProvisionedHome) -> None:
    provisioned.apply(FROM_ENVIRONMENT, environment={"OPS_KEY": KEY})
    assert json.loads(provisioned.state()["signers"][0]["sealed_config"]) == {"key": KEY}


def test_from_a_file_beside_the_applied_one_without_its_last_newline(provisioned: ProvisionedHome) -> None:
    (provisioned.folder.parent / "ops.key").write_text(f"{KEY}\n")
    provisioned.apply(FROM_FILE)
    assert json.loads(provisioned.state()["signers"][0]["sealed_config"]) == {"key": KEY}


def test_what_is_not_there_is_a_mistake(provisioned: ProvisionedHome) -> None:
    (provisioned.folder.parent / "empty").write_text("\n")
    (provisioned.folder.parent / "binary").write_bytes(b"\xff\xfe")
    (provisioned.folder.parent / "long").write_bytes(b"x" * 1_048_577)
    file = FROM_ENVIRONMENT
    for number, reference in enumerate(
        (
            '{ env = "EMPTY" }',
            '{ file = "no" }',
            '{ file = "empty" }',
            '{ file = "binary" }',
            '{ file = "long" }',
        )
    ):
        file += FROM_ENVIRONMENT.replace('{ env = "OPS_KEY" }', reference).replace('"ops"', f'"{number}"')
    assert provisioned.mistakes(file, environment={"EMPTY": ""}) == [
        "signers[0].config.key: the environment variable OPS_KEY is not set",
        "signers[1].config.key: the environment variable EMPTY is empty",
        "signers[2].config.key: the file no cannot be read: No such file or directory",
        "signers[3].config.key: the file empty is empty",
        "signers[4].config.key: the file binary cannot be read: it is not UTF-8 text of at most 1 MiB",
        "signers[5].config.key: the file long cannot be read: it is not UTF-8 text of at most 1 MiB",
    ]


def test_an_existing_record_keeps_what_it_has(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    named = (
        WHOLE.replace(f'"{KEY}"', '{ env = "A" }')
        .replace('"a-signing-key"', '{ env = "B" }')
        .replace('"https://node.example/v1/node-key"', '{ env = "C" }')
        .replace('"https://own.example/?key=own-key"', '{ file = "d" }')
    )
    plan = provisioned.plan(named)
    assert plan.steps == []
    assert plan.notes == [
        "networks.sepolia.rpc_urls[0].url: the environment variable C is not set; the stored value is kept",
        "signers[0].config.key: the environment variable A is not set; the stored value is kept",
        "notifications[0].signing_key: the environment variable B is not set; the stored value is kept",
        "relayers[0].custom_rpc_urls[0].url: the file d cannot be read: No such file or directory;"
        " the stored value is kept",
    ]


def test_a_url_is_kept_only_in_a_list_that_is_otherwise_the_same(provisioned: ProvisionedHome) -> None:
    """With other weights or another order, the stored URL would be ambiguous."""
    provisioned.apply(NETWORK)
    named = NETWORK.replace('"https://node.example/v1/node-key"', '{ env = "C" }')
    expected = ["networks.sepolia.rpc_urls[0].url: the environment variable C is not set"]
    assert provisioned.mistakes(named.replace("weight = 1", "weight = 2")) == expected
    assert provisioned.mistakes(named.replace("1 }]", '1 }, { url = "https://b.example" }]')) == expected


def test_a_signing_key_that_was_never_stored_cannot_be_kept(provisioned: ProvisionedHome) -> None:
    provisioned.apply(NOTIFICATION.replace('signing_key = "a-signing-key"\n', ""))
    assert provisioned.mistakes(NOTIFICATION.replace('"a-signing-key"', '{ env = "B" }')) == [
        "notifications[0].signing_key: the environment variable B is not set"
    ]


def test_a_resolved_url_is_checked_and_not_quoted(provisioned: ProvisionedHome) -> None:
    named = NETWORK.replace('"https://node.example/v1/node-key"', '{ env = "C" }')
    assert provisioned.mistakes(named, environment={"C": "hunter2"}) == [
        "networks.sepolia.rpc_urls[0].url: must begin with http://, https://, ws:// or wss://"
    ]


def test_a_secret_where_its_name_belongs_is_not_quoted(provisioned: ProvisionedHome) -> None:
    misplaced = FROM_ENVIRONMENT.replace("OPS_KEY", KEY) + FROM_FILE.replace('"ops"', '"b"').replace("ops.key", KEY)
    assert provisioned.mistakes(misplaced) == [
        "signers[0].config.key: env must be the name of an environment variable",
        "signers[1].config.key: file must be the path of a file",
    ]


class TestNestedObjects:
    """The two nested objects of one type are taken as they are, or by reference to their JSON text."""

    signer = """
[[signers]]
id = "k"
type = "provider_b_kms"
[signers.config]
service_account = { env = "ACCOUNT" }
[signers.config.key]
ring = "r"
version = 2
env = "not a reference: it is not alone"
"""
    stored = {  # noqa: RUF012
        "key": {"ring": "r", "version": 2, "env": "not a reference: it is not alone"},
        "service_account": {"email": "a@b", "deep": [1.5, None]},
    }

    def test_both_ways(self, provisioned: ProvisionedHome) -> None:
        account = ' {"email": "a@b", "deep": [1.5, null]}'
        provisioned.apply(self.signer, environment={"ACCOUNT": account})
        assert json.loads(provisioned.state()["signers"][0]["sealed_config"]) == self.stored

    def test_they_are_compared_by_meaning(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(self.signer, environment={"ACCOUNT": '{"a": 1, "b": 2}'})
        assert provisioned.plan(self.signer, environment={"ACCOUNT": '{"b":2,"a":1}'}).steps == []

    def test_what_is_no_object_is_a_mistake(self, provisioned: ProvisionedHome) -> None:
        odd = self.signer.replace("version = 2", "version = 2024-01-01").replace('{ env = "ACCOUNT" }', "3")
        assert provisioned.mistakes(odd) == [
            "signers[0].config.key: contains a date or time, which JSON cannot express",
            "signers[0].config.service_account: expected a table, or a reference to JSON text; found an integer",
        ]
        assert provisioned.mistakes(self.signer, environment={"ACCOUNT": "[hunter2]"}) == [
            "signers[0].config.service_account: the text it refers to is not a JSON object"
        ]


def test_what_cannot_sign_is_stored_with_a_note(provisioned: ProvisionedHome) -> None:
    plan = provisioned.apply(SIGNER.replace(KEY, "hunter2"))
    assert plan.notes == ["signers[0].config.key is not a 32-byte hexadecimal private key, so it cannot sign"]
