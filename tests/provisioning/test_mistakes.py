"""All mistakes in a file are reported together, with their place and what is expected, and without values."""

import pytest

from tests.provisioning.conftest import (
    ADDRESS,
    NETWORK,
    NOTIFICATION,
    RELAYER,
    SIGNER,
    WHOLE,
    ProvisionedHome,
)

FULL_OF_MISTAKES = """
surprise = "hunter2"

[networks.sepolia]
network_type = "other"
chain_id = "hunter2"
rpc_urls = [{ url = "https://a.example" }, { url = "ftp://hunter2", wieght = 1, weight = -1 }, "hunter2", { }]
[networks.".."]
network_type = "evm"
chain_id = 0
native_symbol = ""
rpc_urls = "hunter2"

[[signers]]
id = "ops"
type = "plane"
config = { key = "hunter2" }
[[signers]]
id = "ops"
type = "plain"
config = { keey = "hunter2" }
[[signers]]
type = "plain"
config = { key = 5 }
[[signers]]
id = "a\\u0007"
type = "provider_c"
config = { address = 1, key_name = true, role_id = { env = 1 }, secret_id = ["hunter2"] }

[[notifications]]
id = "pager"
type = "email"
url = "hunter2"
signing_key = 1.5

[[relayers]]
id = ""
network = "nowhere"
network_type = "evm"
signer_id = "nobody"
notification_id = "none"
address = "hunter2"
custom_rpc_urls = [{ url = { env = "A", file = "B" }, weight = true }]
[relayers.policies]
eip1559_pricing = "hunter2"
gas_price_cap = -1
min_balance = "hunter2"
whitelist_receivers = ["hunter2", 3]
gas_cap = 1
"""


def test_all_of_them_at_once(provisioned: ProvisionedHome) -> None:
    messages = provisioned.mistakes(FULL_OF_MISTAKES)
    assert messages == [
        'networks.sepolia.network_type: expected "evm"',
        "networks.sepolia.chain_id: expected an integer from 1 to 9223372036854775807, found a string",
        "networks.sepolia.native_symbol: is missing; expected a string",
        "networks.sepolia.rpc_urls[1].url: must begin with http://, https://, ws:// or wss://",
        "networks.sepolia.rpc_urls[1].weight: expected an integer of at least 0",
        "networks.sepolia.rpc_urls[1].wieght: is not a known key; did you mean weight?",
        "networks.sepolia.rpc_urls[2]: expected a table, found a string",
        'networks.sepolia.rpc_urls[3].url: is missing; expected a string, { env = "NAME" } or { file = "path" }',
        'networks."..": the name of a network must not be a dot segment',
        'networks."..".chain_id: expected an integer from 1 to 9223372036854775807',
        'networks."..".native_symbol: must have 1 to 255 characters',
        'networks."..".rpc_urls: expected an array of tables, found a string',
        "signers[0].type: expected one of plain, provider_a_kms, provider_c, provider_c_transit, provider_d,"
        " provider_e or provider_b_kms; did you mean plain?",
        'signers[1].config.key: is missing; expected a string, { env = "NAME" } or { file = "path" }',
        "signers[1].config.keey: is not a known key; did you mean key?",
        "signers[1].id: is already the id of signers[0]",
        "signers[2].id: is missing; expected a string",
        'signers[2].config.key: expected a string, { env = "NAME" } or { file = "path" }, found an integer',
        "signers[3].id: must not contain control characters",
        "signers[3].config.address: expected a string, found an integer",
        "signers[3].config.key_name: expected a string, found a boolean",
        'signers[3].config.role_id: expected a string, { env = "NAME" } or { file = "path" }, found a table',
        'signers[3].config.secret_id: expected a string, { env = "NAME" } or { file = "path" }, found an array',
        'notifications[0].type: expected "webhook"',
        "notifications[0].url: must begin with http:// or https://",
        'notifications[0].signing_key: expected a string, { env = "NAME" } or { file = "path" }, found a float',
        "relayers[0].id: must have 1 to 255 characters",
        "relayers[0].name: is missing; expected a string",
        "relayers[0].address: expected an address: 0x and 40 hexadecimal digits",
        'relayers[0].custom_rpc_urls[0].url: expected a string, { env = "NAME" } or { file = "path" }, found a table',
        "relayers[0].custom_rpc_urls[0].weight: expected an integer of at least 0, found a boolean",
        "relayers[0].policies.eip1559_pricing: expected true or false, found a string",
        "relayers[0].policies.gas_price_cap: expected an integer of at least 0",
        "relayers[0].policies.min_balance: expected an integer of at least 0, found a string",
        "relayers[0].policies.whitelist_receivers[0]: expected an address: 0x and 40 hexadecimal digits",
        "relayers[0].policies.whitelist_receivers[1]: expected an address: 0x and 40 hexadecimal digits,"
        " found an integer",
        "relayers[0].policies.gas_cap: is not a known key; did you mean gas_price_cap?",
        "surprise: is not a known key",
        "relayers[0].network: there is no such network, in this file or stored",
        "relayers[0].signer_id: there is no such signer, in this file or stored",
        "relayers[0].notification_id: there is no such notification, in this file or stored",
    ]
    assert not any("hunter2" in line for line in messages)


