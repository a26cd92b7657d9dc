"""Options of the commands that list records: one for each filter of a collection."""

from collections.abc import Callable
from typing import Any

import click

from relaydeck.admin.filters import FILTERS


def filters(collection: str) -> Callable[..., Any]:
    """An option for each filter of a collection."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(FILTERS[collection]):
            choices = click.Choice(list(each.choices)) if each.choices else click.IntRange(0) if each.whole else str
            option = each.name.replace("_", "-")
            command = click.option(f"--{option}", type=choices, help=each.description)(command)
        return command

    return add


def given(filters: dict[str, Any]) -> dict[str, str]:
    """The filters that the operator used."""
    return {name: str(value) for name, value in filters.items() if value}
