"""The steps of one estimate, so that a surprising figure can be taken apart by hand."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Trace:
    """Holds what may be printed: amounts as text, nodes by host, never the secret part of a URL."""

    steps: list[dict[str, Any]] = field(default_factory=list)

    def add(self, step: str, **facts: Any) -> None:
        self.steps.append({"step": step, **{name: _shown(fact) for name, fact in facts.items()}})


def _shown(fact: Any) -> Any:
    """Integers become text: a reader of the JSON may know no integer above 2**53."""
    if isinstance(fact, int) and not isinstance(fact, bool):
        return str(fact)
    if isinstance(fact, dict):
        return {name: _shown(value) for name, value in fact.items()}
    if isinstance(fact, list | tuple):
        return [_shown(value) for value in fact]
    return fact
