"""`relaydeck login`, `logout` and `profile list`: servers by name."""

from pathlib import Path

import click

from relaydeck.cli.options import PATH, as_json

_NAME = click.option("--profile", "name", metavar="NAME", default="default", show_default=True, help="Its name.")


@click.command(epilog="Example:  relaydeck login https://relay.example.com --profile production")
@click.argument("url")
@_NAME
@click.option("--token-file", type=PATH, help="File with the token. Default: RELAYDECK_TOKEN, else the command asks.")
@as_json("Profile")
def login(url: str, name: str, token_file: Path | None, as_json: bool) -> None:
    """Store a server and an admin token for it as a profile. The server has to accept the token first.

    The profile is stored in $XDG_CONFIG_HOME/relaydeck/profiles.json (default: ~/.config), which only you may read.
    Use it with --profile NAME, or set RELAYDECK_PROFILE.
    """
    from relaydeck.cli.login import log_in

    log_in(url, name, token_file, as_json)


@click.command()
@_NAME
@as_json("RemovedProfile")
def logout(name: str, as_json: bool) -> None:
    """Remove a stored profile. The token stays valid: revoke it with 'relaydeck token revoke'."""
    from relaydeck.cli.login import log_out

    log_out(name, as_json)


@click.group()
def profile() -> None:
    """List the servers that 'relaydeck login' has stored."""


@profile.command("list")
@as_json("Profile", many=True)
def profile_list(as_json: bool) -> None:
    """List every profile with its name and URL. Tokens are not shown."""
    from relaydeck.cli.login import show_profiles

    show_profiles(as_json)


LOGIN_COMMANDS: tuple[click.Command, ...] = (login, logout, profile)
