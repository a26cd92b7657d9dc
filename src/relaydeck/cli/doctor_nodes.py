"""Asks every node for its chain id at once. Of a URL only scheme and host are told."""

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from relaydeck.settings import AddressRange
from relaydeck.web_addresses import shown_address

if TYPE_CHECKING:
    from aiohttp import BaseConnector, ClientSession

_QUESTION = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
_MOST_BYTES = 65_536
_AT_ONCE = 64
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")


class Node(NamedTuple):
    url: str
    chain_id: int  # that the network was declared with

    @property
    def shown(self) -> str:
        return shown_address(self.url)


def examine_nodes(nodes: list[Node], allow: tuple[AddressRange, ...] | None, timeout_seconds: float = 5.0) -> list[str]:
    """What is wrong with each node, in order; empty where nothing is. `allow` guards addresses, as in estimates."""
    return asyncio.run(_examine_all(nodes, allow, timeout_seconds)) if nodes else []


async def _examine_all(nodes: list[Node], allow: tuple[AddressRange, ...] | None, timeout_seconds: float) -> list[str]:
    from aiohttp import ClientSession, ClientTimeout

    turn = asyncio.Semaphore(_AT_ONCE)
    async with ClientSession(connector=_connector(allow), timeout=ClientTimeout(total=timeout_seconds)) as session:
        return await asyncio.gather(*(_examine(session, turn, node) for node in nodes))


def _connector(allow: tuple[AddressRange, ...] | None) -> "BaseConnector | None":
    from relaydeck.address_guard import AddressGuard, SystemResolver, guarded_connector

    return None if allow is None else guarded_connector(AddressGuard(allow), SystemResolver(_AT_ONCE))


async def _examine(session: "ClientSession", turn: asyncio.Semaphore, node: Node) -> str:
    from aiohttp import ClientError

    from relaydeck.address_guard import AddressRefused

    try:
        async with turn:
            status, body = await _ask(session, node.url)
    except TimeoutError:
        return "it does not answer in time; check the address and the network between"
    except AddressRefused:
        return "its address is not public and not in RELAYDECK_RPC_ALLOW; it was not connected to"
    except (ClientError, OSError, ValueError):
        # The error's own text may quote the URL.
        return "it cannot be reached; check the address and that the node runs"
    if status != 200:
        return f"it answers with HTTP status {status}; check the path and key of its URL"
    return _chain_problem(body, node.chain_id)


async def _ask(session: "ClientSession", url: str) -> tuple[int, bytes]:
    async with session.post(url, json=_QUESTION, allow_redirects=False) as response:
        return response.status, await response.content.read(_MOST_BYTES)


def _chain_problem(body: bytes, expected: int) -> str:
    found = _chain_id(body)
    if found is None:
        return "its answer to eth_chainId is no chain id; check that the URL is a JSON-RPC node"
    if found != expected:
        return f"it is on chain {found}, the network is declared with {expected}; correct one of them"
    return ""


def _chain_id(body: bytes) -> int | None:
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    result = answer.get("result") if isinstance(answer, dict) else None
    return int(result, 16) if isinstance(result, str) and _QUANTITY.fullmatch(result) else None
