"""`export` prints the present state as a file; applied to an empty home it gives an equal state."""

import tomllib
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.provisioning.export import exported, variable, written, written_key
from relaydeck.signers.signer_types import SHAPES
from tests.provisioning.conftest import ADDRESS, KEY, OTHER_ADDRESS, ProvisionedHome

EVERYTHING = f"""
[networks.sepolia]
network_type = "evm"
chain_id = 11155111
native_symbol = "ETH"
rpc_urls = [
  {{ url = "https://open.example", weight = 0 }},
  {{ url = "https://closed.example/v1/node-key" }},
  {{ url = "http://user:password@closed.example/" }},
  {{ url = "http://[::1]:8545/", weight = 2 }},
]
[networks.sepolia.fee_tokens.USDC]
address = "{ADDRESS}"
decimals = 6
margin_percent = "1.50"
rate = {{ fixed = "2500.5" }}
[networks.sepolia.fee_tokens."ö X"]
address = "{OTHER_ADDRESS}"
decimals = 18
rate = {{ feed = "{ADDRESS}", max_age = "90s", inverse = true }}
[networks."a net/with \\"quotes\\""]
network_type = "evm"
chain_id = 1
native_symbol = "ETH"
[networks."a net/with \\"quotes\\"".fee_tokens.DAI]
address = "{OTHER_ADDRESS}"
decimals = 18
rate = {{ native_usd = "{ADDRESS}", token_usd = "{OTHER_ADDRESS}", max_age = "2h" }}
[networks."a net/with \\"quotes\\"".fee_tokens.USDT.rate]
feeds = ["{ADDRESS}"]
max_age = "1h"
max_spread_percent = "1.5"
crossed = [{{ native_usd = "{ADDRESS}", token_usd = "{OTHER_ADDRESS}", max_age = "2h", token_max_age = "25h" }}]
bounded_feeds = [{{ feed = "{OTHER_ADDRESS}", max_age = "25h", min_price = "1500" }}]
[networks."a net/with \\"quotes\\"".fee_tokens.USDT]
address = "{ADDRESS}"
decimals = 6

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "{KEY}" }}
[[signers]]
id = "🔑 one"
type = "provider_a_kms"
config = {{ key_id = "tab\\t", region = "\\u0001\\u007f" }}
[[signers]]
id = "c"
type = "provider_c"
config = {{ address = "a", key_name = "k", role_id = "r", secret_id = "s", namespace = "n" }}
[[signers]]
id = "ct"
type = "provider_c_transit"
config = {{ address = "a", key_name = "k", pubkey = "p", role_id = "r", secret_id = "s", mount_point = "" }}
[[signers]]
id = "d"
type = "provider_d"
[signers.config]
api_private_key = "a"
api_public_key = "b"
organization_id = "c"
private_key_id = "d"
public_key = "e"
[[signers]]
id = "e"
type = "provider_e"
[signers.config]
account_address = "{OTHER_ADDRESS}"
api_key_id = "a"
api_key_secret = "b"
wallet_secret = "c"
[[signers]]
id = "b"
type = "provider_b_kms"
config = {{ key = {{ ring = "r" }}, service_account = {{ email = "a@b" }} }}

[[notifications]]
id = "pager"
type = "webhook"
url = "https://hooks.example/"
signing_key = "a signing key, with \\"quotes\\""
[[notifications]]
id = "silent"
type = "webhook"
url = "https://hooks.example/?a=b"

[[relayers]]
id = "one/1"
name = "One ⚙"
network = "sepolia"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
custom_rpc_urls = [{{ url = "https://own.example/?key=own-key", weight = 3 }}]
[relayers.policies]
eip1559_pricing = false
gas_limit_estimation = false
gas_price_cap = 0
min_balance = {2**63}
private_transactions = true
whitelist_receivers = ["{ADDRESS}", "{OTHER_ADDRESS.lower()}"]
[[relayers]]
id = "two"
name = "Two"
network = "a net/with \\"quotes\\""
network_type = "evm"
signer_id = "b"
address = "{OTHER_ADDRESS}"
"""
SECRETS = {
    "NETWORK_SEPOLIA__URL_2": "https://closed.example/v1/node-key",
    "NETWORK_SEPOLIA__URL_3": "http://user:password@closed.example/",
    "SIGNER_OPS__KEY": KEY,
    "SIGNER_C__ROLE_ID": "r",
    "SIGNER_C__SECRET_ID": "s",
    "SIGNER_CT__ROLE_ID": "r",
    "SIGNER_CT__SECRET_ID": "s",
    "SIGNER_D__API_PRIVATE_KEY": "a",
    "SIGNER_E__API_KEY_SECRET": "b",
    "SIGNER_E__WALLET_SECRET": "c",
    "SIGNER_B__KEY": '{"ring":"r"}',
    "SIGNER_B__SERVICE_ACCOUNT": '{"email":"a@b"}',
    "NOTIFICATION_SILENT__URL": "https://hooks.example/?a=b",
    "NOTIFICATION_PAGER__SIGNING_KEY": 'a signing key, with "quotes"',
}


