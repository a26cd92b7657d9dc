"""A question to a node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A read: what to ask and how to read the answer (`read` raises `UrlFailed` for a wrong type)."""

    method: str
    params: Sequence[Any]
    read: Callable[[Any], T]

    def body(self, number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": self.method, "params": self.params}


def contract_call(to: str, data: str, read: Callable[[Any], T]) -> Question[T]:
    """A call of a contract's view function at the newest block."""
    return Question("eth_call", ({"to": to, "data": data}, "latest"), read)
