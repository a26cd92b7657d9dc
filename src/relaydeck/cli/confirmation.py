"""Asks before a command deletes something: on a terminal; elsewhere `--yes` must be given."""

import sys
from collections.abc import Callable
from typing import Any

import click

from relaydeck.errors import OperatorError
from relaydeck.printable import printable

_UNCHANGED = "Nothing was changed."


def asks_first(text: str) -> Callable[..., Any]:
    """`--yes`, for a command that calls `confirm`."""
    return click.option("--yes", "-y", is_flag=True, help=text)


def confirm(action: str, *, yes: bool) -> None:
    """`action` such as `delete relayer r1`. Raises OperatorError unless the operator agrees."""
    if yes:
        return
    require_terminal(action)
    if not click.confirm(printable(f"{action[0].upper()}{action[1:]}?"), err=True):
        raise OperatorError("not confirmed", _UNCHANGED)


def require_terminal(action: str) -> None:
    """Raises OperatorError when there is no terminal to ask on."""
    if not sys.stdin.isatty():
        raise OperatorError(f"to {action} without a terminal, pass --yes", _UNCHANGED)
