"""What `apply` makes of a file."""

import gc
import json
from weakref import ref

import pytest

from relaydeck.admin.apply import apply_report
from relaydeck.api.records import PlannedField, PlannedStep
from relaydeck.errors import StoreTrouble
from relaydeck.provisioning.plan import Step
from relaydeck.relayers.model import DisabledReason
from tests.provisioning.conftest import (
    ADDRESS,
    KEY,
    NETWORK,
    NOTIFICATION,
    OTHER_ADDRESS,
    RELAYER,
    SIGNER,
    WHOLE,
    ProvisionedHome,
    lines,
)

FEE_TOKENS = f"""
[networks.sepolia.fee_tokens.USDC]
address = "{ADDRESS.lower()}"
decimals = 6
margin_percent = "1.5"
rate = {{ fixed = "2500.5" }}
[networks.sepolia.fee_tokens.DAI]
address = "{OTHER_ADDRESS}"
decimals = 18
rate = {{ feed = "{ADDRESS}", max_age = "90s", inverse = true }}
[networks.sepolia.fee_tokens."ö X"]
address = "0x00000000000000000000000000000000000000ff"
decimals = 0
rate = {{ native_usd = "{ADDRESS}", token_usd = "{OTHER_ADDRESS}", max_age = "1h" }}
"""

DAMAGED = bytes.fromhex("0100000001")


def test_a_file_becomes_records_in_one_transaction(provisioned: ProvisionedHome) -> None:
    plan = provisioned.apply(WHOLE)
    assert lines(plan.steps) == [
        "Create networks sepolia",
        "Create signers ops | type:  -> plain",
        "Create notifications pager",
        "Create relayers one",
    ]
    assert provisioned.state() == {
        "networks": [
            {
                "name": "sepolia",
                "network_type": "evm",
                "chain_id": 11155111,
                "native_symbol": "ETH",
                "sealed_rpc_urls": b'[{"url":"https://node.example/v1/node-key","weight":1}]',
                "fee_tokens": "[]",
                "runway_warn_hours": None,
                "max_lag_blocks": None,
                "price_factor": None,
                "quorum": None,
                "fee_model": "ethereum",
                "tip_floor": None,
                "tip_ceiling": None,
                "fee_horizon_blocks": None,
                "gas_limit_cap": None,
                "block_seconds": None,
                "base_fee_rule": None,
                "base_fee_denominator": None,
                "base_fee_elasticity": None,
                "gas_margin_percent": None,
                "sequencer_feed": None,
                "sequencer_grace_seconds": None,
                "labels": None,
                "origin": "apply",
            }
        ],
        "signers": [
            {
                "id": "ops",
                "type": "plain",
                "open_config": "{}",
                "sealed_config": b'{"key":"%s"}' % KEY.encode(),
                "labels": None,
                "origin": "apply",
                "set_locally": False,
            }
        ],
        "notifications": [
            {
                "id": "pager",
                "type": "webhook",
                "url": "https://hooks.example/relaydeck",
                "sealed_signing_key": b"a-signing-key",
                "labels": None,
                "origin": "apply",
            }
        ],
        "relayers": [
            {
                "id": "one",
                "name": "One",
                "network": "sepolia",
                "network_type": "evm",
                "address": ADDRESS,
                "signer_id": "ops",
                "notification_id": "pager",
                "paused": 0,
                "system_disabled": 0,
                "disabled_reason": None,
                "sealed_rpc_urls": b'[{"url":"https://own.example/?key=own-key","weight":3}]',
                "policies": '{"eip1559_pricing":true,"gas_limit_estimation":true,"gas_price_cap":100,'
                '"min_balance":0,"private_transactions":false,"whitelist_receivers":[]}',
                "runway_warn_hours": None,
                "labels": None,
                "origin": "apply",
            }
        ],
    }
    revisions = [provisioned.rows(f"SELECT revision FROM {table}") for table in provisioned.state()]
    assert revisions == [[(provisioned.revision,)]] * 4


def test_a_second_apply_does_not_even_open_a_transaction(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE + FEE_TOKENS)
    before = provisioned.revision
    assert provisioned.apply(WHOLE + FEE_TOKENS).steps == []
    assert provisioned.revision == before