def export_of(home: ProvisionedHome) -> str:
    return "".join(exported(home.store))


def test_the_text(provisioned: ProvisionedHome) -> None:
    provisioned.apply(EVERYTHING)
    assert export_of(provisioned) == (Path(__file__).parent / "exported.toml").read_text("utf-8")


def test_the_round_trip(provisioned: ProvisionedHome, tmp_path: Path) -> None:
    provisioned.apply(EVERYTHING)
    text = export_of(provisioned)
    secrets = SECRETS | {variable("relayers", "one/1", "url_1"): "https://own.example/?key=own-key"}
    other = ProvisionedHome(tmp_path / "other")
    with closing(other.store):
        other.apply(text, environment=secrets)
        assert other.state() == provisioned.state()
        assert export_of(other) == text


def test_every_signer_type_is_part_of_the_round_trip() -> None:
    assert {signer["type"] for signer in tomllib.loads(EVERYTHING)["signers"]} == set(SHAPES)


def test_applied_where_it_came_from_it_changes_nothing(provisioned: ProvisionedHome) -> None:
    provisioned.apply(EVERYTHING)
    assert provisioned.plan(export_of(provisioned), prune=True).steps == []


def test_no_secret_is_in_it(provisioned: ProvisionedHome) -> None:
    provisioned.apply(EVERYTHING)
    text = export_of(provisioned)
    for secret in (KEY, KEY[2:], "node-key", "password", "own-key", "a@b", "a signing key"):
        assert secret not in text


def test_an_empty_home_exports_an_empty_file(provisioned: ProvisionedHome) -> None:
    assert export_of(provisioned) == ""


IDENTIFIER = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40)
PLACES = st.tuples(
    st.sampled_from(["signers", "networks"]), IDENTIFIER, st.sampled_from(["key", "api_private_key", "url_1"])
)


@settings(deadline=None)
@given(PLACES, PLACES)
def test_no_two_secrets_share_a_name(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (variable(*one) == variable(*other)) == (one == other)


def test_names_that_look_alike_are_told_apart() -> None:
    alike = [("a-b", "key"), ("a_b", "key"), ("A-B", "key"), ("a b", "key"), ("a--b", "key"), ("a-b-", "key")]
    alike += [("a", "api_private_key"), ("a-api-private", "key"), ("ä", "key"), ("é", "key")]
    names = [variable("signers", *each) for each in alike]
    assert len(set(names)) == len(names)
    assert not any(name.startswith("RELAYDECK_") for name in names)
    assert {name.isascii() and name.isidentifier() for name in names} == {True}


VALUES = st.recursive(
    st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(deadline=None)
@given(st.text(), VALUES)
def test_what_is_written_reads_back(key: str, value: object) -> None:
    assert tomllib.loads(f"{written_key(key)} = {written(value)}") == {key: value}


def test_a_greater_integer_becomes_digits() -> None:
    assert (written(2**63 - 1), written(2**63)) == ("9223372036854775807", '"9223372036854775808"')
