"""Section 2 of the contract: resources and their fields."""

import uuid
from typing import Any

import pytest

from tests.contract.conftest import FULL_SHOWN, RELAYERS_SHOWN
from tests.support import shapes
from tests.support.running import Running
from tests.support.seeding import WEBHOOK

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"


def create(contract: Running, body: Any) -> dict[str, Any]:
    answer = contract.ask("POST", SIGNERS, body)
    assert answer.status == 201, answer
    created: dict[str, Any] = answer.json
    return created


@pytest.fixture(scope="module")
def created(contract: Running) -> dict[str, Any]:
    """The whole answer to one create."""
    return create(contract, shapes.request("plain"))


@pytest.fixture(scope="module")
def listed(contract: Running) -> dict[str, Any]:
    """The whole answer to one list."""
    body: dict[str, Any] = contract.ask("GET", RELAYERS).json
    return body


@pytest.fixture(scope="module")
def full(listed: dict[str, Any]) -> dict[str, Any]:
    """The relayer that has every field."""
    relayer: dict[str, Any] = listed["data"][0]
    return relayer


# 2.1 Response envelope


# sentence: 2.1-data
def test_2_1_data_is_an_object_for_one(created: dict[str, Any]) -> None:
    assert type(created["data"]) is dict


# sentence: 2.1-data
def test_2_1_data_is_an_array_for_list_operations(listed: dict[str, Any]) -> None:
    assert type(listed["data"]) is list


# sentence: 2.1-error 2.1-error-value
def test_2_1_error_is_a_string(created: dict[str, Any]) -> None:
    assert created["error"] == ""


# sentence: 2.1-metadata 2.1-metadata-presence 2.1-trace-items
def test_2_1_metadata_contains_logs_and_traces(created: dict[str, Any]) -> None:
    assert created["metadata"] == {"logs": [], "traces": []}


# sentence: 2.1-logs 2.1-log-levels 2.2-unusable-values
def test_2_1_metadata_logs_each_have_level_and_message(contract: Running) -> None:
    assert create(contract, {"type": "plain", "config": {"key": "no key"}})["metadata"]["logs"] == [
        {"level": "log", "message": "config.key is not a 32-byte hexadecimal private key, so it cannot sign"}
    ]


def test_2_1_metadata_traces_is_an_array(listed: dict[str, Any]) -> None:
    assert listed["metadata"]["traces"] == []


# sentence: 2.1-pagination
def test_2_1_pagination_has_three_integers_on_list_responses(listed: dict[str, Any]) -> None:
    assert listed["pagination"] == {"current_page": 1, "per_page": 10, "total_items": 12}


def test_2_1_pagination_is_absent_on_other_responses(created: dict[str, Any]) -> None:
    assert "pagination" not in created


# sentence: 2.1-success
def test_2_1_success_is_true_on_success(created: dict[str, Any]) -> None:
    assert created["success"] is True


# sentence: 1-envelope 2.1-data
def test_2_1_success_envelope_has_no_other_field(listed: dict[str, Any]) -> None:
    assert set(listed) == {"data", "error", "metadata", "pagination", "success"}


# sentence: 2.1-failure
def test_2_1_error_envelope_is_data_message_success(contract: Running) -> None:
    assert contract.ask("POST", SIGNERS, {}).json == {
        "data": None,
        "message": "Bad Request",
        "success": False,
    }


# 2.2 Signer


# sentence: 2.2-types 2.2-other-types
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_2_2_signer_type_with_its_config(contract: Running, kind: str) -> None:
    answer = create(contract, shapes.request(kind, id=f"2.2 {kind}"))
    assert answer == shapes.success(
        {"id": f"2.2 {kind}", "type": shapes.response_type(kind), "config": shapes.shown_config(kind)}
    )


def test_2_2_signer_type_has_no_other_value(contract: Running) -> None:
    answer = contract.ask("POST", SIGNERS, {"type": "provider_f", "config": {}})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_2_2_the_value_written_as_vault_style_is_provider_c(contract: Running) -> None:
    body = {"type": "vault-style: provider_c", "config": shapes.CONFIGS["provider_c"]}
    assert contract.ask("POST", SIGNERS, body).json == shapes.BAD_REQUEST


