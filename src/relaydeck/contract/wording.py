"""What the OpenAPI document says about each field, header and code, and on whose word.

`contract`: the described interface says so. `ruling`: it leaves the point open and this service decided.
"""

from typing import Literal, NamedTuple

Basis = Literal["contract", "ruling"]


class Words(NamedTuple):
    text: str
    basis: Basis = "contract"


def ruling(text: str) -> Words:
    return Words(text, "ruling")


INTRODUCTION = """\
Relaydeck manages relayers, the signers that hold their keys and the webhooks that hear about them, and runs \
JSON-RPC calls through a relayer.

Five operations under `/api/v1` are the described interface; nothing else lives there. Every one takes a \
bearer credential. Lists, creations and updates answer in one envelope, errors in another; the JSON-RPC call \
answers in JSON-RPC's own shape.

Each operation, status, field and header carries `x-relaydeck-basis`:

- `contract`: the described interface says so.
- `ruling`: the described interface leaves it open, and this service decided. A later edition may differ.

Every numeric status is a ruling, read off the message it comes with; the messages are contract. A path that \
nothing is served at answers 404 with the message `Not Found`, and a method that a path does not take \
answers 405 with `Method Not Allowed` and an `Allow` header, both in the error envelope.

Refusals come in this order: 404 or 405 for the path, 401, 429, 413, 400, 404 for the resource, 409."""

_SIGNER_REQUEST = {
    "type": Words("Which kind of key holder this is; it decides the shape of `config`."),
    "config": Words("Where the key is and how to reach it. Secrets in it are sealed and never returned."),
    "id": Words("Your identifier for the signer. Left out, a UUID is made."),
}

_SECRET_STORE = {
    "address": Words("Where the secret store answers."),
    "key_name": Words("Name of the key in the store."),
    "role_id": Words("Login role. Secret."),
    "secret_id": Words("Login secret. Secret."),
    "mount_point": Words("Where the secrets engine is mounted."),
    "namespace": Words("Namespace within the store."),
}

_ENVELOPE = {
    "data": Words("What was asked for."),
    "error": ruling("Always the empty string on success."),
    "metadata": Words("What else there is to say about the answer."),
    "pagination": Words("Which part of the list this is."),
    "success": Words("True on success."),
}

FIELDS: dict[str, dict[str, Words]] = {
    "PlainSignerRequest": _SIGNER_REQUEST,
    "ProviderAKmsSignerRequest": _SIGNER_REQUEST,
    "ProviderBKmsSignerRequest": _SIGNER_REQUEST,
    "ProviderCSignerRequest": _SIGNER_REQUEST,
    "ProviderCTransitSignerRequest": _SIGNER_REQUEST,
    "ProviderDSignerRequest": _SIGNER_REQUEST,
    "ProviderESignerRequest": _SIGNER_REQUEST,
    "LocalConfig": {
        "key": Words("The private key. Secret. One that is not 32 bytes of hex is stored, with a hint in the logs."),
    },
    "KmsConfig": {
        "key_id": Words("The provider's identifier of the key."),
        "region": Words("Region the key lives in."),
    },
    "SecretStoreConfig": _SECRET_STORE,
    "TransitConfig": _SECRET_STORE | {"pubkey": Words("Public half of the key.")},
    "KeyServiceConfig": {
        "api_private_key": Words("Private half of the API key. Secret."),
        "api_public_key": Words("Public half of the API key."),
        "organization_id": Words("Organization that owns the key."),
        "private_key_id": Words("The service's identifier of the key."),
        "public_key": Words("Public half of the key."),
    },
    "WalletServiceConfig": {
        "account_address": Words("Address of the account."),
        "api_key_id": Words("Identifier of the API key."),
        "api_key_secret": Words("Secret of the API key. Secret."),
        "wallet_secret": Words("Secret of the wallet. Secret."),
    },
    "SecondKmsConfig": {
        "key": ruling("Any JSON object: its fields are not described. Secret as a whole."),
        "service_account": ruling("Any JSON object: its fields are not described. Secret as a whole."),
    },
    "NotificationUpdate": {
        "type": Words("The only kind there is."),
        "url": Words("Where events are sent: an absolute http(s) URL with a host."),
        "signing_key": Words(
            "Left out or null: the key stays as it is. Empty: it is removed. Anything else becomes the key."
        ),
    },
    "RpcRequest": {
        "jsonrpc": Words("The protocol version."),
        "method": Words("`feeEstimate` is the one described method; any other answers error -32601."),
        "params": Words("What the method needs: for `feeEstimate`, a FeeEstimateParams."),
        "id": ruling("String, number, null or left out. The answer repeats it."),
    },
    "FeeEstimateParams": {
        "fee_token": Words("What the fee is to be told in: the native symbol, or a fee token's symbol or address."),
        "network": Words("Name of the network; it must be the relayer's."),
        "transaction": Words("The transaction as 0x-prefixed hex, signed or not."),
    },
    "SignerEnvelope": _ENVELOPE,
    "SignerListEnvelope": _ENVELOPE,
    "RelayerListEnvelope": _ENVELOPE,
    "NotificationEnvelope": _ENVELOPE,
    "ErrorEnvelope": {
        "data": Words("Always null."),
        "message": Words("What went wrong, in one fixed phrase per kind of error."),
        "success": Words("False on every error."),
    },
    "Metadata": {
        "logs": Words("Hints about what was accepted but looks unusable. Usually empty."),
        "traces": ruling("Always empty: the shape of an item is not described."),
    },
    "LogEntry": {
        "level": Words("Always `log`."),
        "message": Words("The hint. It never quotes a value."),
    },
    "Pagination": {
        "current_page": Words("The page that was given, counted from 1."),
        "per_page": Words("How many items a page holds, as it was applied."),
        "total_items": Words("How many items there are in all."),
    },
    "Signer": {
        "id": Words("Identifier."),
        "type": ruling("`plain` answers `local`; every other type answers as it was asked."),
        "config": Words("The open part of the config. It never holds a secret."),
    },
    "SignerConfig": {
        "address": Words("Present when the signer was created with it."),
        "key_name": Words("Present when the signer was created with it."),
        "mount_point": Words("Present when the signer was created with it."),
        "namespace": Words("Present when the signer was created with it."),
    },
    "Notification": {
        "id": Words("Identifier."),
        "type": Words("The only kind there is."),
        "url": Words("Where events are sent."),
        "has_signing_key": Words("Whether a signing key is set. The key itself is never returned."),
    },
    "RpcUrl": {
        "url": Words("Address of a node, exactly as it was configured."),
        "weight": Words("Its share of the calls."),
    },
    "DisabledReason": {
        "details": Words("What happened."),
        "type": Words("The kind of reason. The service sets `NonceSyncFailed` and no other."),
    },
    "Policies": {
        "eip1559_pricing": Words("Price by base fee and priority fee; false: by the legacy gas price."),
        "gas_limit_estimation": Words("Ask the node for the gas limit; false: trust the transaction's own."),
        "gas_price_cap": Words("Highest gas price, in Wei (the unit is a ruling). Left out while unset."),
        "min_balance": Words("Least balance, in Wei (the unit is a ruling). Nothing under `/api/v1` acts on it."),
        "private_transactions": Words("Shown as configured. Nothing under `/api/v1` acts on it."),
        "whitelist_receivers": Words("Receivers that are allowed. Empty: any receiver."),
    },
    "Relayer": {
        "id": Words("Identifier."),
        "name": Words("Name for people."),
        "network": Words("Name of the network it works on."),
        "network_type": Words("Kind of that network."),
        "address": Words("Its address on the network."),
        "signer_id": Words("The signer it uses."),
        "notification_id": Words("The notification that hears about it. Left out while unset."),
        "paused": Words("Whether an operator has paused it."),
        "system_disabled": Words("Whether the service has disabled it."),
        "disabled_reason": Words("Why it is disabled. Left out while it is not."),
        "custom_rpc_urls": Words(
            "Nodes to use instead of the network's. Left out, with a log entry, when it is damaged at rest."
        ),
        "policies": Words("The policies in effect."),
    },
    "FeeEstimateResult": {
        "conversion_rate": Words("Fee-token units for one native coin, as a plain decimal; `1` for the native one."),
        "estimated_fee": Words("The fee in fee-token units, as a plain decimal, rounded up."),
        "method": Words("The method's name again."),
    },
    "RpcError": {
        "code": ruling("One of the codes listed here."),
        "message": Words("One fixed phrase per code."),
        "description": Words("What exactly went wrong."),
    },
    "RpcResponse": {
        "jsonrpc": Words("The protocol version."),
        "id": Words("The request's id as a string, a number as the text that was sent; null when there was none."),
        "result": Words("What the method found. Present exactly when `error` is not."),
        "error": Words("Why there is no result. Present exactly when `result` is not."),
    },
}

