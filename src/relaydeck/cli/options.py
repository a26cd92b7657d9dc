"""Options that several commands share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)


def _use_home(_context: click.Context, _option: click.Parameter, home: Path | None) -> None:
    if home is not None:
        os.environ["RELAYDECK_HOME"] = str(home)


def at_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """--home, which every command has."""
    return click.option(
        "--home",
        type=PATH,
        expose_value=False,
        callback=_use_home,
        help="Folder that holds all state. Default: RELAYDECK_HOME, else .relaydeck in the current folder.",
    )(command)


def as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)
