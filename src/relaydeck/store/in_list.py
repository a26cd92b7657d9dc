"""The values of an SQL `IN (…)` as named parameters."""

from collections.abc import Sequence
from typing import Any


def in_list(values: Sequence[int] | Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The names to write between the parentheses, and their values.

    The last value is repeated up to a power of two: engines cache what they know of a statement by its text, and this
    way a statement has few texts, however many values there are.
    """
    count = 1 << (len(values) - 1).bit_length()
    padded = [*values, *[values[-1]] * (count - len(values))]
    named = {f"s{number}": value for number, value in enumerate(padded)}
    return ", ".join(f":{name}" for name in named), named
