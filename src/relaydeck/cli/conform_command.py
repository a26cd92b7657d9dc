"""`relaydeck conform`: check whether a server implements the interface."""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from relaydeck.cli.options import as_json
from relaydeck.cli.output import print_note
from relaydeck.cli.target import read_token

_TOKEN_FILE = click.Path(path_type=Path, allow_dash=True)


@click.command(
    short_help="Check whether a server implements the interface.",
    epilog="Example:  relaydeck conform http://127.0.0.1:8080 --token-file token --allow-writes --notification scratch",
)
@click.argument("url")
@click.option("--token-file", type=_TOKEN_FILE, help="File with the credential, - for stdin. Default: RELAYDECK_TOKEN.")
@click.option(
    "--readonly-token-file",
    type=_TOKEN_FILE,
    help="File with a credential that may only list. Default: RELAYDECK_READONLY_TOKEN.",
)
@click.option("--token", default="", hidden=True)
@click.option("--readonly-token", default="", hidden=True)
@click.option("--allow-writes", is_flag=True, help="Also create signers (about 12, named conform-…) and update.")
@click.option(
    "--notification", default="", help="An existing notification whose url the checks may change. They put it back."
)
@click.option(
    "--replace-signing-key", is_flag=True, help="They may also replace its signing key, which nobody can put back."
)
@click.option("--relayer", default="", help="Relayer to run JSON-RPC calls through. Default: the first listed.")
@click.option("--transaction", default="", help="Encoded transaction that this relayer can estimate.")
@click.option("--fee-token", default="", help="Fee token of that estimate. Default: ETH.")
@click.option("--section", "sections", multiple=True, help="Only this section, such as 4 or 4.2. May be repeated.")
@click.option("--strict", is_flag=True, help="Exit with 1 instead of 3 when the run is incomplete.")
@click.option("--failures-only", is_flag=True, help="Show only the checks that fail.")
@click.option("--max-requests", type=click.IntRange(1), default=400, show_default=True, help="Most requests to send.")
@click.option("--max-seconds", type=click.FloatRange(1), default=120, show_default=True, help="Longest run.")
@as_json("Conformance")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write it as JUnit XML to FILE.")
def conform(
    url: str,
    token_file: Path | None,
    token: str,
    readonly_token_file: Path | None,
    readonly_token: str,
    **options: Any,
) -> None:
    """Check, from outside, whether the server at URL implements the interface, section by section.

    A check marked "contract" holds or FAILS. A check marked "ruling" is about something the contract leaves open: it
    shows what this server does and whether Relaydeck does the same.

    The exit code is 0 if the server conforms: every chosen contract check was made, and holds. It is 1 if the server
    does not conform or cannot be reached, and 3 if the run is incomplete: nothing fails, but contract checks were not
    made. The last lines name the options that they need.

    Without --allow-writes the checks only list and run JSON-RPC calls. With it they create signers, which the interface
    has no operation to delete.
    """
    from relaydeck.cli.conformance import check

    if token_file and token_file == readonly_token_file == Path("-"):
        raise click.UsageError("only one credential can be read from standard input")
    credential = _credential("token", token_file, token)
    if not credential:
        raise click.UsageError("give a credential with --token-file or RELAYDECK_TOKEN")
    _require_url(url)
    readonly = _credential("readonly-token", readonly_token_file, readonly_token)
    check(url.rstrip("/"), credential, readonly, **options)


def _credential(name: str, file: Path | None, text: str) -> str:
    if text:
        print_note(f"note: other users of this machine can see --{name} in the list of processes; use --{name}-file")
    given = text or os.environ.get(f"RELAYDECK_{name.replace('-', '_').upper()}", "")
    if file == Path("-"):
        given = sys.stdin.readline().strip()
    elif file:
        given = read_token(file).reveal()
    if given and not (given.isascii() and given.isprintable() and " " not in given):
        raise click.UsageError(f"the {name} contains a character that no header can carry")
    return given


def _require_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise click.UsageError("URL must start with http:// or https:// and name a host")
    if parts.path.rstrip("/").endswith("/api/v1"):
        raise click.UsageError("give the base address of the server as URL, without /api/v1")