def fee_token(rest: str, address: str = ADDRESS) -> str:
    return f'{NETWORK}\n[networks.sepolia.fee_tokens.USDC]\naddress = "{address}"\ndecimals = 6\n{rest}\n'


EITHER_RATE = (
    'expected one of { fixed = "1.5" }, { feed = "0x…", max_age = "1h" }, '
    '{ native_usd = "0x…", token_usd = "0x…", max_age = "1h" }, '
    '{ pool = "0x…", window = "1h", min_liquidity = "1.5" } or '
    '{ feeds = ["0x…"], max_age = "1h", max_spread_percent = "1.5" }'
)
DECIMAL = 'expected a decimal in a string, such as "1.5"'
SPAN = 'expected a time span such as "90s", "5m", "1h" or "1d"'


@pytest.mark.parametrize(
    ("rest", "messages"),
    [
        ("", ["rate: is missing; expected a table"]),
        ("rate = 2500.5", ["rate: expected a table, found a float"]),
        ("rate = {}", [f"rate: {EITHER_RATE}"]),
        (f'rate = {{ fixed = "1", feed = "{ADDRESS}" }}', [f"rate: {EITHER_RATE}"]),
        (f'rate = {{ native_usd = "{ADDRESS}", max_age = "1h" }}', [f"rate: {EITHER_RATE}"]),
        ("rate = { fixed = 2500.5 }", [f"rate.fixed: {DECIMAL}, found a float"]),
        ('rate = { fixed = "-1" }', [f"rate.fixed: {DECIMAL}, without sign or exponent"]),
        ('rate = { fixed = "0.0" }', ["rate.fixed: must be greater than 0"]),
        ('rate = { fixed = "1", max_age = "1h" }', ["rate.max_age: is not a known key"]),
        (f'rate = {{ feed = "{ADDRESS}" }}', ["rate.max_age: is missing; " + SPAN]),
        (f'rate = {{ feed = "{ADDRESS}", max_age = "0s" }}', [f"rate.max_age: {SPAN}"]),
        (f'rate = {{ feed = "{ADDRESS}", max_age = 60 }}', [f"rate.max_age: {SPAN}, found an integer"]),
        ('rate = { fixed = "1" }\nmargin_percent = 1.5', [f"margin_percent: {DECIMAL}, found a float"]),
    ],
)
def test_fee_tokens(provisioned: ProvisionedHome, rest: str, messages: list[str]) -> None:
    place = "networks.sepolia.fee_tokens.USDC."
    assert provisioned.mistakes(fee_token(rest)) == [place + each for each in messages]


def test_fee_tokens_must_not_be_confused(provisioned: ProvisionedHome) -> None:
    rate = 'rate = { fixed = "1" }'
    twice = fee_token(rate) + fee_token(rate).removeprefix(NETWORK).replace("USDC", "eth")
    assert provisioned.mistakes(twice) == [
        "networks.sepolia.fee_tokens: eth has the same symbol as the native coin",
        "networks.sepolia.fee_tokens: eth has the same address as USDC",
    ]


def test_two_relayers_of_one_name_and_no_id(provisioned: ProvisionedHome) -> None:
    nameless = RELAYER.replace('id = "one"\n', "")
    assert provisioned.mistakes(NETWORK + SIGNER + NOTIFICATION + nameless + nameless) == [
        "relayers[1].name: is already the name of relayers[0]; give both an id"
    ]


def test_a_reference_may_lead_to_what_is_stored_or_declared_further_down(
    provisioned: ProvisionedHome,
) -> None:
    provisioned.apply(NETWORK)
    provisioned.apply(RELAYER + NOTIFICATION + SIGNER)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "it is not UTF-8 text"),
        (b"a = hunter2", "it is not TOML: Invalid value (at line 1, column 5)"),
        (b"a = " + b"[" * 100_000, "it is not TOML: "),
        (b"a = " + b"9" * 5_000, "it is not TOML: "),
        (b"networks = 3", "networks: expected a table, found an integer"),
        (b"signers = { }", "signers: expected an array of tables, found a table"),
        (b"networks = { a = 1 }", "networks.a: expected a table, found an integer"),
    ],
)
def test_what_is_no_such_file_at_all(provisioned: ProvisionedHome, content: bytes, message: str) -> None:
    (mistake,) = provisioned.mistakes(content)
    assert mistake.startswith(message)


def test_an_empty_file_declares_nothing(provisioned: ProvisionedHome) -> None:
    assert provisioned.apply("").steps == []
    assert provisioned.apply("\ufeff" + WHOLE).steps != []
