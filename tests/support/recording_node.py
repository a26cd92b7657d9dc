"""A stand-in for a node that remembers the addresses it was asked about."""

import asyncio
from collections import Counter
from typing import Any

from tests.support.fault_node import FaultNode


class RecordingNode(FaultNode):
    def __init__(self) -> None:
        super().__init__()
        self.answers = {"eth_getTransactionCount": "0x7", "eth_getBalance": "0x1"}
        self.asked: Counter[str] = Counter()  # by address
        self.asked_twice_at_once: set[str] = set()
        self._under_way: Counter[str] = Counter()

    async def _answer(self, body: Any, writer: asyncio.StreamWriter) -> bool:
        calls = body if isinstance(body, list) else [body]
        addresses = [call["params"][0] for call in calls if call["method"] == "eth_getBalance"]
        self.asked.update(addresses)
        self._under_way.update(addresses)
        self.asked_twice_at_once |= {each for each in addresses if self._under_way[each] > 1}
        try:
            return await super()._answer(body, writer)
        finally:
            self._under_way.subtract(addresses)
