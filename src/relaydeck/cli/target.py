"""Where a command works: on the home folder, or on a server over HTTP.

A command works on the home unless a server is named: --server or RELAYDECK_URL with a token, or --profile or
RELAYDECK_PROFILE for one that 'relaydeck login' has stored. An option wins over the environment.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from relaydeck.secret import Secret

if TYPE_CHECKING:
    from relaydeck.cli.backend import Backend

_META = "relaydeck.cli.target"


class Server(NamedTuple):
    url: str
    token: Secret


class Options(NamedTuple):
    """What the command line says about it."""

    home: Path | None = None
    server: str | None = None
    token_file: Path | None = None
    profile: str | None = None


def remember(context: click.Context, options: Options) -> None:
    context.meta[_META] = options


def given_options() -> Options:
    context = click.get_current_context(silent=True)
    found: Options = context.meta.get(_META, Options()) if context else Options()
    return found


def backend() -> "Backend":
    """Raises UsageError when the options or the environment contradict each other."""
    server = chosen_server(given_options(), os.environ)
    if server is None:
        from relaydeck.cli.local import LocalBackend

        return LocalBackend()
    return _remote(server)


@cache
def _remote(server: Server) -> "Backend":
    from relaydeck.cli.remote import RemoteBackend

    return RemoteBackend(server.url, server.token)


def require_home() -> None:
    """Raises UsageError when a server is named for a command that works on the home only."""
    options = given_options()
    if options.home is None and _names_server(options, os.environ):
        raise click.UsageError(
            "this command works on the home folder only, not on a server: run it on the machine that holds the home,"
            " and pass --home if RELAYDECK_URL or RELAYDECK_PROFILE is set"
        )


def chosen_server(options: Options, environment: Mapping[str, str]) -> Server | None:
    """The server to work on; None: the home."""
    _refuse_contradictions(options)
    if options.home is not None:
        return None
    if options.server or (not options.profile and environment.get("RELAYDECK_URL")):
        return Server(options.server or environment["RELAYDECK_URL"], _token(options, environment))
    if name := options.profile or environment.get("RELAYDECK_PROFILE"):
        from relaydeck.cli.remote.profiles import read_profile

        profile = read_profile(name)
        return Server(profile.url, read_token(options.token_file) if options.token_file else Secret(profile.token))
    if options.token_file:
        raise click.UsageError("--token-file is for a server: name it with --server or RELAYDECK_URL")
    return None


def _names_server(options: Options, environment: Mapping[str, str]) -> bool:
    return bool(
        options.server or options.profile or environment.get("RELAYDECK_URL") or environment.get("RELAYDECK_PROFILE")
    )


def _refuse_contradictions(options: Options) -> None:
    if options.home is not None and (options.server or options.profile):
        raise click.UsageError("--home and a server exclude each other: give one of --home, --server and --profile")
    if options.server and options.profile:
        raise click.UsageError("--server and --profile exclude each other")


def _token(options: Options, environment: Mapping[str, str]) -> Secret:
    if options.token_file:
        return read_token(options.token_file)
    if token := environment.get("RELAYDECK_TOKEN"):
        return Secret(token)
    raise click.UsageError("a server needs a token: set RELAYDECK_TOKEN, or pass --token-file")


def read_token(path: Path) -> Secret:
    """Raises UsageError."""
    try:
        text = path.read_text("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        raise click.UsageError(f"the token file {path} cannot be read: {error.strerror}") from None
    if not text or len(text.split()) != 1:
        raise click.UsageError(f"the token file {path} does not contain exactly one token")
    return Secret(text)
