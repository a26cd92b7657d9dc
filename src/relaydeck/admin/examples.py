"""An example of each request of the admin API, which a test sends, and of answers that need one."""

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
    "Explanation": {
        "id": "holesky-1",
        "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
        "network": "holesky",
        "states": [
            {
                "state": "disabled",
                "since": "2026-03-01T12:02:07Z",
                "by": "monitor",
                "cause": "NonceSyncFailed: no RPC URL told the nonce of 0x2c7536E3605D9C16a7a3D7b1898e529396a65c23 "
                "in 3 rounds since 2026-03-01T12:00:07Z: https://node.example.com refused the connection. Check that "
                "the nodes run and can be reached from here; the relayer is enabled again as soon as one answers",
            }
        ],
        "nodes": [
            {
                "node": "https://node.example.com",
                "weight": 1,
                "ok": True,
                "problem": None,
                "chain_id": 17000,
                "block": 4321987,
                "milliseconds": 38,
                "last_problem": "refused the connection",
                "last_problem_at": "2026-03-01T12:14:07Z",
            }
        ],
        "monitor": "looks every 60 s",
        "next_probe_at": "2026-03-01T12:15:07Z",
    },
}