# sentence: 2.2-config-plain 2.2-config-provider_a_kms 2.2-config-provider_c 2.2-config-provider_c_transit
# sentence: 2.2-config-provider_d 2.2-config-provider_e 2.2-config-provider_b_kms
@pytest.mark.parametrize(("kind", "name"), shapes.REQUIRED)
def test_2_2_config_field_is_required(contract: Running, kind: str, name: str) -> None:
    config = {field: value for field, value in shapes.CONFIGS[kind].items() if field != name}
    answer = contract.ask("POST", SIGNERS, {"type": kind, "config": config})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 2.2-config-provider_c 2.2-config-provider_c_transit
@pytest.mark.parametrize(("kind", "name"), shapes.LEFT_OUT)
def test_2_2_config_field_is_optional(contract: Running, kind: str, name: str) -> None:
    config = {field: value for field, value in shapes.CONFIGS[kind].items() if field != name}
    shown = {field: value for field, value in shapes.shown_config(kind).items() if field != name}
    answer = create(contract, {"type": kind, "config": config, "id": f"without {kind} {name}"})
    assert answer == shapes.success({"id": f"without {kind} {name}", "type": kind, "config": shown})


# sentence: 2.2-config-plain 2.2-config-provider_a_kms 2.2-config-provider_c 2.2-config-provider_c_transit
# sentence: 2.2-config-provider_d 2.2-config-provider_e 2.2-config-provider_b_kms
@pytest.mark.parametrize(("kind", "name"), shapes.FIELDS)
@pytest.mark.parametrize("value", [None, 1, True, []], ids=str)
def test_2_2_config_field_has_its_type(contract: Running, kind: str, name: str, value: Any) -> None:
    body = {"type": kind, "config": shapes.CONFIGS[kind] | {name: value}}
    answer = contract.ask("POST", SIGNERS, body)
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


@pytest.mark.parametrize(("kind", "name"), [field for field in shapes.FIELDS if field[0] != "provider_b_kms"])
def test_2_2_config_field_takes_any_string(contract: Running, kind: str, name: str) -> None:
    body = {"type": kind, "config": shapes.CONFIGS[kind] | {name: "é \u0000 💥"}}
    assert contract.ask("POST", SIGNERS, body).status == 201


# sentence: 2.2-nested-objects
@pytest.mark.parametrize("name", ["key", "service_account"])
@pytest.mark.parametrize("value", [{}, {"deep": [{"a": None}]}], ids=str)
def test_2_2_second_provider_takes_any_object(contract: Running, name: str, value: Any) -> None:
    body = {"type": "provider_b_kms", "config": shapes.CONFIGS["provider_b_kms"] | {name: value}}
    assert contract.ask("POST", SIGNERS, body).status == 201


@pytest.mark.parametrize("name", ["key", "service_account"])
def test_2_2_second_provider_takes_no_string(contract: Running, name: str) -> None:
    body = {"type": "provider_b_kms", "config": shapes.CONFIGS["provider_b_kms"] | {name: "text"}}
    assert contract.ask("POST", SIGNERS, body).json == shapes.BAD_REQUEST


@pytest.mark.parametrize("kind", shapes.TYPES)
def test_2_2_config_of_another_type_is_refused(contract: Running, kind: str) -> None:
    other = shapes.TYPES[(shapes.TYPES.index(kind) + 1) % len(shapes.TYPES)]
    answer = contract.ask("POST", SIGNERS, {"type": kind, "config": shapes.CONFIGS[other]})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 2.2-id-given
def test_2_2_request_id_is_the_callers_identifier(contract: Running) -> None:
    assert create(contract, shapes.request("plain", id="the caller's own"))["data"]["id"] == "the caller's own"


# sentence: 2.2-id-generated 2.2-uuid-version
def test_2_2_a_uuid_is_generated_when_id_is_omitted(created: dict[str, Any]) -> None:
    given = created["data"]["id"]
    assert str(uuid.UUID(given)) == given


def test_2_2_generated_ids_differ(contract: Running, created: dict[str, Any]) -> None:
    assert create(contract, shapes.request("plain"))["data"]["id"] != created["data"]["id"]


# sentence: 2.2-signer 3-no-state
def test_2_2_response_signer_is_id_type_config(created: dict[str, Any]) -> None:
    assert set(created["data"]) == {"id", "type", "config"}


def test_2_2_response_type_local_is_shown_for_plain(created: dict[str, Any]) -> None:
    assert created["data"]["type"] == "local"


# sentence: 2.2-response-config 2.2-other-configs
def test_2_2_response_config_fields_are_address_key_name_mount_point_namespace(contract: Running) -> None:
    assert create(contract, shapes.request("provider_c"))["data"]["config"] == {
        "address": "https://store.example.com:8200",
        "key_name": "ops",
        "mount_point": "kv",
        "namespace": "team",
    }


