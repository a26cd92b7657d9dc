"""A key of an RPC URL that a node quotes in its error is hidden, however the URL and the node spell it."""

import pytest

from relaydeck.networks.evm.errors import NodeError
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import RpcUrl


def shown(url: str, message: str) -> str:
    return Node(RpcUrl(url), PoolOptions()).scrubbed(NodeError(1, message)).message


@pytest.mark.parametrize(
    ("url", "quoted"),
    [
        ("https://n.example/v2/s3cr3tkey", "s3cr3tkey"),
        ("https://n.example/v2/s3cr", "s3cr"),
        ("https://n.example/?s3cr3tkey", "s3cr3tkey"),
        ("https://n.example/?apikey=s3c", "s3c"),
        ("https://n.example/?apikey=s3cr3t%2Fk%3D", "s3cr3t/k="),
        ("https://n.example/?apikey=s3cr3t/k=", "s3cr3t%2Fk%3D"),
        ("https://n.example/?a=1&key=s3cr+t", "s3cr t"),
        ("https://n.example/p%40th-key", "p@th-key"),
        ("https://user:s3cret@n.example/", "s3cret"),
        ("https://us%3Aer:s3cr%40t@n.example/", "s3cr@t"),
        ("https://user:s3cret@n.example/", "dXNlcjpzM2NyZXQ="),
        ("https://n.example/v2/S3CR3TKEY", "s3cr3tkey"),
    ],
)
def test_a_key_in_a_nodes_words_is_hidden(url: str, quoted: str) -> None:
    message = shown(url, f"invalid key: {quoted} (limit 1)")
    assert quoted.rstrip("=").lower() not in message.lower()
    assert message.startswith("invalid key: …")


@pytest.mark.parametrize("url", ["https://n.example", "https://n.example/v2/rpc?a=1", "https://n.example/?"])
def test_other_words_of_a_node_stay(url: str) -> None:
    assert shown(url, "v2 rpc: execution reverted at 1") == "v2 rpc: execution reverted at 1"
