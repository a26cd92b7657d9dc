"""The bodies of the admin API, as schemas. A test holds real answers to them."""

from typing import Any

from relaydeck.credentials.kinds import KIND_NAMES, describe_kinds
from relaydeck.identifiers import MAX_LENGTH
from relaydeck.signers.shapes import SHAPES, response_type

Json = dict[str, Any]
PLACE = "#/components/schemas/"


def reference(name: str) -> Json:
    return {"$ref": PLACE + name}


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _identifier(description: str) -> Json:
    return _text(description, minLength=1, maxLength=MAX_LENGTH)


def _whole(description: str, **more: Any) -> Json:
    return {"type": "integer", "minimum": 0, "description": description, **more}


def _flag(description: str) -> Json:
    return {"type": "boolean", "description": description}


def _list(items: Json, description: str) -> Json:
    return {"type": "array", "items": items, "description": description}


def _or_null(schema: Json) -> Json:
    described = schema.pop("description")
    return {"anyOf": [schema, {"type": "null"}], "description": described}


def _object(fields: dict[str, Json], optional: tuple[str, ...] = (), **more: Any) -> Json:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False, **more}


_MOMENT = "in UTC, as 2026-01-31T12:00:00Z."
_URLS = _list(reference("RpcUrl"), "Nodes. Shown exactly as they were given; sealed at rest.")
_POLICIES = {
    "eip1559_pricing": _flag("Price by base fee and priority fee."),
    "gas_limit_estimation": _flag("Ask the node for the gas limit."),
    "gas_price_cap": _whole("Highest gas price, in Wei."),
    "min_balance": _whole("Least balance, in Wei: below it an event is sent."),
    "private_transactions": _flag("Stored and shown."),
    "whitelist_receivers": _list({"type": "string"}, "Receivers that are allowed. Empty: any."),
}
_NETWORK = {
    "name": _identifier("Name; a relayer refers to it."),
    "network_type": _text("Kind of network.", enum=["evm"]),
    "chain_id": _whole("Chain id."),
    "native_symbol": _text("What its coin is called."),
    "rpc_urls": _URLS,
    "fee_tokens": {
        "type": "object",
        "description": "Tokens that may pay a fee, by symbol: address, decimals, margin_percent and rate, "
        "written as in an apply file.",
        "additionalProperties": {"type": "object"},
    },
}
_NOTIFICATION = {
    "id": _identifier("Identifier."),
    "type": _text("The only kind there is.", enum=["webhook"]),
    "url": _text("Where events are sent: an absolute http(s) URL with a host."),
}
_RELAYER = {
    "id": _identifier("Identifier. Left out when creating, one is made."),
    "name": _identifier("Name for people."),
    "network": _identifier("Name of its network."),
    "network_type": _text("Kind of that network.", enum=["evm"]),
    "address": _text("Its address. Derived from the signer where that can be."),
    "signer_id": _identifier("The signer it uses."),
    "notification_id": _identifier("The notification that hears about it."),
    "custom_rpc_urls": _URLS,
    "policies": reference("Policies"),
}
_CREATED = {"created_at": _text(f"When it was created, {_MOMENT}")}
_SIGNING_KEY = {
    "signing_key": _text("Signs what is sent. Never shown. Empty or, in a change, null: removed.", writeOnly=True)
}
_TOKEN = {
    "name": _identifier("Name."),
    "kind": _text(f"What it may do: {describe_kinds()}.", enum=KIND_NAMES),
    "state": _text("Whether it is accepted.", enum=["live", "expired", "revoked"]),
    **_CREATED,
    "expires_at": _or_null(_text(f"When it ends, {_MOMENT}")),
    "revoked_at": _or_null(_text(f"When it was revoked, {_MOMENT}")),
}
_EVENT = {
    "id": _text("Identifier; also of its delivery."),
    "type": _text("What happened."),
    "timestamp": _text(f"When, {_MOMENT}"),
    "sequence": _whole("Its place in the order of all events."),
    "version": _whole("Version of this shape."),
    "data": {"type": "object", "description": "What it is about: the relayer as the API shows it, without secrets."},
}
_ATTEMPT = {
    "at": _text("When it began."),
    "duration_ms": _whole("How long it took."),
    "status": _or_null(_whole("Status of the answer.")),
    "problem": _or_null(_text("What went wrong.")),
    "answer": _text("First bytes of the answer."),
}
_DELIVERY = {
    "id": _text("The event's identifier."),
    "sequence": _whole("The event's sequence number."),
    "type": _text("The event's type."),
    "notification_id": _text("Where it goes."),
    "relayer_id": _or_null(_text("Whom it is about.")),
    "state": _text("How far it is.", enum=["pending", "delivered", "dead"]),
    "tries": _whole("How often it was tried."),
    "created_at": _text("When the event happened."),
    "next_try_at": _or_null(_text("When it is tried next; null while it waits in line or is finished.")),
    "finished_at": _or_null(_text("When it arrived or was given up.")),
    "last_status": _or_null(_whole("Status of the last answer.")),
    "last_problem": _or_null(_text("What went wrong last.")),
}
_ENTRY = {
    "sequence": _whole("Its place in the chain."),
    "at": _text(f"When, {_MOMENT}"),
    "actor": _text("Who: `token:NAME`, `cli:USER` or `monitor`."),
    "action": _text("What was done."),
    "record": _text("To which record."),
    "before": _or_null({"type": "object", "description": "What changed, as it was; secrets only as set."}),
    "after": _or_null({"type": "object", "description": "What changed, as it is; secrets only as set or changed."}),
    "hash": _text("Keyed hash of this entry and of the hash before it."),
}