def test_only_what_differs_is_written(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    before = provisioned.revision
    changed = WHOLE.replace("gas_price_cap = 100", "min_balance = 7").replace('name = "One"', 'name = "Uno"')
    assert lines(provisioned.apply(changed).steps) == [
        "Change relayers one | name: One -> Uno | policies.gas_price_cap: 100 -> unset | policies.min_balance: 0 -> 7"
    ]
    assert provisioned.rows("SELECT revision FROM relayers") == [(before + 1,)]
    assert provisioned.rows("SELECT revision FROM networks") == [(before,)]


def test_the_state_of_a_relayer_is_left_alone(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    reason = json.dumps({"type": "NonceSyncFailed", "details": "-"})
    assert DisabledReason(**json.loads(reason)).type == "NonceSyncFailed"
    provisioned.write(
        "UPDATE relayers SET paused = :on, system_disabled = :on, disabled_reason = :r", on=True, r=reason
    )
    provisioned.apply(WHOLE.replace('name = "One"', 'name = "Uno"'))
    assert provisioned.rows("SELECT name, paused, system_disabled, disabled_reason FROM relayers") == [
        ("Uno", 1, 1, reason)
    ]


def test_what_the_file_does_not_mention_is_left_alone(provisioned: ProvisionedHome) -> None:
    provisioned.apply(WHOLE)
    before = provisioned.state()
    assert provisioned.apply(NETWORK.replace("sepolia", "holesky")).steps != []
    after = provisioned.state()
    assert after["networks"][:1] == before["networks"]
    assert {name: after[name] for name in ("signers", "notifications", "relayers")} == {
        name: before[name] for name in ("signers", "notifications", "relayers")
    }


def test_a_failure_in_the_middle_changes_nothing(provisioned: ProvisionedHome) -> None:
    def fail_at_the_third(steps: list[Step]):  # type: ignore[no-untyped-def]
        yield from steps[:2]
        raise StoreTrouble("disk I/O error")

    before = provisioned.revision
    with pytest.raises(StoreTrouble):
        provisioned.apply(WHOLE, progress=fail_at_the_third)
    assert provisioned.revision == before
    assert provisioned.state() == {"networks": [], "signers": [], "notifications": [], "relayers": []}


def test_fee_tokens_are_kept_exactly(provisioned: ProvisionedHome) -> None:
    provisioned.apply(NETWORK + FEE_TOKENS)
    assert json.loads(provisioned.state()["networks"][0]["fee_tokens"]) == [
        {
            "symbol": "USDC",
            "address": ADDRESS,
            "decimals": 6,
            "rate": {"source": "fixed", "fixed": "2500.5"},
            "margin_percent": "1.5",
        },
        {
            "symbol": "DAI",
            "address": OTHER_ADDRESS,
            "decimals": 18,
            "rate": {"source": "feed", "feed": ADDRESS, "max_age": 90, "inverse": True},
            "margin_percent": "0",
        },
        {
            "symbol": "ö X",
            "address": "0x00000000000000000000000000000000000000ff",
            "decimals": 0,
            "rate": {
                "source": "crossed",
                "native_usd": ADDRESS,
                "token_usd": OTHER_ADDRESS,
                "max_age": 3600,
            },
            "margin_percent": "0",
        },
    ]


def test_wei_of_any_size_is_exact(provisioned: ProvisionedHome) -> None:
    policies = f'gas_price_cap = {10**30 + 1}\nmin_balance = "{10**40 + 1}"'
    provisioned.apply(WHOLE.replace("gas_price_cap = 100", policies))
    stored = json.loads(provisioned.state()["relayers"][0]["policies"])
    assert (stored["gas_price_cap"], stored["min_balance"]) == (10**30 + 1, 10**40 + 1)
    assert provisioned.plan(WHOLE.replace("gas_price_cap = 100", policies)).steps == []


class TestIdentityOfRelayers:
    nameless = NETWORK + SIGNER + NOTIFICATION + RELAYER.replace('id = "one"\n', "")

    def test_without_an_id_a_relayer_gets_one_and_is_found_again_by_its_name(
        self, provisioned: ProvisionedHome
    ) -> None:
        provisioned.apply(self.nameless)
        ((generated,),) = provisioned.rows("SELECT id FROM relayers")
        assert len(generated) == 36
        changed = provisioned.apply(self.nameless.replace("gas_price_cap = 100", "gas_price_cap = 200"))
        assert lines(changed.steps) == [f"Change relayers {generated} | policies.gas_price_cap: 100 -> 200"]

    def test_a_plan_shows_its_name_and_an_apply_its_id(self, provisioned: ProvisionedHome) -> None:
        plan = provisioned.plan(self.nameless)
        assert apply_report(plan, applied=False).steps[-1] == PlannedStep("create", "relayer", "One", ())
        (generated,) = plan.generated_ids
        assert apply_report(plan, applied=True).steps[-1] == PlannedStep("create", "relayer", generated, ())

    def test_a_plan_shows_the_names_of_relayers_that_change_or_go(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(WHOLE)
        changed = provisioned.plan(WHOLE.replace("gas_price_cap = 100", "gas_price_cap = 200"))
        fields = (PlannedField("policies.gas_price_cap", "100", "200"),)
        assert apply_report(changed, applied=False).steps == (PlannedStep("change", "relayer", "one", fields, "One"),)
        pruned = provisioned.plan(NETWORK + SIGNER + NOTIFICATION, prune=True)
        assert apply_report(pruned, applied=False).steps == (PlannedStep("remove", "relayer", "one", (), "One"),)

    def test_a_relayer_of_that_name_that_apply_did_not_create_is_another_one(
        self, provisioned: ProvisionedHome
    ) -> None:
        provisioned.apply(WHOLE)
        provisioned.write("UPDATE relayers SET origin = 'admin'")
        plan = provisioned.apply(self.nameless)
        assert plan.notes == [
            "relayers[0]: this relayer is created beside others of the same name that no apply created: one."
            " To change one of those instead, add its id to the file."
        ]
        assert provisioned.rows("SELECT count(*) FROM relayers") == [(2,)]

    def test_a_name_that_several_have_needs_an_id(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(WHOLE + RELAYER.replace('id = "one"', 'id = "two"'))
        assert provisioned.mistakes(self.nameless) == [
            "relayers[0].id: is missing, and 2 stored relayers have this name; add the id that is meant: one, two"
        ]

    def test_one_named_by_id_is_not_taken_for_another_by_its_name(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(WHOLE)
        steps = provisioned.apply(WHOLE + RELAYER.replace('id = "one"\n', "")).steps
        assert [step.action for step in steps] == ["create"]


class TestAddresses:
    elsewhere = (
        NETWORK
        + """
[[signers]]
id = "ops"
type = "provider_a_kms"
config = { key_id = "k", region = "r" }
"""
        + NOTIFICATION
    )

    def test_it_is_derived_from_a_local_key(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(WHOLE)
        assert provisioned.rows("SELECT address FROM relayers") == [(ADDRESS,)]

    def test_it_is_derived_from_a_key_that_is_already_stored(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(NETWORK + SIGNER + NOTIFICATION)
        provisioned.apply(RELAYER)
        assert provisioned.rows("SELECT address FROM relayers") == [(ADDRESS,)]

    def test_it_is_derived_from_an_account_address(self, provisioned: ProvisionedHome) -> None:
        account = f"""
[[signers]]
id = "ops"
type = "provider_e"
[signers.config]
account_address = "{OTHER_ADDRESS.lower()}"
api_key_id = "a"
api_key_secret = "b"
wallet_secret = "c"
"""
        provisioned.apply(NETWORK + account + NOTIFICATION + RELAYER)
        assert provisioned.rows("SELECT address FROM relayers") == [(OTHER_ADDRESS,)]

    def test_else_it_must_be_given(self, provisioned: ProvisionedHome) -> None:
        assert provisioned.mistakes(self.elsewhere + RELAYER) == [
            "relayers[0].address: is missing, and cannot be derived from this signer"
        ]

    def test_a_given_one_is_stored_with_its_checksum(self, provisioned: ProvisionedHome) -> None:
        given = RELAYER.replace('name = "One"', f'name = "One"\naddress = "{OTHER_ADDRESS.lower()}"')
        provisioned.apply(self.elsewhere + given)
        assert provisioned.rows("SELECT address FROM relayers") == [(OTHER_ADDRESS,)]

    def test_it_cannot_be_derived_from_a_signer_that_does_not_open(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(NETWORK + SIGNER + NOTIFICATION)
        provisioned.write("UPDATE signers SET sealed_config = :damaged", damaged=DAMAGED)
        assert provisioned.mistakes(RELAYER) == [
            "relayers[0].address: is missing, and cannot be derived from this signer"
        ]

    def test_one_that_contradicts_the_key_is_a_mistake(self, provisioned: ProvisionedHome) -> None:
        given = RELAYER.replace('name = "One"', f'name = "One"\naddress = "{OTHER_ADDRESS}"')
        assert provisioned.mistakes(NETWORK + SIGNER + NOTIFICATION + given) == [
            f"relayers[0].address: {OTHER_ADDRESS} is not the address of this signer, which is {ADDRESS}"
        ]


class TestSignersAreNeverChangedInPlace:
    never = "key material is never changed in place: declare a new signer under another id"

    def test_another_key(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(SIGNER)
        assert provisioned.mistakes(SIGNER.replace("4c08", "5c08")) == [
            f"signers[0].config.key: differs from the stored one; {self.never}"
        ]

    def test_another_type(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(SIGNER)
        other = '[[signers]]\nid = "ops"\ntype = "provider_a_kms"\nconfig = { key_id = "k", region = "r" }'
        assert provisioned.mistakes(other) == [f"signers[0].type: the stored signer is of type plain; {self.never}"]

    def test_another_field_that_is_no_secret(self, provisioned: ProvisionedHome) -> None:
        signer = '[[signers]]\nid = "k"\ntype = "provider_a_kms"\nconfig = { key_id = "k", region = "r" }'
        provisioned.apply(signer)
        assert provisioned.mistakes(signer.replace('"r"', '"q"')) == [
            f"signers[0].config.region: differs from the stored one; {self.never}"
        ]


class TestSigningKeys:
    keyless = NOTIFICATION.replace('signing_key = "a-signing-key"\n', "")

    def test_one_that_the_file_does_not_mention_is_left_alone(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(NOTIFICATION)
        assert provisioned.apply(self.keyless).steps == []

    def test_an_empty_one_removes_it(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(NOTIFICATION)
        emptied = NOTIFICATION.replace("a-signing-key", "")
        assert lines(provisioned.apply(emptied).steps) == ["Change notifications pager | signing_key:  -> "]
        assert provisioned.state()["notifications"][0]["sealed_signing_key"] is None
        assert provisioned.apply(emptied).steps == []

    def test_another_one_replaces_it(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(NOTIFICATION)
        provisioned.apply(NOTIFICATION.replace("a-signing-key", "another"))
        assert provisioned.state()["notifications"][0]["sealed_signing_key"] == b"another"


class TestDamagedRecords:
    """A sealed value that does not open is mended where the file holds what was lost."""

    def test_urls_are_written_anew(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(WHOLE)
        provisioned.write("UPDATE networks SET sealed_rpc_urls = :damaged", damaged=DAMAGED)
        provisioned.write("UPDATE relayers SET sealed_rpc_urls = :damaged", damaged=DAMAGED)
        provisioned.write("UPDATE notifications SET sealed_signing_key = :damaged", damaged=DAMAGED)
        assert len(provisioned.apply(WHOLE).steps) == 3
        assert provisioned.apply(WHOLE).steps == []

    def test_a_signer_is_not(self, provisioned: ProvisionedHome) -> None:
        provisioned.apply(SIGNER)
        provisioned.write("UPDATE signers SET sealed_config = :damaged", damaged=DAMAGED)
        assert provisioned.mistakes(SIGNER) == [
            "signers[0]: the sealed config of signers record 'ops' does not open; see 'relaydeck doctor'"
        ]


def test_a_write_between_planning_and_doing_is_taken_into_account(
    provisioned: ProvisionedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made again inside the transaction if another process has written meanwhile."""
    provisioned.apply(NETWORK + SIGNER + NOTIFICATION)
    other = ProvisionedHome(provisioned.folder)
    begin = provisioned.store.database.transaction

    def begin_after_the_other():  # type: ignore[no-untyped-def]
        other.apply(RELAYER)
        return begin()

    monkeypatch.setattr(provisioned.store.database, "transaction", begin_after_the_other)
    changed = provisioned.apply(RELAYER.replace("gas_price_cap = 100", "gas_price_cap = 200"))
    assert lines(changed.steps) == ["Change relayers one | policies.gas_price_cap: 100 -> 200"]
    other.store.close()


def test_a_plan_is_freed_without_the_garbage_collector(provisioned: ProvisionedHome) -> None:
    """The service excludes what a large apply leaves behind from collections: a cycle would stay, with its secrets."""
    gc.disable()
    try:
        freed = [ref(each(WHOLE)) for each in (provisioned.plan, provisioned.apply, provisioned.plan)]
        assert [each() for each in freed] == [None, None, None]
    finally:
        gc.enable()


def test_a_relayer_is_created_paused_and_a_stored_one_stays_as_it_is(provisioned: ProvisionedHome) -> None:
    paused, resumed = (WHOLE.replace('name = "One"', f'name = "One"\npaused = {each}') for each in ("true", "false"))
    plan = provisioned.apply(paused)
    assert lines(plan.steps)[-1] == "Create relayers one | paused:  -> true"
    assert [row.paused for row in provisioned.rows("SELECT paused FROM relayers")] == [True]
    again = provisioned.apply(resumed)
    assert again.steps == []
    assert again.notes == ["relayers[0].paused counts only for a new relayer: this one stays paused"]
    kept = provisioned.rows("SELECT action FROM audit WHERE action LIKE 'relayer.%' ORDER BY seq")
    assert [row.action for row in kept] == ["relayer.created", "relayer.paused"]
