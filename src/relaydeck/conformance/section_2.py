"""Section 2: the envelope and the resources."""

import uuid
from functools import partial

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Answer, Probe
from relaydeck.conformance.samples import SIGNERS, TYPES, config, create, created, notification_path, signer_id
from relaydeck.conformance.shapes import is_flag, is_number, is_object, is_text, is_texts, is_whole
from relaydeck.conformance.verdicts import Differs, NotChecked

_LISTS = ("signers", "relayers")
_RELAYER = {
    "id": is_text,
    "name": is_text,
    "network": is_text,
    "network_type": is_text,
    "address": is_text,
    "signer_id": is_text,
    "notification_id": is_text,
}
_POLICIES = {
    "eip1559_pricing": is_flag,
    "gas_limit_estimation": is_flag,
    "gas_price_cap": is_number,
    "min_balance": is_number,
    "private_transactions": is_flag,
    "whitelist_receivers": is_texts,
}


def _list(probe: Probe, name: str) -> Answer:
    answer: Answer = getattr(probe, name)
    return answer


def _success_flag(probe: Probe, name: str) -> None:
    body = _list(probe, name).json
    shapes.equal(body.get("success") if isinstance(body, dict) else body, True, "success")


def _error_field(probe: Probe, name: str) -> None:
    body = shapes.success(_list(probe, name), name)
    shapes.require_fields(body, {"error": is_text}, "the envelope", all_of=True)


def _metadata(probe: Probe, name: str) -> None:
    body = shapes.success(_list(probe, name), name)
    shapes.require_fields(body, {"metadata": is_object}, "the envelope", all_of=True)
    for field in ("logs", "traces"):
        if not isinstance(body["metadata"].get(field), list):
            raise Differs(f"metadata.{field} is an array", repr(body["metadata"]))


def _array(probe: Probe, name: str) -> None:
    shapes.many(_list(probe, name), f"the list of {name}")


def _pagination(probe: Probe, name: str) -> None:
    shapes.pagination(_list(probe, name), f"the list of {name}")


for each in _LISTS:
    add("2.1", "contract", f"{each}-success", f"list {each}: success is true", partial(_success_flag, name=each))
    add("2.1", "contract", f"{each}-data", f"list {each}: data is an array", partial(_array, name=each))
    add("2.1", "contract", f"{each}-error-field", f"list {each}: error is a string", partial(_error_field, name=each))
    add(
        "2.1", "contract", f"{each}-metadata", f"list {each}: logs and traces are arrays", partial(_metadata, name=each)
    )
    add("2.1", "contract", f"{each}-pagination", f"list {each}: three integers", partial(_pagination, name=each))


@contract("2.1", "each log entry has level and message, both strings")
def check_log_entries(probe: Probe) -> str:
    probe.ask("GET", f"{SIGNERS}?per_page=1000000")  # some servers have something to say about this
    count = 0
    for answer in probe.answers:
        body = answer.json
        metadata = body.get("metadata") if isinstance(body, dict) else None
        for entry in (metadata or {}).get("logs") or []:
            count += 1
            shapes.require_fields(entry, {"level": is_text, "message": is_text}, "a log entry", all_of=True)
    if not count:
        raise NotChecked("no answer had a log entry")
    return f"{count} entries"


@contract("2.2", "a signer has id, type and config")
def check_signer_fields(probe: Probe) -> None:
    listed = shapes.many(probe.signers, "the list of signers")
    if not listed:
        raise NotChecked("the server lists no signer")
    for signer in listed:
        shapes.require_fields(signer, {"id": is_text, "type": is_text, "config": is_object}, "signer", all_of=True)


@contract("2.2", "the shown config fields are strings")
def check_signer_config(probe: Probe) -> None:
    shown = dict.fromkeys(("address", "key_name", "mount_point", "namespace"), is_text)
    for signer in shapes.many(probe.signers, "the list of signers"):
        if isinstance(signer.get("config"), dict):
            shapes.require_fields(signer["config"], shown, "signer.config", all_of=False)


def _accepts(probe: Probe, kind: str) -> None:
    signer = shapes.one(created(probe, kind), f"a create of type {kind}")
    shapes.require_fields(signer, {"id": is_text, "type": is_text, "config": is_object}, "signer", all_of=True)


def _hides(probe: Probe, kind: str) -> None:
    answer = created(probe, kind)
    leaked = [secret for secret in probe.secrets if secret.encode() in answer.body]
    if leaked:
        raise Differs("no secret of the request in the response", f"{len(leaked)} of its secrets")