_STATE = {
    "state": _text("Which.", enum=["paused", "disabled", "failing", "low_balance"]),
    "since": _or_null(_text(f"Since when, {_MOMENT} Null: it was created so.")),
    "by": _or_null(_text("Who: `token:NAME`, `cli:USER` or `monitor`.")),
    "cause": _text("Why, and what to do."),
}
_NODE = {
    "node": _text("Scheme and host of the RPC URL; the rest may be a secret."),
    "weight": _whole("Its share."),
    "ok": _flag("Whether it answered just now, on the right chain."),
    "problem": _or_null(_text("What was wrong just now.")),
    "chain_id": _or_null(_whole("The chain id it told.")),
    "block": _or_null(_whole("The newest block it told.")),
    "milliseconds": _whole("How long that took."),
    "last_problem": _or_null(_text("What the monitor saw in the last round without a nonce, if that is not over.")),
    "last_problem_at": _or_null(_text(f"When it saw that, {_MOMENT}")),
}
_EXPLANATION = {
    "id": _text("Identifier of the relayer."),
    "address": _text("Its address."),
    "network": _text("Its network."),
    "states": _list(reference("RelayerState"), "Everything that is wrong; empty when nothing is."),
    "nodes": _list(reference("RelayerNode"), "Each of its RPC URLs, asked just now."),
    "monitor": _text("What the monitor does about it."),
    "next_probe_at": _or_null(_text(f"When the monitor looks next, give or take a little, {_MOMENT}")),
}


def _optional(fields: dict[str, Json]) -> Json:
    return _object(fields, tuple(fields))


def resources() -> dict[str, Json]:
    """What is asked and answered, by name."""
    types = sorted({response_type(kind) for kind in SHAPES})
    config = {"type": "object", "description": "The fields of its type that are no secret."}
    return {
        "RpcUrl": _object({"url": _text("Address of a node."), "weight": _whole("Its share.")}, ("weight",)),
        "Policies": _optional(_POLICIES),
        "Network": _object(_NETWORK | _CREATED, ("rpc_urls",)),
        "NetworkRequest": _object(_NETWORK, ("rpc_urls", "fee_tokens")),
        "NetworkPatch": _optional(_NETWORK),
        "Signer": _object(
            {"id": _identifier("Identifier."), "type": _text("Type.", enum=types), "config": config, **_CREATED}
        ),
        "SignerRequest": _object(
            {
                "id": _identifier("Left out, one is made."),
                "type": _text("Type.", enum=list(SHAPES)),
                "config": {"type": "object", "description": "The fields of the type, as in `/openapi.json`."},
            },
            ("id",),
        ),
        "Notification": _object(_NOTIFICATION | {"has_signing_key": _flag("Whether a signing key is set.")} | _CREATED),
        "NotificationRequest": _object(_NOTIFICATION | _SIGNING_KEY, ("signing_key",)),
        "NotificationPatch": _optional(_NOTIFICATION | _SIGNING_KEY),
        "Relayer": _object(
            _RELAYER
            | {
                "paused": _flag("Whether an operator has paused it."),
                "system_disabled": _flag("Whether the service has disabled it."),
                "disabled_reason": {"type": "object", "description": "Why it is disabled: type and details."},
            }
            | _CREATED,
            ("notification_id", "disabled_reason", "custom_rpc_urls"),
        ),
        "RelayerRequest": _object(_RELAYER, ("id", "address", "notification_id", "custom_rpc_urls", "policies")),
        "RelayerPatch": _optional(_RELAYER),
        "RelayerState": _object(_STATE),
        "RelayerNode": _object(_NODE),
        "Explanation": _object(_EXPLANATION),
        "Token": _object(_TOKEN),
        "NewToken": _object(_TOKEN | {"token": _text("The token itself. It is not shown again.")}),
        "TokenRequest": _object(
            {
                "name": _identifier("Name."),
                "kind": _text(f"What it may do: {describe_kinds()}.", enum=KIND_NAMES, default="api"),
                "expires": _text("When it ends: 45m, 12h, 30d, 8w. Left out: never."),
            },
            ("kind", "expires"),
        ),
        "Event": _object(_EVENT),
        "Attempt": _object(_ATTEMPT),
        "Delivery": _object(_DELIVERY),
        "WholeDelivery": _object(_DELIVERY | {"attempts": _list(reference("Attempt"), "Every try, oldest first.")}),
        "Replayed": _object({"replayed": _whole("How many are sent again.")}),
        "AuditEntry": _object(_ENTRY),
    }


def envelopes() -> dict[str, Json]:
    log = _object({"level": {"const": "log"}, "message": _text("A hint. It never quotes a value.")})
    paged = {
        "current_page": _whole("The page that was given."),
        "per_page": _whole("How many items a page holds."),
        "total_items": _whole("How many items there are."),
    }
    traces = {"type": "array", "maxItems": 0, "description": "Always empty."}
    return {
        "Metadata": _object({"logs": _list(log, "Hints, usually none."), "traces": traces}),
        "Pagination": _object(paged),
        "ErrorEnvelope": _object(
            {
                "data": {"type": "null", "description": "Always null."},
                "message": _text("What went wrong."),
                "success": {"const": False, "description": "False on every error."},
            }
        ),
    }


def envelope(data: Json, *, paged: bool = False) -> Json:
    fields = {
        "data": data,
        "error": {"const": "", "description": "Always the empty string on success."},
        "metadata": reference("Metadata"),
        **({"pagination": reference("Pagination")} if paged else {}),
        "success": {"const": True, "description": "True on success."},
    }
    return _object(fields)
