"""What is wrong with a file: every mistake with its place, told at once. A value is never quoted."""

import json
import re
from typing import NamedTuple

from relaydeck.errors import OperatorError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Mistake(NamedTuple):
    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class MistakenFile(OperatorError):
    def __init__(self, name: str, mistakes: list[Mistake]) -> None:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__(
            "\n".join([f"{name} has {count}:", *(f"  {each}" for each in mistakes)]), "Nothing was changed."
        )
        self.mistakes = mistakes


def inside(place: str, key: str) -> str:
    """The place of `key` in the table at `place`, written as TOML would write it."""
    written = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    return f"{place}.{written}" if place else written


def listed(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