for each in TYPES:
    add(
        "2.2",
        "contract",
        f"signer-type-{each}",
        f"type {each} is accepted with its config",
        partial(_accepts, kind=each),
    )
    add("2.2", "contract", f"secrets-{each}", f"type {each}: no secret is echoed", partial(_hides, kind=each))


def _requires(probe: Probe, kind: str, field: str) -> None:
    chosen, _ = config(kind)
    del chosen[field]
    shapes.require_message(probe.write("POST", SIGNERS, {"type": kind, "config": chosen}), "Bad Request")


for each, required in (
    ("plain", "key"),
    ("provider_a_kms", "region"),
    ("provider_b_kms", "service_account"),
    ("provider_c", "role_id"),
    ("provider_c_transit", "pubkey"),
    ("provider_d", "organization_id"),
    ("provider_e", "wallet_secret"),
):
    add(
        "2.2",
        "contract",
        f"config-{each}",
        f"type {each} without {required} is a Bad Request",
        partial(_requires, kind=each, field=required),
    )


@contract("2.2", "mount_point and namespace are optional")
def check_optional_config_fields(probe: Probe) -> None:
    chosen, hidden = config("provider_c")
    del chosen["mount_point"], chosen["namespace"]
    probe.secrets += hidden
    shapes.one(probe.write("POST", SIGNERS, {"type": "provider_c", "config": chosen}), "a create without them")


@contract("2.2", "the caller's id is the signer's")
def check_signer_id(probe: Probe) -> None:
    signer = shapes.one(created(probe, "plain"), "a create")
    shapes.equal(signer.get("id"), signer_id(probe, "plain"), "id")


@contract("2.2", "without an id a UUID is generated")
def check_signer_uuid(probe: Probe) -> None:
    signer = shapes.one(create(probe, "plain"), "a create without id")
    try:
        uuid.UUID(str(signer.get("id")))
    except ValueError:
        raise Differs("id is a UUID", repr(signer.get("id"))) from None


@contract("2.3", "a notification has id, type webhook, url and has_signing_key")
def check_notification_fields(probe: Probe) -> None:
    found = shapes.one(probe.write("PATCH", notification_path(probe.notification), {}), "an empty update")
    fields = {"id": is_text, "type": is_text, "url": is_text, "has_signing_key": is_flag}
    shapes.require_fields(found, fields, "notification", all_of=True)
    shapes.equal(found["type"], "webhook", "type")
    shapes.equal(found["id"], probe.notification, "id")


@contract("2.4", "the relayer's text fields are strings")
def check_relayer_fields(probe: Probe) -> None:
    for relayer in _relayers(probe):
        shapes.require_fields(relayer, _RELAYER, "relayer", all_of=False)
        shapes.require_fields(relayer, {"id": is_text}, "relayer", all_of=True)


@contract("2.4", "paused and system_disabled are booleans")
def check_relayer_flags(probe: Probe) -> None:
    for relayer in _relayers(probe):
        shapes.require_fields(relayer, {"paused": is_flag, "system_disabled": is_flag}, "relayer", all_of=False)


@contract("2.4", "custom_rpc_urls are objects with url and weight")
def check_relayer_rpc_urls(probe: Probe) -> None:
    for relayer in _relayers(probe):
        for url in relayer.get("custom_rpc_urls") or []:
            shapes.require_fields(url, {"url": is_text, "weight": is_whole}, "custom_rpc_urls", all_of=True)


@contract("2.4", "disabled_reason has type and details")
def check_relayer_disabled_reason(probe: Probe) -> None:
    reasons = [relayer["disabled_reason"] for relayer in _relayers(probe) if relayer.get("disabled_reason")]
    if not reasons:
        raise NotChecked("no listed relayer is disabled")
    for reason in reasons:
        shapes.require_fields(reason, {"type": is_text, "details": is_text}, "disabled_reason", all_of=True)


@contract("2.4", "policies have the shown types")
def check_relayer_policies(probe: Probe) -> None:
    for relayer in _relayers(probe):
        shapes.require_fields(relayer, {"policies": is_object}, "relayer", all_of=False)
        shapes.require_fields(relayer.get("policies") or {}, _POLICIES, "policies", all_of=False)


def _relayers(probe: Probe) -> list[shapes.Json]:
    listed = shapes.many(probe.relayers, "the list of relayers")
    if not listed:
        raise NotChecked("the server lists no relayer")
    return listed
