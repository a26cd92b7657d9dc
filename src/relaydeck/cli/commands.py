"""What can be typed. Each command imports what it needs when it runs, so that `--help` and `serve` start fast."""

import os
from pathlib import Path
from typing import Annotated

import typer

from relaydeck import __version__

cli = typer.Typer(
    name="relaydeck",
    help="Manage relayers, their signers and their notifications, and serve them over HTTP.",
    epilog="Start with:  relaydeck serve   then, in another terminal:  relaydeck apply examples/demo.toml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
token = typer.Typer(help="Issue, list and revoke access tokens.", no_args_is_help=True)
key = typer.Typer(help="Look after the keys that seal secrets at rest.", no_args_is_help=True)
cli.add_typer(token, name="token")
cli.add_typer(key, name="key")

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder that holds all state. Default: RELAYDECK_HOME, else .relaydeck here."),
]


def _use(home: Path | None) -> None:
    if home is not None:
        os.environ["RELAYDECK_HOME"] = str(home)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"relaydeck {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@cli.command(epilog="Example:  relaydeck serve --port 8080 --workers 2")
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8080,
    workers: Annotated[int, typer.Option(help="Worker processes.", min=1, max=64)] = 1,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM); serve HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate (PEM).")] = None,
    home: Home = None,
) -> None:
    """Serve the interface until told to stop (SIGTERM or Ctrl-C)."""
    _use(home)
    from relaydeck.cli.serve import run

    run(host, port, workers, tls_cert, tls_key)


@token.command("create", epilog="Example:  TOKEN=$(relaydeck token create ci --kind readonly --expires 30d)")
def token_create(
    name: Annotated[str, typer.Argument(help="What the token is called in lists and logs.")],
    kind: Annotated[
        str, typer.Option(help="api (the five operations), readonly (the two lists) or admin (everything).")
    ] = "api",
    expires: Annotated[str, typer.Option(help="When it ends: 45m, 12h, 30d, 8w. Default: never.")] = "",
    home: Home = None,
) -> None:
    """Issue a token and print it, alone, on standard output. It is not shown again."""
    _use(home)
    from relaydeck.cli.tokens import create

    create(name, kind, expires)


@token.command("list")
def token_list(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False, home: Home = None
) -> None:
    """List every token that was issued: name, kind and state."""
    _use(home)
    from relaydeck.cli.tokens import show

    show(as_json)


@token.command("revoke", epilog="Example:  relaydeck token revoke ci")
def token_revoke(name: Annotated[str, typer.Argument(help="The token's name.")], home: Home = None) -> None:
    """Revoke a token; it is refused from the next request on."""
    _use(home)
    from relaydeck.cli.tokens import revoke

    revoke(name)


@key.command("rotate", epilog="Safe while the service runs; run it again if it was interrupted.")
def key_rotate(home: Home = None) -> None:
    """Make a new data key and seal every secret anew with it."""
    _use(home)
    from relaydeck.cli.keys import rotate

    rotate()


@cli.command(
    epilog="Examples:  relaydeck apply examples/demo.toml --plan    relaydeck export | relaydeck apply - --plan"
)
def apply(
    file: Annotated[str, typer.Argument(help="A TOML file, or - for standard input.")],
    plan: Annotated[bool, typer.Option("--plan", help="Print what would change, and change nothing.")] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Also remove what an earlier apply created and the file no longer names."),
    ] = False,
    home: Home = None,
) -> None:
    """Make networks, signers, notifications and relayers as a file describes them, all or nothing."""
    _use(home)
    from relaydeck.cli.provisioning import apply_file

    apply_file(file, plan_only=plan, prune=prune)


@cli.command(epilog="Example:  relaydeck export > relaydeck.toml")
def export(home: Home = None) -> None:
    """Print the present state as an apply file. Secrets appear as references to be filled in."""
    _use(home)
    from relaydeck.cli.provisioning import export_state

    export_state()


@cli.command(epilog="Example:  relaydeck estimate sepolia-1 0x02f8… --token USDC")
def estimate(
    relayer: Annotated[str, typer.Argument(help="The relayer's id.")],
    transaction: Annotated[str, typer.Argument(help="The encoded transaction, 0x-hex; - reads standard input.")],
    token: Annotated[str, typer.Option(help="Fee token: symbol or address. Default: the native coin.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    home: Home = None,
) -> None:
    """Compute a fee estimate here, without a running service, and print every step of it."""
    _use(home)
    from relaydeck.cli.estimate import explain

    explain(relayer, transaction, token, as_json)


@cli.command()
def doctor(home: Home = None) -> None:
    """Check home, permissions, database, keys, clock and every RPC URL; say what is wrong and what to do."""
    _use(home)
    from relaydeck.cli.doctor import examine

    examine()
