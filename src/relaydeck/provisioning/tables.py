"""Takes a TOML table apart key by key. A mistake is noted and reading goes on; left-over keys are unknown.

A getter that notes a mistake gives an empty value of its type, so that a reader needs no branches; what
was built from it is thrown away because the mistake was noted.
"""

import difflib
from collections.abc import Callable
from typing import Any

from relaydeck.provisioning.mistakes import Mistake, inside
from relaydeck.provisioning.references import Missing, Reference, Resolver, as_reference, reference_problem
from relaydeck.secret import Secret

_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    str: "a string",
    list: "an array",
    dict: "a table",
}
HIDDEN_EXPECTED = 'a string, { env = "NAME" } or { file = "path" }'
Check = Callable[[str], str]


def found(value: Any) -> str:
    """What kind of thing stands there, without showing it."""
    return _KINDS.get(type(value), "a date or time")


class Table:
    def __init__(self, content: dict[str, Any], place: str, mistakes: list[Mistake], resolver: Resolver) -> None:
        self._content = content
        self._known: list[str] = []
        self._resolver = resolver
        self.place = place
        self.mistakes = mistakes

    def at(self, key: str) -> str:
        return inside(self.place, key)

    def note(self, key: str, problem: str) -> None:
        self.mistakes.append(Mistake(self.at(key), problem))

    def keys(self) -> list[str]:
        return list(self._content)

    def has(self, key: str) -> bool:
        return key in self._content

    def take(self, key: str, expected: str, *, required: bool) -> Any:
        """The raw value; None when the key is absent, which is a mistake where it is required."""
        self._known.append(key)
        if key not in self._content and required:
            self.note(key, f"is missing; expected {expected}")
        return self._content.get(key)

    def text(self, key: str, *, required: bool = True, check: Check | None = None, expected: str = "a string") -> str:
        value = self.take(key, expected, required=required)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.note(key, f"expected {expected}, found {found(value)}")
            return ""
        if check is not None and (problem := check(value)):
            self.note(key, problem)
        return value

    def one_of(self, key: str, choices: list[str], expected: str) -> str:
        value = self.text(key, expected=expected)
        if isinstance(self._content.get(key), str) and value not in choices:
            self.note(key, f"expected {expected}{nearest(value, choices)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, "", required=False)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.note(key, f"expected true or false, found {found(value)}")
        return default

    def whole(self, key: str, *, least: int, most: int | None = None, default: int | None = None) -> int:
        """An integer within bounds; without a default it is required."""
        expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
        value = self.take(key, expected, required=default is None)
        if value is None:
            return least if default is None else default
        if isinstance(value, bool) or not isinstance(value, int):
            self.note(key, f"expected {expected}, found {found(value)}")
        elif value < least or (most is not None and value > most):
            self.note(key, f"expected {expected}")
        else:
            return value
        return least

    def table(self, key: str, *, required: bool = False) -> "Table | None":
        value = self.take(key, "a table", required=required)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.note(key, f"expected a table, found {found(value)}")
            return None
        return Table(value, self.at(key), self.mistakes, self._resolver)

    def tables(self, key: str) -> list["Table"]:
        """An array of tables; absent is empty."""
        value = self.take(key, "", required=False)
        if value is None:
            return []
        if not isinstance(value, list):
            self.note(key, f"expected an array of tables, found {found(value)}")
            return []
        return [each for index, item in enumerate(value) if (each := self._item(key, index, item)) is not None]

    def _item(self, key: str, index: int, item: Any) -> "Table | None":
        place = f"{self.at(key)}[{index}]"
        if isinstance(item, dict):
            return Table(item, place, self.mistakes, self._resolver)
        self.mistakes.append(Mistake(place, f"expected a table, found {found(item)}"))
        return None

    def texts(self, key: str, check: Check) -> list[str]:
        """An array of strings; absent is empty."""
        value = self.take(key, "", required=False)
        if value is None:
            return []
        if not isinstance(value, list):
            self.note(key, f"expected an array of strings, found {found(value)}")
            return []
        for index, item in enumerate(value):
            problem = check(item) if isinstance(item, str) else f"expected a string, found {found(item)}"
            if problem:
                self.mistakes.append(Mistake(f"{self.at(key)}[{index}]", problem))
        return [item for item in value if isinstance(item, str)]

    def secret(self, key: str, *, required: bool = True) -> Secret | Missing | None:
        """Given literally or by reference; None when it is absent or a mistake."""
        value = self.take(key, HIDDEN_EXPECTED, required=required)
        if value is None:
            return None
        if isinstance(value, str):
            return Secret(value)
        if reference := as_reference(value):
            return self.resolve(key, reference)
        self.note(key, f"expected {HIDDEN_EXPECTED}, found {found(value)}")
        return None

    def resolve(self, key: str, reference: Reference) -> Secret | Missing:
        if problem := reference_problem(reference):
            self.note(key, problem)
            return Missing(self.at(key), problem)
        return self._resolver.resolve(reference, self.at(key))

    def close(self) -> None:
        """Every key that nobody asked for is a mistake: mistyped, it would be lost silently."""
        for key in self._content:
            if key not in self._known:
                self.note(key, f"is not a known key{nearest(key, self._known)}")


def nearest(value: str, choices: list[str]) -> str:
    close = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