# sentence: 2.2-no-secrets
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_2_2_secret_material_is_not_echoed(contract: Running, kind: str) -> None:
    secrets = [str(value) for name, value in shapes.CONFIGS[kind].items() if name not in shapes.SHOWN]
    answer = contract.ask("POST", SIGNERS, shapes.request(kind)).body.decode()
    assert [secret for secret in secrets if secret in answer] == []


# 2.3 Notification


# sentence: 2.3-fields 3-no-state
def test_2_3_notification_is_id_type_url_has_signing_key(contract: Running) -> None:
    assert contract.ask("PATCH", "/api/v1/notifications/pager", {}).json == shapes.success(
        {"id": "pager", "type": "webhook", "url": WEBHOOK, "has_signing_key": True}
    )


# sentence: 2.3-type
def test_2_3_type_webhook_is_the_one_allowed_value(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/pager", {"type": "email"})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 2.3-has-signing-key
def test_2_3_has_signing_key_is_false_without_one(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/plain", {})
    assert answer.json["data"]["has_signing_key"] is False


def test_2_3_has_signing_key_is_response_only(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/plain", {"has_signing_key": True})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_2_3_id_is_not_changed_by_a_request(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/plain", {"id": "other"})
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


# sentence: 2.3-key-not-returned
def test_2_3_the_signing_key_itself_is_not_returned(contract: Running) -> None:
    answer = contract.ask("PATCH", "/api/v1/notifications/pager", {"signing_key": "a-key-to-look-for"})
    assert b"a-key-to-look-for" not in answer.body


# 2.4 Relayer


# sentence: 2.4-presence 3-indicators
@pytest.mark.parametrize("name", list(FULL_SHOWN))
def test_2_4_relayer_field(full: dict[str, Any], name: str) -> None:
    assert full[name] == FULL_SHOWN[name]


def test_2_4_relayer_has_no_other_field(full: dict[str, Any]) -> None:
    assert set(full) == {
        "id",
        "name",
        "network",
        "network_type",
        "address",
        "signer_id",
        "notification_id",
        "paused",
        "system_disabled",
        "disabled_reason",
        "custom_rpc_urls",
        "policies",
    }


# sentence: 2.4-strings
@pytest.mark.parametrize("name", ["id", "name", "network", "network_type", "address", "signer_id", "notification_id"])
def test_2_4_field_is_a_string(full: dict[str, Any], name: str) -> None:
    assert type(full[name]) is str


# sentence: 2.4-flags
@pytest.mark.parametrize("name", ["paused", "system_disabled"])
def test_2_4_field_is_a_boolean(full: dict[str, Any], name: str) -> None:
    assert type(full[name]) is bool


def test_2_4_network_type_evm_is_shown(full: dict[str, Any]) -> None:
    assert full["network_type"] == "evm"


# sentence: 2.4-disabled-reason 2.4-disabled-reasons
def test_2_4_disabled_reason_is_details_and_type(full: dict[str, Any]) -> None:
    assert full["disabled_reason"] == {"details": "no node answered", "type": "NonceSyncFailed"}


# sentence: 2.4-rpc-urls
def test_2_4_custom_rpc_urls_each_have_url_and_weight(full: dict[str, Any]) -> None:
    assert full["custom_rpc_urls"] == [
        {"url": "http://127.0.0.1:9/a?key=1", "weight": 3},
        {"url": "http://127.0.0.1:9/b", "weight": 1},
    ]


# sentence: 2.4-policies
@pytest.mark.parametrize("name", ["eip1559_pricing", "gas_limit_estimation", "private_transactions"])
def test_2_4_policy_is_a_boolean(full: dict[str, Any], name: str) -> None:
    assert type(full["policies"][name]) is bool


# sentence: 2.4-policies 2.4-units
@pytest.mark.parametrize("name", ["gas_price_cap", "min_balance"])
def test_2_4_policy_is_an_exact_number(full: dict[str, Any], name: str) -> None:
    assert full["policies"][name] == FULL_SHOWN["policies"][name]


# sentence: 2.4-policies
def test_2_4_policy_whitelist_receivers_is_an_array_of_strings(full: dict[str, Any]) -> None:
    assert [type(each) for each in full["policies"]["whitelist_receivers"]] == [str]


# sentence: 2.4-presence
def test_2_4_fields_that_are_unset_are_left_out(listed: dict[str, Any]) -> None:
    assert listed["data"][1] == RELAYERS_SHOWN[1]
