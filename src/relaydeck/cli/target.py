"""Where a command works: on the home folder, or on a server over HTTP. Both run the operations of the admin interface.

A command works on the home unless a server is named: --server or RELAYDECK_URL with a token, or --profile or
RELAYDECK_PROFILE for one that 'relaydeck login' has stored. An option wins over the environment.
"""

import os
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from relaydeck.cli.reply import Json, Reply
from relaydeck.secret import Secret

if TYPE_CHECKING:
    from relaydeck.api.operation import Operation
    from relaydeck.cli.home_target import HomeTarget
    from relaydeck.cli.server_target import ServerTarget

_META = "relaydeck.cli.target"
_PAGE = 1000
_REDUCED = "per_page was reduced"  # a note about a page, of no use to the reader of a whole list


def list_records(operation: "Operation", filters: Mapping[str, str], limit: int) -> tuple[list[Json], Reply]:
    """The first records of a list, and a reply with the notes of all pages and, of a list in pages, the total."""
    end = "before" if filters.get("order") == "newest" else "after"
    size, found, notes, place = min(limit, _PAGE), list[Json](), list[str](), dict[str, str]()
    for number in count(1):
        if operation.is_paged:
            place = {"page": str(number)}
        reply = target().call(operation, query={**filters, **place, "per_page": str(size)})
        found += reply.data
        notes += [note for note in reply.notes if not note.startswith(_REDUCED)]
        if not reply.data or len(found) >= (min(limit, reply.total) if operation.is_paged else limit):
            break
        if operation.is_paged:
            size = reply.per_page  # which may be smaller than it was to be
        else:
            place = {end: str(found[-1]["sequence"])}
    return found[:limit], reply._replace(notes=tuple(notes))


class Server(NamedTuple):
    url: str
    token: Secret


class Options(NamedTuple):
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


def target() -> "HomeTarget | ServerTarget":
    """Both call operations, and raise OperatorError for whatever fails and Refused for what is refused.

    Their `plan`, `apply`, `export` and `findings` differ: an apply on the home may create it and shows its progress,
    and a server takes minutes for a large file. Raises UsageError when the options or the environment contradict each
    other.
    """
    return _target(chosen_server(given_options(), os.environ))


@cache
def _target(server: Server | None) -> "HomeTarget | ServerTarget":
    if server is None:
        from relaydeck.cli.home_target import HomeTarget

        return HomeTarget()
    from relaydeck.cli.server_target import ServerTarget

    return ServerTarget(server.url, server.token)


def require_home() -> None:
    """Raises UsageError when a server is named for a command that works on the home only."""
    options = given_options()
    named = (options.server, options.profile, os.environ.get("RELAYDECK_URL"), os.environ.get("RELAYDECK_PROFILE"))
    if options.home is None and any(named):
        raise click.UsageError(
            "this command works on the home folder only, not on a server: run it on the machine that holds the home,"
            " and pass --home if RELAYDECK_URL or RELAYDECK_PROFILE is set"
        )


def chosen_server(options: Options, environment: Mapping[str, str]) -> Server | None:
    if options.home is not None and (options.server or options.profile):
        raise click.UsageError("--home and a server exclude each other: give one of --home, --server and --profile")
    if options.server and options.profile:
        raise click.UsageError("--server and --profile exclude each other")
    if options.home is not None:
        return None
    if options.server or (not options.profile and environment.get("RELAYDECK_URL")):
        return Server(options.server or environment["RELAYDECK_URL"], _token(options, environment))
    if name := options.profile or environment.get("RELAYDECK_PROFILE"):
        from relaydeck.cli.profiles import read_profile

        profile = read_profile(name)
        return Server(profile.url, read_token(options.token_file) if options.token_file else Secret(profile.token))
    if options.token_file:
        raise click.UsageError("--token-file is for a server: name it with --server or RELAYDECK_URL")
    return None


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
