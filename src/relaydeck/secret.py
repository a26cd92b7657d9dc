"""A value that must not be seen: printing, logging or formatting it shows nothing of it."""

from typing import Any, Final


class Secret:
    """Holds a string; only `reveal()` gives it back, so each use of a secret can be searched for."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value: Final = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled")


def decode_secret(kind: type, value: Any) -> Any:
    """msgspec's hook for fields of type Secret."""
    if kind is not Secret or not isinstance(value, str):
        raise TypeError("Expected `str`")
    return Secret(value)
