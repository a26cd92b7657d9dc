"""An example of each request of the admin API. A test sends them."""

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "NetworkRequest": {
        "name": "holesky",
        "network_type": "evm",
        "chain_id": 17000,
        "native_symbol": "ETH",
        "rpc_urls": [{"url": "https://node.example.com/rpc", "weight": 1}],
        "fee_tokens": {
            "USDC": {
                "address": "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
                "decimals": 6,
                "rate": {"fixed": "2500"},
            }
        },
    },
    "NetworkPatch": {"rpc_urls": [{"url": "https://other.example.com/rpc", "weight": 1}]},
    "SignerRequest": {
        "id": "vault-1",
        "type": "provider_c",
        "config": {
            "address": "https://secrets.example.com",
            "key_name": "ops",
            "role_id": "relaydeck",
            "secret_id": "s.example",
        },
    },
    "NotificationRequest": {
        "id": "chat",
        "type": "webhook",
        "url": "https://hooks.example.com/chat",
        "signing_key": "a signing key",
    },
    "NotificationPatch": {"signing_key": "another signing key"},
    "RelayerRequest": {
        "id": "holesky-1",
        "name": "Holesky one",
        "network": "holesky",
        "network_type": "evm",
        "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
        "signer_id": "vault-1",
        "notification_id": "chat",
        "policies": {"gas_price_cap": 100_000_000_000},
    },
    "RelayerPatch": {"name": "Holesky the first", "policies": {"gas_price_cap": None}},
    "TokenRequest": {"name": "ci", "kind": "readonly", "expires": "30d"},
}