# A config field of a signer that is not shown by default.
WIDENED = ruling("Only with the setting `RELAYDECK_SIGNER_CONFIG=non_secret`.")

TYPES: dict[str, Words] = {
    "SignerRequest": Words("A signer to create: one shape for each `type`."),
    "NotificationUpdate": Words("What to change. Every field may be left out; an empty object changes nothing."),
    "RpcRequest": Words("One JSON-RPC 2.0 request. Batches and further members are refused."),
    "RpcResponse": ruling("One JSON-RPC 2.0 response, with exactly one of `result` and `error`."),
    "RpcError": Words("Why a method failed."),
    "SignerConfig": Words("Each field is a string and present only when it was given."),
    "ErrorEnvelope": Words("Every error has exactly these three fields."),
}

RPC_ERRORS: dict[int, str] = {
    -32601: "The method is not `feeEstimate`.",
    -32602: "The params do not fit the method; `description` says where.",
    -32603: "The service itself failed.",
    -32000: "No RPC URL of the relayer or its network answered in time.",
    -32001: "The transaction would fail when executed.",
    -32002: "The relayer's policy does not allow this receiver.",
    -32003: "There is no fresh rate for the fee token.",
    -32004: "A node refused the question for another reason than a revert.",
}

HEADERS: dict[str, Words] = {
    "X-Request-Id": ruling(
        "Names this request in the service's log. A request's own `X-Request-Id` is kept when it has 1 to "
        "128 characters of `A-Z a-z 0-9 . _ : / + = @ -`."
    ),
    "Relaydeck-Reason": ruling(
        "What exactly was wrong: ASCII, at most 200 characters, in the service's words and field names, never a value."
    ),
    "RateLimit": ruling(
        "Requests that remain (`r`) and seconds until the allowance is whole again (`t`). Absent when no limit is set."
    ),
    "RateLimit-Policy": ruling(
        "Requests that may come at once (`q`) and the seconds to refill them (`w`). Absent when no limit is set."
    ),
    "Relaydeck-Revision": ruling(
        "The revision of this write. Sent as `Relaydeck-Min-Revision` with a later request to any replica, it makes "
        "sure that the write is seen."
    ),
    "Relaydeck-Stale": ruling(
        "Seconds since the database last answered; only while it is away and the answer comes from memory."
    ),
    "Retry-After": ruling("Seconds until the next request is admitted."),
    "WWW-Authenticate": ruling("The scheme that is asked for."),
    "Allow": ruling("The methods that the path takes."),
}
