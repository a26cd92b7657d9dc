"""A table of a file, taken apart key by key. A mistake is noted and reading continues, to find the others."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from relaydeck.provisioning.mistakes import Mistake, kind_of, place_in, suggestion
from relaydeck.provisioning.references import Missing, Reference, Resolver, as_reference, reference_problem
from relaydeck.secret import Secret

TEXT_OR_REFERENCE = 'a string, { env = "NAME" } or { file = "path" }'


_MOST_UNKNOWN = 20  # keys of one table that are named: finding similar names takes time


class Table:
    """Getters return UNSET for a value that is absent or mistaken; a mistake has been noted then."""

    def __init__(self, content: dict[str, Any], place: str, mistakes: list[Mistake], resolver: Resolver) -> None:
        self._content = content
        self._known: list[str] = []
        self._resolver = resolver
        self.place = place
        self.mistakes = mistakes

    def at(self, key: str) -> str:
        return place_in(self.place, key)

    def note(self, key: str, problem: str) -> None:
        self.mistakes.append(Mistake(self.at(key), problem))

    def names(self) -> list[str]:
        return list(self._content)

    def has(self, key: str) -> bool:
        return key in self._content

    def has_reference(self, key: str) -> bool:
        return as_reference(self._content.get(key)) is not None

    def count(self, key: str) -> int:
        """How many entries the array or table at `key` has."""
        value = self._content.get(key)
        return len(value) if isinstance(value, list | dict) else 0

    def take(self, key: str, expected: str, *, required: bool = False) -> Any:
        self._known.append(key)
        if key not in self._content and required:
            self.note(key, f"is missing; expected {expected}")
        value = self._content.get(key, UNSET)
        return UNSET if value is None else value  # null, which only JSON has, is noted for the whole document

    def typed(self, key: str, kind: type, expected: str, *, required: bool = False) -> Any:
        """A value of exactly this type."""
        value = self.take(key, expected, required=required)
        if value is UNSET or type(value) is kind:
            return value
        self.note(key, f"expected {expected}, found {kind_of(value)}")
        return UNSET

    def table(self, key: str, *, required: bool = False) -> "Table | None":
        value = self.typed(key, dict, "a table", required=required)
        return None if value is UNSET else self._inner(value, self.at(key))

    def tables(self, key: str) -> Iterator["Table"]:
        """The tables of an array."""
        value = self.typed(key, list, "an array of tables")
        for index, item in enumerate([] if value is UNSET else value):
            place = f"{self.at(key)}[{index}]"
            if isinstance(item, dict):
                yield self._inner(item, place)
            else:
                self.mistakes.append(Mistake(place, f"expected a table, found {kind_of(item)}"))

    def items(self, key: str) -> "Table | None":
        """An array as a table whose keys are the places of its items."""
        value = self.typed(key, list, "an array")
        return None if value is UNSET else _Items(dict(_numbered(value)), self.at(key), self.mistakes, self._resolver)

    def _inner(self, content: dict[str, Any], place: str) -> "Table":
        return Table(content, place, self.mistakes, self._resolver)

    def secret(self, key: str, *, required: bool) -> Any:
        """A Secret, given literally or by reference, or Missing."""
        value = self.take(key, TEXT_OR_REFERENCE, required=required)
        if isinstance(value, str):
            return Secret(value)
        if reference := as_reference(value):
            return self.resolve(key, reference)
        if value is not UNSET:
            self.note(key, f"expected {TEXT_OR_REFERENCE}, found {kind_of(value)}")
        return UNSET

    def resolve(self, key: str, reference: Reference) -> Secret | Missing:
        if problem := reference_problem(reference):
            self.note(key, problem)
            return Missing(self.at(key), problem)
        return self._resolver.resolve(reference, self.at(key))

    def close(self) -> None:
        """Note every key that no getter asked for: a mistyped key must not be lost silently."""
        unknown = [key for key in self._content if key not in self._known]
        for key in unknown[:_MOST_UNKNOWN]:
            self.note(key, f"is not a known key{suggestion(key, self._known)}")
        if len(unknown) > _MOST_UNKNOWN:
            self.mistakes.append(Mistake(self.place, f"has {len(unknown) - _MOST_UNKNOWN} more unknown keys"))


class _Items(Table):
    def at(self, key: str) -> str:
        return f"{self.place}[{key}]"


def _numbered(values: list[Any]) -> Iterator[tuple[str, Any]]:
    return ((str(index), value) for index, value in enumerate(values))
