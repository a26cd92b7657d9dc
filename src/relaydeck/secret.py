"""A value that must stay hidden: printing, logging or formatting it reveals nothing."""

from typing import Any, Final

LONGEST_SECRET = 16_384  # characters: a bound that no honest value meets


class Secret:
    """Holds a string. Only `reveal()` returns it, so every use of a secret can be found by search."""

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
        raise TypeError("a secret cannot be pickled")


def reveal_secret(value: Any) -> str:
    """Encode a value of type Secret, to be sealed at once and for nothing else: a hook for msgspec."""
    if not isinstance(value, Secret):
        raise NotImplementedError(type(value).__name__)
    return value.reveal()


def decode_secret(kind: type, value: Any) -> Any:
    """Decode a field of type Secret: a hook for msgspec."""
    if kind is not Secret or not isinstance(value, str):
        raise TypeError("Expected `str`")
    if len(value) > LONGEST_SECRET:
        raise ValueError(f"Expected `str` of length <= {LONGEST_SECRET}")
    return Secret(value)
