"""`relaydeck login`, `logout` and `profile list`. What is stored was verified before, and is never printed."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from relaydeck.api.operations import BY_NAME
from relaydeck.cli.options import PATH, as_json
from relaydeck.cli.output import Shape, about, columns, print_change, print_notes, print_table, show
from relaydeck.cli.profiles import (
    StoredProfile,
    profiles_path,
    read_profile,
    read_profiles,
    remove_profile,
    save_profile,
)
from relaydeck.cli.server_target import ServerTarget, is_unencrypted
from relaydeck.cli.target import read_token
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret


class Profile(Shape, frozen=True):
    name: Annotated[str, about("Its name.")]
    url: Annotated[str, about("The address of the server.")]


class RemovedProfile(Shape, frozen=True):
    name: Annotated[str, about("The profile that was removed.")]


_NAME = click.option(
    "--profile", "name", metavar="NAME", default="default", show_default=True, help="Name of the profile."
)


@click.command(epilog="Example:  relaydeck login https://relay.example.com --profile production --sso")
@click.argument("url")
@_NAME
@click.option("--token-file", type=PATH, help="File with the token. Default: RELAYDECK_TOKEN, else the command asks.")
@click.option("--sso", is_flag=True, help="Sign in with a browser, at the server's identity provider.")
@as_json(Profile)
def login(url: str, name: str, token_file: Path | None, sso: bool, as_json: bool) -> None:
    """Store a server and a token for it as a profile, once the server has accepted the token.

    With --sso, the profile holds your session instead. The session ends like one of the console: when you lose access,
    when you do not use it, and with 'relaydeck logout'. 'relaydeck whoami' shows who you are and when your access ends.
    The command waits 5 minutes for the browser.

    The profile is stored in $XDG_CONFIG_HOME/relaydeck/profiles.json (default: ~/.config), which only you may read.
    Use it with --profile NAME, or set RELAYDECK_PROFILE.
    """
    if sso and token_file:
        raise click.UsageError("--sso and --token-file exclude each other")
    if sso:
        from relaydeck.cli.single_sign_on import sign_in  # other commands start without it

        token = sign_in(url)
    else:
        token = _token(token_file)
    ServerTarget(url, token).call(
        BY_NAME["list_networks"], query={"per_page": "1"}
    )  # raises unless it accepts the token
    save_profile(name, StoredProfile(url, token.reveal()))
    if is_unencrypted(url):
        print_notes(["http:// sends the token unencrypted; use https:// outside this machine"])
    print_change(
        Profile(name, url),
        as_json,
        f"stored profile {name} in {profiles_path()}; use it with --profile {name} or RELAYDECK_PROFILE={name}",
    )


@click.command()
@_NAME
@as_json(RemovedProfile)
def logout(name: str, as_json: bool) -> None:
    """Remove a stored profile. If it holds a session of 'login --sso', end the session.

    A token stays valid: revoke it with 'relaydeck token revoke'.
    """
    from relaydeck.cli.single_sign_on import SESSION, sign_out

    found = read_profile(name)
    remove_profile(name)
    if found.token.startswith(SESSION):
        sign_out(found.url, Secret(found.token))
    print_change(RemovedProfile(name), as_json, f"removed profile {name}")


profile = click.Group("profile")


@profile.command("list")
@as_json(Profile, many=True)
def profile_list(as_json: bool) -> None:
    """List every profile with its name and URL. Tokens are not shown."""
    found = [{"name": name, "url": each.url} for name, each in read_profiles().items()]
    show(found, as_json, partial(print_table, columns=columns("name", "url")))


def _token(token_file: Path | None) -> Secret:
    if token_file:
        return read_token(token_file)
    if token := os.environ.get("RELAYDECK_TOKEN"):
        return Secret(token)
    if not sys.stdin.isatty():
        raise OperatorError("there is no terminal to ask for the token", "Set RELAYDECK_TOKEN, or pass --token-file.")
    return Secret(click.prompt("Token", hide_input=True, err=True).strip())
