"""Asks every node for its chain id, many at a time. Of a URL, findings contain scheme and host only."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from relaydeck.doctor.finding import Finding
from relaydeck.errors import Damaged
from relaydeck.networks.model import RpcUrl
from relaydeck.settings import AddressRange
from relaydeck.store.database import Reader
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from relaydeck.store.sealing import Keyring
from relaydeck.web_addresses import shown_address

if TYPE_CHECKING:
    from aiohttp import BaseConnector, ClientSession

_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 65_536
_CONCURRENT = 64
_UNREACHABLE = "it cannot be reached; check the address and that the node is running"
_PROBLEMS = {
    "address_refused": "RELAYDECK_RPC_GUARD refuses its address, so no connection was made; see RELAYDECK_RPC_ALLOW",
    "name_not_resolved": "its host name does not resolve; check its spelling and the name server",
    "connection_refused": "it refused the connection; check the port and that the node is running",
    "tls_failed": "the TLS handshake failed; check its certificate, and whether its URL should begin with http://",
    "timed_out": "it does not respond in time; check the address and the network in between",
}
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_URLS = {
    "network": "SELECT name AS record, chain_id, sealed_rpc_urls, secret_version FROM networks"
    " WHERE sealed_rpc_urls IS NOT NULL ORDER BY seq",
    "relayer": "SELECT relayers.id AS record, chain_id, relayers.sealed_rpc_urls, relayers.secret_version FROM relayers"
    " JOIN networks ON networks.name = relayers.network"
    " WHERE relayers.sealed_rpc_urls IS NOT NULL ORDER BY relayers.seq",
}
_PLACES = {each.table: each.place for each in SEALED_COLUMNS if each.column == "sealed_rpc_urls"}


class Node(NamedTuple):
    url: str
    chain_id: int  # of the network that the node belongs to


def node_findings(database: Reader, keyring: Keyring, allowed: tuple[AddressRange, ...] | None) -> Iterator[Finding]:
    """`allowed` guards addresses, as it does for estimates."""
    users: dict[Node, str] = {}
    for node, user in _configured_nodes(database, keyring):
        users.setdefault(node, user)  # one request, however many relayers share the node
    problems = asyncio.run(_examine_all(list(users), allowed)) if users else []
    for (node, user), problem in zip(users.items(), problems, strict=True):
        subject = f"node {shown_address(node.url)} of the {user}"
        yield (Finding("FAIL", subject, problem) if problem else Finding("ok", subject, f"chain id {node.chain_id}"))


def _configured_nodes(database: Reader, keyring: Keyring) -> Iterator[tuple[Node, str]]:
    """Every URL and the record it belongs to. Damaged URLs are reported with the sealed values."""
    for kind, sql in _URLS.items():
        for row in database.stream(sql):
            try:
                opened = keyring.open(row.sealed_rpc_urls, _PLACES[f"{kind}s"](row.record, row.secret_version))
            except Damaged:
                continue
            urls = msgspec.json.decode(opened, type=tuple[RpcUrl, ...])
            yield from ((Node(url.url, row.chain_id), f"{kind} {row.record!r}") for url in urls)


async def _examine_all(nodes: list[Node], allowed: tuple[AddressRange, ...] | None) -> list[str]:
    """The problem of each node, in order; empty for a node without one."""
    from aiohttp import ClientSession, ClientTimeout

    slots = asyncio.Semaphore(_CONCURRENT)
    async with ClientSession(connector=_connector(allowed), timeout=ClientTimeout(total=_TIMEOUT_SECONDS)) as session:
        return await asyncio.gather(*(_examine(session, slots, node) for node in nodes))


def _connector(allowed: tuple[AddressRange, ...] | None) -> "BaseConnector":
    from relaydeck.address_guard import server_guard
    from relaydeck.outgoing_connections import NameResolver, guarded_connector

    return guarded_connector(server_guard(allowed), NameResolver())


async def _examine(session: "ClientSession", slots: asyncio.Semaphore, node: Node) -> str:
    from aiohttp import ClientError

    from relaydeck.address_guard import AddressRefused
    from relaydeck.connection_failure import classify

    try:
        async with slots:
            status, body = await _ask(session, node.url)
    except (AddressRefused, ClientError, OSError, ValueError) as error:
        # Not the text of the error, which may quote the URL.
        return _PROBLEMS.get(classify(error), _UNREACHABLE)
    if status != 200:
        return f"it responds with HTTP status {status}; check the path and key of its URL"
    return _chain_problem(body, node.chain_id)


async def _ask(session: "ClientSession", url: str) -> tuple[int, bytes]:
    async with session.post(url, json=_REQUEST, allow_redirects=False) as response:
        return response.status, await response.content.read(_MOST_BYTES)


def _chain_problem(body: bytes, expected: int) -> str:
    found = _chain_id(body)
    if found is None:
        return "its response to eth_chainId is not a chain id; check that the URL is a JSON-RPC node"
    if found != expected:
        return f"it is on chain {found}, but the network has chain id {expected}; correct one of them"
    return ""


def _chain_id(body: bytes) -> int | None:
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    result = answer.get("result") if isinstance(answer, dict) else None
    return int(result, 16) if isinstance(result, str) and _QUANTITY.fullmatch(result) else None
