"""What can be typed. Each command imports what it needs when it runs, so that `--help` and `serve` start fast."""

from pathlib import Path

import click

from relaydeck import __version__
from relaydeck.cli.copying_commands import COPYING
from relaydeck.cli.options import PATH, at_home
from relaydeck.cli.resource_commands import GROUPS
from relaydeck.credentials.kinds import KIND_NAMES, describe_kinds


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with 'relaydeck serve', then, in another terminal, 'relaydeck apply examples/demo.toml'.",
)
@click.version_option(__version__, message="relaydeck %(version)s")
def cli() -> None:
    """Manage relayers, their signers and their notifications, and serve them over HTTP."""


@cli.group()
def token() -> None:
    """Issue, list and revoke access tokens."""


@cli.group()
def key() -> None:
    """Look after the keys that seal secrets at rest."""


@cli.command(epilog="Example:  relaydeck serve --port 8080 --workers 2")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--tls-cert", type=PATH, help="Certificate chain (PEM): serve HTTPS. Goes with --tls-key.")
@click.option("--tls-key", type=PATH, help="Private key of the certificate (PEM).")
@at_home
def serve(host: str, port: int, workers: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Serve the interface until told to stop (SIGTERM or Ctrl-C)."""
    from relaydeck.cli.serve import run

    run(host, port, workers, tls_cert, tls_key)


@token.command("create", epilog="Example:  TOKEN=$(relaydeck token create ci --kind readonly --expires 30d)")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(KIND_NAMES),
    default="api",
    show_default=True,
    help=f"What it may do: {describe_kinds()}.",
)
@click.option("--expires", default="", help="When it ends: 45m, 12h, 30d, 8w. Default: never.")
@at_home
def token_create(name: str, kind: str, expires: str) -> None:
    """Issue a token called NAME and print it, alone, on standard output. It is not shown again."""
    from relaydeck.cli.tokens import create

    create(name, kind, expires)


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@at_home
def token_list(as_json: bool) -> None:
    """List every token that was issued: name, kind and state."""
    from relaydeck.cli.tokens import show

    show(as_json)


@token.command("revoke", epilog="Example:  relaydeck token revoke ci")
@click.argument("name")
@at_home
def token_revoke(name: str) -> None:
    """Revoke the token called NAME; it is refused from the next request on."""
    from relaydeck.cli.tokens import revoke

    revoke(name)


@key.command("rotate", epilog="Safe while the service runs; run it again if it was interrupted.")
@at_home
def key_rotate() -> None:
    """Make a new data key and seal every secret anew with it."""
    from relaydeck.cli.keys import rotate

    rotate()


@cli.command(
    short_help="Provision networks, signers, notifications and relayers from a file.",
    epilog="Examples:  relaydeck apply examples/demo.toml --plan    relaydeck export | relaydeck apply - --plan",
)
@click.argument("file")
@click.option("--plan", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Also remove what an earlier apply created and FILE no longer names.")
@at_home
def apply(file: str, plan: bool, prune: bool) -> None:
    """Make networks, signers, notifications and relayers as FILE (TOML; - for standard input) describes them.

    All of it happens, or nothing. What FILE does not mention is left alone. A secret may be given as it is, as
    { env = "NAME" } or as { file = "path" }.
    """
    from relaydeck.cli.provisioning import apply_file

    apply_file(file, plan_only=plan, prune=prune)


@cli.command(epilog="Example:  relaydeck export > relaydeck.toml")
@at_home
def export() -> None:
    """Print the present state as an apply file. Secrets appear as references to be filled in."""
    from relaydeck.cli.provisioning import export_state

    export_state()


@cli.command(
    short_help="Compute a fee estimate and print every step of it.",
    epilog="Example:  relaydeck estimate sepolia-1 0x02f8... --token USDC",
)
@click.argument("relayer")
@click.argument("transaction")
@click.option("--token", default="", help="Fee token: symbol or address. Default: the native coin.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@at_home
def estimate(relayer: str, transaction: str, token: str, as_json: bool) -> None:
    """Estimate here, without a running service, what TRANSACTION costs through RELAYER; print every step.

    TRANSACTION is encoded as 0x-hex; - reads it from standard input.
    """
    from relaydeck.cli.estimate import explain

    explain(relayer, transaction, token, as_json)


@cli.command(short_help="Check everything; say what is wrong and what to do.")
@at_home
def doctor() -> None:
    """Check home, permissions, database, keys, audit log, clock and every RPC URL; say what is wrong and what to do."""
    from relaydeck.cli.doctor import examine

    examine()


for command in (*GROUPS, *COPYING):
    cli.add_command(command)
