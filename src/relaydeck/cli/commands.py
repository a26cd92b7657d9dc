"""The `relaydeck` command line. A command imports its code when it runs, so that `--help` and `serve` start fast."""

from pathlib import Path

import click

from relaydeck import __version__
from relaydeck.cli.conform import conform
from relaydeck.cli.database_commands import DATABASE_COMMANDS
from relaydeck.cli.options import PATH, as_json, at_home
from relaydeck.cli.resource_commands import GROUPS
from relaydeck.cli.token_commands import token


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with 'relaydeck serve', then, in another terminal, 'relaydeck apply examples/demo.toml'.",
)
@click.version_option(__version__, message="relaydeck %(version)s")
def cli() -> None:
    """Manage relayers, their signers and their notifications, and serve them over HTTP."""


@cli.command(epilog="Example:  relaydeck serve --port 8080 --workers 2")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--tls-cert", type=PATH, help="Certificate chain (PEM), to serve HTTPS. Requires --tls-key.")
@click.option("--tls-key", type=PATH, help="Private key of the certificate (PEM).")
@at_home
def serve(host: str, port: int, workers: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Serve the HTTP interface until SIGTERM or Ctrl-C."""
    from relaydeck.cli.serve import run

    run(host, port, workers, tls_cert, tls_key)


@cli.command(
    short_help="Create and change networks, signers, notifications and relayers from a file.",
    epilog="\b\nExamples:\n  relaydeck apply examples/demo.toml --plan\n  relaydeck export | relaydeck apply - --plan",
)
@click.argument("file")
@click.option("--plan", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Also delete records that an earlier apply created and FILE omits.")
@at_home
def apply(file: str, plan: bool, prune: bool) -> None:
    """Create and change networks, signers, notifications and relayers as FILE describes them.

    FILE is TOML; - reads standard input. All changes are made, or none. Records that FILE does not mention stay as
    they are. A secret is a string, { env = "NAME" } or { file = "path" }.
    """
    from relaydeck.cli.provisioning import apply_file

    apply_file(file, plan_only=plan, prune=prune)


@cli.command(epilog="Example:  relaydeck export > relaydeck.toml")
@at_home
def export() -> None:
    """Print the stored records as an apply file. In place of each secret it contains a reference to fill in."""
    from relaydeck.cli.provisioning import export_state

    export_state()


@cli.command(
    short_help="Compute a fee estimate and print every step.",
    epilog="Example:  relaydeck estimate sepolia-1 0x02f8... --token USDC",
)
@click.argument("relayer")
@click.argument("transaction")
@click.option("--token", default="", help="Fee token: symbol or address. Default: the native coin.")
@as_json
@at_home
def estimate(relayer: str, transaction: str, token: str, as_json: bool) -> None:
    """Estimate the fee of TRANSACTION through RELAYER and print every step. Works without a running service.

    TRANSACTION is an encoded transaction in 0x-hex; - reads it from standard input.
    """
    from relaydeck.cli.estimate import explain

    explain(relayer, transaction, token, as_json)


@cli.command(short_help="Check the installation; report problems and what to do about them.")
@at_home
def doctor() -> None:
    """Check home, permissions, disk, clock, database, keys, audit log and every RPC URL.

    Reports each problem with what to do about it. Changes nothing. Exits 1 if a check fails.
    """
    from relaydeck.cli.doctor import examine

    examine()


for command in (token, *GROUPS, *DATABASE_COMMANDS, conform):
    cli.add_command(command)
