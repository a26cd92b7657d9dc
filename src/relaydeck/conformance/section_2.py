"""Sections 2 and 3: the envelope, the resources and their states."""

import uuid
from functools import partial

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    TYPES,
    WITH_SECRETS,
    config,
    created,
    created_without_id,
    page,
    signer_id,
    update,
)
from relaydeck.conformance.shapes import (
    Answer,
    DidNotOccur,
    Differs,
    Fields,
    NotChecked,
    field,
    is_array,
    is_flag,
    is_number,
    is_object,
    is_text,
    is_texts,
    is_whole,
)

_SIGNER = {"id": is_text, "type": is_text, "config": is_object}
_RELAYER = dict.fromkeys(("id", "name", "network", "network_type", "address", "signer_id", "notification_id"), is_text)
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
    shapes.equal(field(_list(probe, name).json, "success"), True, "success")


def _error_field(probe: Probe, name: str) -> None:
    body = shapes.success(_list(probe, name), name)
    if not shapes.require_types(body, {"error": is_text}, "the envelope"):
        raise DidNotOccur("the envelope has no error")


def _metadata(probe: Probe, name: str) -> None:
    body = shapes.success(_list(probe, name), name)
    if not shapes.require_types(body, {"metadata": is_object}, "the envelope"):
        raise DidNotOccur("the envelope has no metadata")
    shapes.require_fields(body["metadata"], {"logs": is_array, "traces": is_array}, "metadata")


def _array(probe: Probe, name: str) -> None:
    shapes.many(_list(probe, name), f"the list of {name}")


def _pagination(probe: Probe, name: str) -> None:
    shapes.pagination(_list(probe, name), f"the list of {name}")


for each, section in (("signers", "4.2"), ("relayers", "4.4")):
    for ending, claim, run, *sentences in (
        ("success", "success is true", _success_flag, "2.1-success", "5-bearer"),
        ("data", "data is an array", _array, "2.1-data", f"{section}-list"),
        ("error-field", "error is a string", _error_field, "2.1-error"),
        ("metadata", "metadata holds arrays: logs, traces", _metadata, "2.1-metadata"),
        ("pagination", "pagination holds three integers", _pagination, "2.1-pagination", f"{section}-list"),
    ):
        add("2.1", "contract", f"{each}-{ending}", f"list {each}: {claim}", partial(run, name=each), *sentences)


@contract("2.1", "each log entry has level and message, both strings", "2.1-logs", looks_back=True)
def check_log_entries(probe: Probe) -> str:
    logs = [field(answer.json, "metadata", "logs") for answer in probe.answers]
    entries = [entry for each in logs if isinstance(each, list) for entry in each]
    if not entries:
        raise DidNotOccur("no answer had a log entry")
    for entry in entries:
        shapes.require_fields(entry, {"level": is_text, "message": is_text}, "a log entry")
    return f"{len(entries)} entries"


def _signers(probe: Probe) -> list[shapes.Json]:
    """Those of a first page. One of the type whose config is shown is among them if the caller allows writing."""
    made = [shapes.one(created(probe, "provider_c"), "a create")] if probe.target.allow_writes else []
    listed = shapes.many(page(probe, SIGNERS, 1, 10), "the list of signers")
    if not listed:
        raise NotChecked("the server lists no signer: needs --allow-writes", "--allow-writes")
    return listed + made


@contract("2.2", "a signer has id, type and config", "2.2-signer")
def check_signer_fields(probe: Probe) -> None:
    for signer in _signers(probe):
        shapes.require_fields(signer, _SIGNER, "signer")


@contract("2.2", "the shown config fields are strings", "2.2-response-config")
def check_signer_config(probe: Probe) -> str:
    shown = dict.fromkeys(("address", "key_name", "mount_point", "namespace"), is_text)
    return _counted("signer config", [signer.get("config") for signer in _signers(probe)], shown)


def _counted(what: str, records: list[object], fields: Fields) -> str:
    """The types of these fields, where they have a value. None at all is not evidence."""
    count = sum(shapes.require_types(record, fields, what) for record in records if record is not None)
    if not count:
        raise DidNotOccur(f"no {what} has one of these fields: {', '.join(fields)}")
    return f"{count} values"


def _accepts(probe: Probe, kind: str) -> None:
    shapes.require_fields(shapes.one(created(probe, kind), f"a create of type {kind}"), _SIGNER, "signer")


def _hides(probe: Probe, kind: str) -> None:
    answer = created(probe, kind)
    shapes.one(answer, f"a create of type {kind}")
    leaked = [secret for secret in probe.secrets if secret.encode() in answer.body]
    if leaked:
        raise Differs("no secret of the request in the response", f"{len(leaked)} of its secrets")


@contract("2.2", "no later answer holds a secret", "2.2-no-secrets", looks_back=True)
def check_secrets_later(probe: Probe) -> str:
    if not probe.target.allow_writes:
        raise NotChecked.without("--allow-writes")
    if not probe.created:
        raise NotChecked("no signer was created")
    for answer in probe.answers:
        if any(secret.encode() in answer.body for secret in probe.secrets):
            raise Differs("no secret of an earlier request", f"one in the answer to {answer.request}")
    return f"{len(probe.secrets)} secrets in {len(probe.answers)} answers"


