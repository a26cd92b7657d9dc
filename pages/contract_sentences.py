"""Every sentence of the contract that a test can hold: what it shows, and what it leaves open.

A key begins with the section. Comments of the form `# sentence: KEY` mark the code that implements a sentence and the
tests that hold it; the checks of the conformance kit name the keys they hold. `docs/conformance.md` is made from all of
them.
"""

from typing import NamedTuple


class Sentence(NamedTuple):
    """`item`: the row of `docs/open-items.md` with our ruling, where the contract leaves the sentence open.

    `unseen`: why no client can check it from outside; empty if one can.
    """

    key: str
    text: str
    item: str = ""
    unseen: str = ""

    @property
    def section(self) -> str:
        return self.key.partition("-")[0]

    @property
    def is_open(self) -> bool:
        return bool(self.item)


_shown = Sentence


def _open(key: str, item: str, text: str = "", *, unseen: str = "") -> Sentence:
    """A point that the contract leaves open. Its text is the name of its ruling, unless it has one of its own."""
    return Sentence(key, text or item, item, unseen)


_SENTENCES = (
    # 1
    _shown("1-envelope", "Every response is JSON in one envelope, except the response of the JSON-RPC call."),
    _open("1-purpose", "what relayers submit, which networks exist", unseen="nothing is offered that could be called"),
    # 2.1
    _shown("2.1-data", "`data` is an object, or an array for a list."),
    _shown("2.1-error", "`error` is a string."),
    _shown("2.1-metadata", "`metadata` is an object with `logs` and `traces`, both arrays."),
    _shown("2.1-logs", "Each entry of `logs` has the strings `level` and `message`."),
    _shown("2.1-pagination", "A list has `pagination` with the integers `current_page`, `per_page`, `total_items`."),
    _shown("2.1-success", "`success` is true on success."),
    _shown("2.1-failure", "An error has `data` null, a string `message` and `success` false."),
    _open("2.1-integers", "how an integer is written"),
    _open("2.1-error-value", "`error` on success"),
    _open("2.1-metadata-presence", "`metadata`"),
    _open("2.1-log-levels", "levels of a log entry"),
    _open("2.1-trace-items", "shape of trace items"),
    # 2.2
    _shown("2.2-signer", "A signer has the strings `id` and `type`, and the object `config`."),
    _shown("2.2-types", "A request names one of seven types of signer; each requires its own `config`."),
    _shown("2.2-config-plain", "A `plain` config has the string `key`."),
    _shown("2.2-config-provider_a_kms", "A `provider_a_kms` config has the strings `key_id` and `region`."),
    _shown("2.2-config-provider_b_kms", "A `provider_b_kms` config has the objects `key` and `service_account`."),
    _shown(
        "2.2-config-provider_c",
        "A `provider_c` config has the strings `address`, `key_name`, `role_id` and `secret_id`, and optionally "
        "`mount_point` and `namespace`.",
    ),
    _shown(
        "2.2-config-provider_c_transit",
        "A `provider_c_transit` config has those of `provider_c` and the string `pubkey`.",
    ),
    _shown(
        "2.2-config-provider_d",
        "A `provider_d` config has the strings `api_private_key`, `api_public_key`, `organization_id`, "
        "`private_key_id` and `public_key`.",
    ),
    _shown(
        "2.2-config-provider_e",
        "A `provider_e` config has the strings `account_address`, `api_key_id`, `api_key_secret` and `wallet_secret`.",
    ),
    _shown("2.2-id-given", "The `id` in a request becomes the signer's identifier."),
    _shown("2.2-id-generated", "Without an `id`, a UUID is generated."),
    _shown("2.2-response-config", "The fields of a response's `config` are strings."),
    _shown("2.2-no-secrets", "The secret parts of a request's `config` are not in a response."),
    _open("2.2-other-configs", "response config of other signer types"),
    _open("2.2-nested-objects", "fields of the nested key and service-account objects"),
    _open("2.2-other-types", "response types beyond `local`"),
    _open(
        "2.2-providers",
        "which provider `provider_a_kms` and the others stand for",
        unseen="no operation of the interface uses a key",
    ),
    _open("2.2-identifiers", "form of an identifier"),
    _open("2.2-uuid-version", "a generated identifier", "version of a generated UUID"),
    _open("2.2-unknown-fields", "unknown fields, nulls"),
    _open("2.2-unusable-values", "a value of the right type that cannot work"),
    # 2.3
    _shown("2.3-fields", "A notification has the strings `id`, `type` and `url`, and the boolean `has_signing_key`."),
    _shown("2.3-type", "The `type` of a notification is `webhook`."),
    _shown("2.3-has-signing-key", "`has_signing_key` tells whether a signing key is set."),
    _shown("2.3-key-not-returned", "The signing key is in no response."),
    _open("2.3-url-form", "form of a `url`"),
    # 2.4
    _shown("2.4-strings", "Names, identifiers, `network`, `network_type` and `address` of a relayer are strings."),
    _shown("2.4-flags", "`paused` and `system_disabled` are booleans."),
    _shown("2.4-disabled-reason", "`disabled_reason` is an object with the strings `details` and `type`."),
    _shown("2.4-rpc-urls", "`custom_rpc_urls` is an array of objects with the string `url` and the integer `weight`."),
    _shown(
        "2.4-policies",
        "The policies are the booleans `eip1559_pricing`, `gas_limit_estimation` and `private_transactions`, the "
        "numbers `gas_price_cap` and `min_balance`, and the array of strings `whitelist_receivers`.",
    ),
    _open("2.4-network-types", "network types beyond `evm` and their policies"),
    _open("2.4-disabled-reasons", "disabled reasons beyond `NonceSyncFailed`"),
    _open("2.4-presence", "required relayer fields"),
    _open("2.4-units", "units of `gas_price_cap` and `min_balance`"),
    _open(
        "2.4-effects",
        "effect of `min_balance` and `private_transactions`",
        unseen="what a service does not do cannot be seen",
    ),
    # 3
    _shown("3-indicators", "A relayer has the indicators `paused`, `system_disabled` and `disabled_reason`."),
    _shown("3-no-state", "Signers and notifications have no field for a state."),
    _open("3-paused", "who sets `paused`", unseen="no operation of the interface changes it"),
    _open("3-disabled", "who sets and clears `system_disabled`", unseen="no operation of the interface changes it"),
    _open("3-effects", "what the states block", unseen="no operation of the interface changes the states"),
    # 4
    _shown("4-json", "Request bodies are JSON, sent with a JSON content type."),
    _open("4-content-type", "content type"),
    _open("4-operations", "operations beyond the five"),
    _open("4-operations-unknown", "unknown path, wrong method"),
    # 4.1
    _shown("4.1-create", "`POST /api/v1/signers` creates a signer; `data` is the signer."),
    _shown("4.1-required", "`config` and `type` are required, `id` is optional."),
    _shown("4.1-bad-request", "A malformed request is answered Bad Request."),
    _shown("4.1-duplicate", "An `id` that exists is answered `Signer with this ID already exists`."),
    # 4.2
    _shown("4.2-list", "`GET /api/v1/signers` returns an array of signers with `pagination`."),
    _shown("4.2-page", "`page` is an optional integer of at least 0; pages start at 1."),
    _shown("4.2-per-page", "`per_page` is an optional integer of at least 0; its default is 10."),
    _shown("4.2-bad-request", "Another value of `page` or `per_page` is answered Bad Request."),
    _open("4.2-order", "list order"),
    _open("4.2-zero", "`page=0`, `per_page=0`"),
    _open("4.2-past-the-end", "a page past the end"),
    _open("4.2-not-decimal", "page values that are not decimal integers, negative, empty or given twice"),
    _open("4.2-unknown-names", "unknown query names"),
    # 4.3
    _shown(
        "4.3-update", "`PATCH /api/v1/notifications/{notification_id}` changes a notification; `data` is the result."
    ),
    _shown("4.3-empty", "All fields are optional; an empty object is allowed."),
    _shown("4.3-key-kept", "An absent or null `signing_key` leaves the key as it is."),
    _shown("4.3-key-removed", "An empty `signing_key` removes the key."),
    _shown("4.3-key-set", "Any other string becomes the signing key."),
    _shown("4.3-bad-request", "An invalid request is answered Bad Request."),
    _shown("4.3-not-found", "An unknown identifier is answered `Notification not found`."),
    _open("4.3-fields-kept", "a field that an update omits"),
    # 4.4
    _shown("4.4-list", "`GET /api/v1/relayers` returns an array of relayers with `pagination`."),
    _shown("4.4-page", "`page` is an optional integer of at least 0; pages start at 1."),
    _shown("4.4-per-page", "`per_page` is an optional integer of at least 0; its default is 10."),
    _shown("4.4-bad-request", "Another value of `page` or `per_page` is answered Bad Request."),
    # 4.5
    _shown(
        "4.5-call", "`POST /api/v1/relayers/{relayer_id}/rpc` takes a JSON-RPC request and returns a JSON-RPC response."
    ),
    _shown("4.5-request", "A request has the strings `jsonrpc` and `method`, and the object `params`."),
    _shown("4.5-id-optional", "The `id` of a request is optional and may be null; a number is accepted."),
    _shown(
        "4.5-response",
        "A response has the strings `jsonrpc` and `id` (for a request with a numeric `id`, as shown), and the object "
        "`result` or `error`.",
    ),
    _shown("4.5-error", "`error` has the integer `code` and the strings `message` and `description`."),
    _shown("4.5-params", "`feeEstimate` takes the strings `fee_token`, `network` and `transaction`."),
    _shown(
        "4.5-result",
        "The result of `feeEstimate` has the strings `conversion_rate`, `estimated_fee` and `method`, its name.",
    ),
    _shown("4.5-bad-request", "An invalid request is answered Bad Request."),
    _shown("4.5-not-found", "An unknown relayer is answered `Relayer with ID <relayer_id> not found`."),
    _open("4.5-methods", "JSON-RPC methods beyond `feeEstimate`"),
    _open("4.5-id-types", "types of the JSON-RPC `id`"),
    _open("4.5-version", "value of `jsonrpc`"),
    _open("4.5-failures", "Bad Request or method failure"),
    _open("4.5-meaning", "meaning of a fee estimate"),
    # 5
    _shown("5-bearer", "Every operation takes the header `Authorization: Bearer <token>`."),
    _shown("5-unauthorized", "A request without valid credentials is answered Unauthorized, in the error envelope."),
    _open("5-tokens", "how tokens are issued, their format and scopes"),
    # 6
    _shown(
        "6-signing-key",
        "A signing key secures the notifications that a webhook receives.",
        unseen="events are sent to the webhook, not to a client of the interface",
    ),
    _open("6-kinds", "kinds of event and payloads", unseen="events are sent to the webhook, not to a client"),
    _open("6-signature", "signature scheme and header", unseen="events are sent to the webhook, not to a client"),
    # 7
    _shown("7-messages", "On the five operations, the message of an error is one of seven."),
    _shown(
        "7-server-failure",
        "A failure of the server is answered Internal Server Error.",
        unseen="no client can cause one",
    ),
    _shown("7-method-failures", "The failure of a method is in the `error` object of a JSON-RPC response."),
    _open("7-statuses", "status codes"),
    _open("7-rpc-codes", "JSON-RPC error codes"),
    _open("7-reason", "the reason for a refusal"),
    # 8
    _shown("8-limited", "Above the rate limit, list-relayers and the JSON-RPC call answer Too Many Requests."),
    _open("8-rate", "rate-limit values and window"),
    _open("8-largest-page", "maximum `per_page`"),
    _open("8-request-size", "request size"),
    # 9
    _shown("9-prefix", "The paths begin with `/api/v1`."),
    _open("9-deprecation", "deprecation, version negotiation", unseen="there is nothing to ask for"),
)
SENTENCES = {sentence.key: sentence for sentence in _SENTENCES}
