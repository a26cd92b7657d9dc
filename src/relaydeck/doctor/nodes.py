"""Calls every node, many at a time: its chain, newest block and time. Of a URL, findings show scheme and host only."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.doctor.finding import Finding
from relaydeck.errors import Damaged
from relaydeck.networks.model import RpcUrl, urls_from_json
from relaydeck.networks.node_rule import node_guards
from relaydeck.settings import Settings
from relaydeck.store.database import Reader
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from relaydeck.store.sealing import Keyring
from relaydeck.timestamps import utc

if TYPE_CHECKING:
    from relaydeck.networks.evm.probe import Evidence

_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 1 << 20
_CONCURRENT = 64
_PATIENCE = 3  # blocks that a node may be behind, as a pool has by default
_OTHERWISE = "check that the URL is a JSON-RPC node"
# What to do about a failure, by the beginning of its words.
_ADVICE = {
    "leads to an address that RELAYDECK_RPC_GUARD refuses": (
        "no connection was made; see RELAYDECK_RPC_GUARD and RELAYDECK_RPC_ALLOW"
    ),
    "has a host name": "check its spelling and the name server",
    "refused the connection": "check the port and that the node is running",
    "cannot be reached": "check the address and that the node is running",
    "failed the TLS handshake": "check its certificate, and whether its URL should begin with http:// or ws://",
    "timed out": "check the address and the network in between",
    "answered HTTP": "check the path and key of its URL, and its headers",
    "is on chain id": "correct the URL, or the chain_id of the network",
}
_URLS = {
    "network": "SELECT name AS record, chain_id, sealed_rpc_urls, secret_version FROM networks"
    " WHERE sealed_rpc_urls IS NOT NULL ORDER BY seq",
    "relayer": "SELECT relayers.id AS record, chain_id, relayers.sealed_rpc_urls, relayers.secret_version FROM relayers"
    " JOIN networks ON networks.name = relayers.network"
    " WHERE relayers.sealed_rpc_urls IS NOT NULL ORDER BY relayers.seq",
}
_PLACES = {each.table: each.place for each in SEALED_COLUMNS if each.column == "sealed_rpc_urls"}


class ConfiguredNode(NamedTuple):
    url: RpcUrl
    chain_id: int  # of the network that the node belongs to


def node_findings(database: Reader, keyring: Keyring, settings: Settings) -> Iterator[Finding]:
    users: dict[ConfiguredNode, str] = {}
    for node, user in _configured_nodes(database, keyring):
        users.setdefault(node, user)  # one call, however many relayers share the node
    evidence = asyncio.run(_probe_all(list(users), settings)) if users else []
    newest: dict[int, int] = defaultdict(int)
    for node, each in zip(users, evidence, strict=True):
        newest[node.chain_id] = max(newest[node.chain_id], each.block or 0) if each.ok else newest[node.chain_id]
    for (node, user), each in zip(users.items(), evidence, strict=True):
        subject = f"node {each.node} of the {user}"
        yield (_sound(subject, node, each, newest) if each.ok else Finding("FAIL", subject, _problem(each.error)))


def fault_findings(run_folder: Path) -> Iterator[Finding]:
    """What last went wrong with the nodes of each host, as the workers of a running service know it."""
    from relaydeck.networks.evm.figure_files import read_figures

    for host, each in read_figures(run_folder).hosts.items():
        if each.last_fault is not None:
            remark = f"the last fault the service saw: {each.last_fault.reason}, at {utc(each.last_fault.at)}"
            yield Finding("ok" if each.up else "warn", f"nodes on {host}", remark)


def _configured_nodes(database: Reader, keyring: Keyring) -> Iterator[tuple[ConfiguredNode, str]]:
    """Every URL and the record it belongs to. Damaged URLs are reported with the sealed values."""
    for kind, sql in _URLS.items():
        for row in database.stream(sql):
            try:
                opened = keyring.open(row.sealed_rpc_urls, _PLACES[f"{kind}s"](row.record, row.secret_version))
            except Damaged:
                continue
            urls = urls_from_json(opened)
            yield from ((ConfiguredNode(url, row.chain_id), f"{kind} {row.record!r}") for url in urls)


async def _probe_all(nodes: list[ConfiguredNode], settings: Settings) -> "list[Evidence]":
    from relaydeck.background import gather_some
    from relaydeck.networks.evm.client import Client
    from relaydeck.networks.evm.node import Node
    from relaydeck.networks.evm.options import PoolOptions
    from relaydeck.networks.evm.probe import probe

    client, options = Client(_MOST_BYTES, node_guards(settings.rpc_guard, settings.rpc_allow)), PoolOptions()

    async def examine(node: ConfiguredNode) -> "Evidence":
        return await probe(client, Node(node.url, options), node.chain_id, _TIMEOUT_SECONDS)

    try:
        return await gather_some(_CONCURRENT, examine, nodes)
    finally:
        await client.close()


def _sound(subject: str, node: ConfiguredNode, evidence: "Evidence", newest: dict[int, int]) -> Finding:
    """The nodes of one chain are compared with each other, whichever record they belong to."""
    behind = newest[node.chain_id] - (evidence.block or 0)
    lag = f"{behind} blocks behind the newest of the nodes" if behind > 1 else "up to date"  # one is the time between
    remark = f"chain id {node.chain_id}, block {evidence.block}, {lag}, {round(evidence.seconds * 1000)} ms"
    return Finding("warn" if behind > _PATIENCE else "ok", subject, remark)


def _problem(error: str) -> str:
    advice = next((advice for words, advice in _ADVICE.items() if error.startswith(words)), _OTHERWISE)
    return f"it {error}; {advice}"