def _requires(probe: Probe, kind: str) -> str:
    chosen, _ = config(kind)
    required = [name for name in chosen if name not in ("mount_point", "namespace")]
    for missing in required:
        less = {name: value for name, value in chosen.items() if name != missing}
        shapes.require_message(probe.write("POST", SIGNERS, {"type": kind, "config": less}), "Bad Request")
    return f"{len(required)} fields"


def _no_state(records: list[shapes.Json], what: str) -> None:
    for record in records:
        if found := {"state", "status", "paused", "system_disabled", "disabled_reason"} & set(record):
            raise Differs(f"{what} without a field for a state", f"{sorted(found)}")


@contract("3", "a signer has no state", "3-no-state")
def check_signer_state(probe: Probe) -> None:
    _no_state(_signers(probe), "a signer")


@contract("3", "a notification has no state", "3-no-state")
def check_notification_state(probe: Probe) -> None:
    _no_state([shapes.one(update(probe, {}), "an empty update")], "a notification")


for each in TYPES:
    if each != "provider_b_kms":  # what its two objects hold is not shown, so no config of it can be said to be right
        add(
            "2.2",
            "contract",
            f"signer-type-{each}",
            f"{each} is accepted with its config",
            partial(_accepts, kind=each),
            "2.2-types",
            "4.1-create",
        )
for each in WITH_SECRETS:
    add(
        "2.2",
        "contract",
        f"secrets-{each}",
        f"{each}: no secret is echoed",
        partial(_hides, kind=each),
        "2.2-no-secrets",
    )
for each in TYPES:
    claim = f"{each} without a required field: Bad Request"
    add("2.2", "contract", f"config-{each}", claim, partial(_requires, kind=each), f"2.2-config-{each}")


@contract("2.2", "mount_point and namespace are optional", "2.2-config-provider_c")
def check_optional_config_fields(probe: Probe) -> None:
    chosen, hidden = config("provider_c")
    del chosen["mount_point"], chosen["namespace"]
    probe.secrets += hidden
    body = {"id": signer_id(probe, "optional"), "type": "provider_c", "config": chosen}
    shapes.one(probe.write("POST", SIGNERS, body), "a create without them")


@contract("2.2", "the caller's id is the signer's", "2.2-id-given")
def check_signer_id(probe: Probe) -> None:
    signer = shapes.one(created(probe, "plain"), "a create")
    shapes.equal(signer.get("id"), signer_id(probe, "plain"), "id")


@contract("2.2", "without an id a UUID is generated", "2.2-id-generated", "4.1-required")
def check_signer_uuid(probe: Probe) -> None:
    signer = shapes.one(created_without_id(probe), "a create without id")
    try:
        uuid.UUID(str(signer.get("id")))
    except ValueError:
        raise Differs("id is a UUID", repr(signer.get("id"))) from None


@contract("2.3", "a notification has id, type, url, has_signing_key", "2.3-fields", "2.3-type")
def check_notification_fields(probe: Probe) -> None:
    found = shapes.one(update(probe, {}), "an empty update")
    fields = {"id": is_text, "type": is_text, "url": is_text, "has_signing_key": is_flag}
    shapes.require_fields(found, fields, "notification")
    shapes.equal(found["type"], "webhook", "type")
    shapes.equal(found["id"], probe.target.notification, "id")


@contract("2.4", "the relayer's text fields are strings", "2.4-strings")
def check_relayer_fields(probe: Probe) -> str:
    return _counted("relayer", [*_relayers(probe)], _RELAYER)


@contract("2.4", "paused and system_disabled are booleans", "2.4-flags", "3-indicators")
def check_relayer_flags(probe: Probe) -> str:
    return _counted("relayer", [*_relayers(probe)], {"paused": is_flag, "system_disabled": is_flag})


@contract("2.4", "custom_rpc_urls are objects with url and weight", "2.4-rpc-urls")
def check_relayer_rpc_urls(probe: Probe) -> str:
    urls = []
    for relayer in _relayers(probe):
        if shapes.require_types(relayer, {"custom_rpc_urls": is_array}, "relayer"):
            urls += relayer["custom_rpc_urls"]
    if not urls:
        raise DidNotOccur("no listed relayer has a custom RPC URL")
    for url in urls:
        shapes.require_fields(url, {"url": is_text, "weight": is_whole}, "an item of custom_rpc_urls")
    return f"{len(urls)} URLs"


@contract("2.4", "disabled_reason has type and details, both strings", "2.4-disabled-reason", "3-indicators")
def check_relayer_disabled_reason(probe: Probe) -> str:
    found = [relayer["disabled_reason"] for relayer in _relayers(probe) if relayer.get("disabled_reason") is not None]
    if not found:
        raise DidNotOccur("no listed relayer has a disabled_reason")
    for reason in found:
        shapes.require_fields(reason, {"type": is_text, "details": is_text}, "disabled_reason")
    return f"{len(found)} reasons"


@contract("2.4", "policies have the shown types", "2.4-policies")
def check_relayer_policies(probe: Probe) -> str:
    return _counted("policies", [relayer.get("policies") for relayer in _relayers(probe)], _POLICIES)


def _relayers(probe: Probe) -> list[shapes.Json]:
    """The first hundred: one that is disabled may be anywhere."""
    if "relayers" not in probe.kept:
        probe.kept["relayers"] = page(probe, RELAYERS, 1, 100)
    listed = shapes.many(probe.kept["relayers"], "the list of relayers")
    if not listed:
        raise NotChecked("the server lists no relayer; it needs one")
    return listed
