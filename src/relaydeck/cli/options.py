"""Options that several commands share: where to work, filters, limits, questions, `--json`."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click
import msgspec

from relaydeck.cli.reply import UNCHANGED
from relaydeck.cli.target import Options, remember, require_home
from relaydeck.errors import OperatorError
from relaydeck.log import printable

Printed = type[msgspec.Struct]


def asks_first(text: str) -> Callable[..., Any]:
    """`--yes`, for a command that calls `confirm`."""
    return click.option("--yes", "-y", is_flag=True, help=text)


def confirm(action: str, *, yes: bool) -> None:
    """`action` such as `delete relayer r1`. Raises OperatorError unless the operator agrees."""
    if yes:
        return
    require_terminal(action)
    if not click.confirm(printable(f"{action[0].upper()}{action[1:]}?"), err=True):
        raise OperatorError("not confirmed", UNCHANGED)


def require_terminal(action: str) -> None:
    if not sys.stdin.isatty():
        raise OperatorError(f"to {action} without a terminal, pass --yes", UNCHANGED)


def label_pairs(labels: tuple[str, ...], *, removes: bool = False) -> dict[str, str]:
    """The values of `--label`. With `removes`, `KEY=` is one, too."""
    pairs = {key: value for key, _, value in (each.partition("=") for each in labels)}
    if not all("=" in each for each in labels) or "" in pairs or ("" in pairs.values() and not removes):
        raise click.UsageError("--label must be KEY=VALUE")
    return pairs


PATH = click.Path(path_type=Path)
_HOME = click.option(
    "--home",
    type=click.Path(path_type=Path, readable=False),  # 'doctor' reports one that cannot be read
    help="Folder that holds all state. Default: RELAYDECK_HOME, else .relaydeck in the current folder.",
)


def setting_value(value_of: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """The callback of an option that overrides a setting: it reads, and refuses, what the setting does."""

    def read(context: click.Context, option: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else value_of(text)
        except ValueError as expected:
            raise click.UsageError(f"{option.opts[0]} must be {expected}", context) from None

    return read


def _use_config(_context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        os.environ["RELAYDECK_CONFIG"] = str(path)


_CONFIG = click.option(
    "--config",
    type=PATH,
    expose_value=False,
    callback=_use_config,
    help="File with settings, in TOML. Default: RELAYDECK_CONFIG, else none.",
)
_SERVER = (
    click.option("--server", metavar="URL", help="Work on this server instead of a home. Default: RELAYDECK_URL."),
    click.option(
        "--token-file", type=PATH, help="File with a token of the server. Without it: the token in RELAYDECK_TOKEN."
    ),
    click.option(
        "--profile", metavar="NAME", help="Work on a server of 'relaydeck login'. Default: RELAYDECK_PROFILE."
    ),
)
_SERVER_NAMES = ("--server", "--token-file", "--profile")


def at_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """--home and --config, for a command that works on the home only. It refuses to run when a server is named."""

    def run(context: click.Context, options: Options) -> None:
        _use(context, options)
        require_home()

    return _with_options(command, run, (_HOME, _CONFIG, *(click.option(name, hidden=True) for name in _SERVER_NAMES)))


def serves_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """--home and --config, for the command that is the server."""
    return _with_options(command, _use, (_HOME, _CONFIG))


def anywhere(command: Callable[..., Any]) -> Callable[..., Any]:
    """--home, --config and the options that name a server, for a command that works on both."""
    return _with_options(command, _use, (_HOME, _CONFIG, *_SERVER))


def _with_options(
    command: Callable[..., Any],
    prepare: Callable[[click.Context, Options], None],
    added: Sequence[Callable[[Callable[..., Any]], Callable[..., Any]]],
) -> Callable[..., Any]:
    def run(*values: Any, **options: Any) -> Any:
        target = Options(**{name: options.pop(name) for name in Options._fields if name in options})
        prepare(click.get_current_context(), target)
        return command(*values, **options)

    decorated: Callable[..., Any] = update_wrapper(run, command)
    for option in reversed(added):
        decorated = option(decorated)
    return decorated


def _use(context: click.Context, options: Options) -> None:
    if options.home is not None:
        os.environ["RELAYDECK_HOME"] = str(options.home)
    remember(context, options)


class JsonOption(click.Option):
    """`--json`, with the record that it prints: `docs/reference/json.md` is written from it."""

    def __init__(
        self, *names: Any, shape: Printed, other: Printed | None, many: bool, remark: str, **more: Any
    ) -> None:
        super().__init__(*names, **more)
        self.shape = shape
        self.other = other
        self.many = many
        self.remark = remark


def as_json(
    shape: Printed,
    *,
    other: Printed | None = None,
    many: bool = False,
    remark: str = "",
    text: str = "Print JSON, for scripts.",
) -> Callable[..., Any]:
    """`shape`: a record of the admin API, or a `Shape`. `many`: an array of them.

    `other`: what the command prints instead in the case that `remark` describes.
    """
    declared: dict[str, Any] = {"cls": JsonOption, "shape": shape, "other": other, "many": many, "remark": remark}
    return click.option("--json", "as_json", is_flag=True, help=text, **declared)
