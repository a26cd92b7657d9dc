"""An apply file with many relayers. Its signer reads its key from the environment variable OPS_KEY."""

_HEAD = """
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{ url = "http://127.0.0.1:9/", weight = 1 }]

[[signers]]
id = "ops"
type = "plain"
config = { key = { env = "OPS_KEY" } }
"""
_RELAYER = """
[[relayers]]
id = "r{number}"
name = "Relayer {number}"
network = "dev"
network_type = "evm"
signer_id = "ops"
{own_url}[relayers.policies]
min_balance = 1000000000000000000
gas_price_cap = 100000000000
"""


def large_file(relayers: int, own_url: str = "") -> str:
    """`own_url` is a line for each relayer, in which `{number}` stands for its number."""
    numbers = range(relayers)
    return _HEAD + "".join(_RELAYER.format(number=each, own_url=own_url.format(number=each)) for each in numbers)
