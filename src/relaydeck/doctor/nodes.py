"""Calls every node, many at a time: its chain, newest block and time, and whether the preset of its chain fits.

Of a URL, findings show scheme and host only.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from relaydeck.doctor import Finding
from relaydeck.errors import Damaged
from relaydeck.networks.chains import known_chains, preset_of
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.header import block_question, expected_base_fee
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.node_figures import read_figures
from relaydeck.networks.evm.node_health import Evidence, probe
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.networks.model import RpcUrl, urls_from_json
from relaydeck.networks.node_rule import node_guards
from relaydeck.process.background import gather_some
from relaydeck.settings.model import Settings
from relaydeck.store.database import Reader
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from relaydeck.store.sealing import Keyring
from relaydeck.timestamps import utc

_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 1 << 20
_CONCURRENT = 64
_PATIENCE = 3  # blocks that a node may be behind, as a pool has by default
_GAS_LIMIT_CAP: Question[int] = Question("eth_txGasLimitCap", (), read_quantity)  # of EIP-8123
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
    probed = asyncio.run(_probe_all(list(users), settings)) if users else []
    evidence = [each for each, _ in probed]
    newest: dict[int, int] = defaultdict(int)
    for node, each in zip(users, evidence, strict=True):
        newest[node.chain_id] = max(newest[node.chain_id], each.block or 0) if each.ok else newest[node.chain_id]
    for (node, user), (each, comparison) in zip(users.items(), probed, strict=True):
        subject = f"node {each.node} of the {user}"
        yield (_sound(subject, node, each, newest) if each.ok else Finding("FAIL", subject, _problem(each.error)))
        if comparison is not None:
            yield Finding(comparison.result, f"{comparison.subject} and the {subject}", comparison.remark)


def preset_findings(database: Reader) -> Iterator[Finding]:
    """Networks whose fee model is not that of their chain, or whose chain cannot be estimated."""
    refused = {each.chain_id: each for each in known_chains().refused.values()}
    for row in database.stream("SELECT name, chain_id, fee_model FROM networks ORDER BY seq"):
        subject, found = f"fee_model of the network {row.name!r}", preset_of(row.chain_id)
        if row.chain_id in refused:
            yield Finding("warn", subject, f"estimates on its chain are wrong: {refused[row.chain_id].reason}")
        elif found is not None and found[1].fee_model != row.fee_model:
            name, preset = found
            remark = f"it is {row.fee_model}, and the chain {name} charges by {preset.fee_model}; set chain = {name!r}"
            yield Finding("warn", subject, remark)


def fault_findings(run_folder: Path) -> Iterator[Finding]:
    """What last went wrong with the nodes of each host, as the workers of a running service know it."""
    figures = read_figures(run_folder)
    for chain_id, said in figures.disputes.items():
        remark = f"they answered differently, and have not agreed since; {said}"
        yield Finding("warn", f"nodes of the chain {chain_id}", remark)
    for host, each in figures.hosts.items():
        if each.last_fault is not None:
            remark = f"the last fault the service saw: {each.last_fault.reason}, at {utc(each.last_fault.at)}"
            if each.outvoted:
                times = "once" if each.outvoted == 1 else f"{each.outvoted} times"
                remark = f"most nodes contradicted it {times}; {remark}"
            yield Finding("warn" if each.outvoted or not each.up else "ok", f"nodes on {host}", remark)


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


async def _probe_all(nodes: list[ConfiguredNode], settings: Settings) -> list[tuple[Evidence, Finding | None]]:
    client, options = Client(_MOST_BYTES, node_guards(settings.rpc_guard, settings.rpc_allow)), PoolOptions()

    async def examine(node: ConfiguredNode) -> tuple[Evidence, Finding | None]:
        evidence = await probe(client, Node(node.url, options), node.chain_id, _TIMEOUT_SECONDS)
        return evidence, await _comparison(client, node, evidence) if evidence.ok else None

    try:
        return await gather_some(_CONCURRENT, examine, nodes)
    finally:
        await client.close()


async def _comparison(client: Client, node: ConfiguredNode, evidence: Evidence) -> Finding | None:
    """The preset of the chain beside the two newest blocks. None: there is none, or the node shows no blocks."""
    found, newest = preset_of(node.chain_id), evidence.header
    if found is None or newest is None or not newest.number or not newest.parent:
        return None
    name, preset = found
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            before = await client.ask(node.url, block_question(hex(newest.number - 1)))
            cap = await _gas_limit_cap(client, node.url)
    except (TimeoutError, UrlFailed, NodeError):
        return None
    following = expected_base_fee(before, newest, preset.facts)
    problems = []
    if following not in (None, newest.base_fee):
        problems.append(f"block {newest.number} has a base fee of {newest.base_fee} Wei, not {following}")
    if cap is not None and preset.facts.gas_limit_cap not in (None, cap):
        problems.append(f"a transaction may have {cap} gas, not {preset.facts.gas_limit_cap}")
    subject = f"preset {name!r}"
    if problems:
        return Finding("warn", subject, f"{'; '.join(problems)}: the chain has changed its rules; update Relaydeck")
    seen = f"the base fee of block {newest.number} follows from the block before" if following is not None else ""
    return Finding("ok", subject, seen or "the chain id is the same; its base fee is read from the nodes")


async def _gas_limit_cap(client: Client, url: RpcUrl) -> int | None:
    try:
        return await client.ask(url, _GAS_LIMIT_CAP)
    except (UrlFailed, NodeError):
        return None


def _sound(subject: str, node: ConfiguredNode, evidence: Evidence, newest: dict[int, int]) -> Finding:
    """The nodes of one chain are compared with each other, whichever record they belong to."""
    behind = newest[node.chain_id] - (evidence.block or 0)
    lag = f"{behind} blocks behind the newest of the nodes" if behind > 1 else "up to date"  # one is the time between
    remark = f"chain id {node.chain_id}, block {evidence.block}, {lag}, {round(evidence.seconds * 1000)} ms"
    return Finding("warn" if behind > _PATIENCE else "ok", subject, remark)


def _problem(error: str) -> str:
    advice = next((advice for words, advice in _ADVICE.items() if error.startswith(words)), _OTHERWISE)
    return f"it {error}; {advice}"
