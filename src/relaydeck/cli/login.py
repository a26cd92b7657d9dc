"""Stores and removes profiles. A token is verified before it is stored, and never printed."""

import os
import sys
from pathlib import Path

import click

from relaydeck.cli import json_shapes
from relaydeck.cli.output import print_change, print_fields, print_json, print_notes
from relaydeck.cli.remote.connection import Connection, is_unencrypted
from relaydeck.cli.remote.profiles import Profile, profiles_path, read_profiles, remove_profile, save_profile
from relaydeck.cli.target import read_token
from relaydeck.client.models import Token
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret


def log_in(url: str, name: str, token_file: Path | None, as_json: bool) -> None:
    token = _token(token_file)
    Connection(url, token).get(
        list[Token], "tokens", per_page=1
    )  # raises unless the server accepts it as an admin token
    save_profile(Profile(name, url, token.reveal()))
    if is_unencrypted(url):
        print_notes(["http:// sends the token unencrypted; use https:// outside this machine"])
    print_change(
        json_shapes.Profile(name, url),
        as_json,
        f"stored profile {name} in {profiles_path()}; use it with --profile {name} or RELAYDECK_PROFILE={name}",
    )


def log_out(name: str, as_json: bool) -> None:
    remove_profile(name)
    print_change(json_shapes.RemovedProfile(name), as_json, f"removed profile {name}")


def show_profiles(as_json: bool) -> None:
    views = [{"name": each.name, "url": each.url} for each in read_profiles().values()]
    if as_json:
        print_json(views)
    else:
        print_fields(views, ("name", "url"))


def _token(token_file: Path | None) -> Secret:
    if token_file:
        return read_token(token_file)
    if token := os.environ.get("RELAYDECK_TOKEN"):
        return Secret(token)
    if not sys.stdin.isatty():
        raise OperatorError("there is no terminal to ask for the token", "Set RELAYDECK_TOKEN, or pass --token-file.")
    return Secret(click.prompt("Admin token", hide_input=True, err=True).strip())
