"""`relaydeck conform`: check whether a server implements the interface."""

from pathlib import Path
from typing import Any

import click

from relaydeck.cli.options import as_json


@click.command(
    short_help="Check whether a server implements the interface.",
    epilog="Example:  relaydeck conform http://127.0.0.1:8080 --token-file token --allow-writes --notification scratch",
)
@click.argument("url")
@click.option("--token", envvar="RELAYDECK_TOKEN", default="", help="Credential to check with, or RELAYDECK_TOKEN.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with that credential. Other users of this machine can see a command line.",
)
@click.option(
    "--readonly-token",
    envvar="RELAYDECK_READONLY_TOKEN",
    default="",
    help="A credential that may only list, or RELAYDECK_READONLY_TOKEN.",
)
@click.option("--allow-writes", is_flag=True, help="Also create signers (about 20, named conform-…) and update.")
@click.option("--notification", default="", help="A notification whose url and signing key the checks may change.")
@click.option("--relayer", default="", help="Relayer to run JSON-RPC calls through. Default: the first listed.")
@click.option("--transaction", default="", help="Encoded transaction that this relayer can estimate.")
@click.option("--fee-token", default="", help="Fee token of that estimate. Default: ETH.")
@click.option("--section", "sections", multiple=True, help="Only this section, such as 4.2. May be repeated.")
@click.option("--max-requests", type=click.IntRange(1), default=400, show_default=True, help="Most requests to send.")
@click.option("--max-seconds", type=click.FloatRange(1), default=120, show_default=True, help="Longest run.")
@as_json("Conformance")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write it as JUnit XML to FILE.")
def conform(url: str, token: str, token_file: Path | None, **options: Any) -> None:
    """Check, from outside, whether the server at URL implements the interface, section by section.

    A check marked "contract" holds or FAILS; one failure makes the command exit with 1. A check marked "ruling" is
    about something the contract leaves open: it shows what this server does and whether Relaydeck does the same.

    Without --allow-writes the checks only list and run JSON-RPC calls. With it they create signers, which the interface
    has no operation to delete.
    """
    from relaydeck.cli.conformance import check

    credential = token_file.read_text().strip() if token_file else token
    if not credential:
        raise click.UsageError("give a credential with --token-file, --token or RELAYDECK_TOKEN")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("URL must start with http:// or https://")
    check(url.rstrip("/"), credential, **options)
