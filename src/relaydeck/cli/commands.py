"""The `relaydeck` command line. A command imports its code when it runs, so that `--help` starts fast."""

from pathlib import Path

import click

from relaydeck.cli.conform_command import conform
from relaydeck.cli.database_commands import DATABASE_COMMANDS
from relaydeck.cli.login_commands import LOGIN_COMMANDS
from relaydeck.cli.options import PATH, anywhere, as_json, at_home
from relaydeck.cli.resource_commands import RESOURCE_COMMANDS
from relaydeck.cli.serve_command import cli
from relaydeck.cli.start_commands import START_COMMANDS
from relaydeck.cli.target import require_home
from relaydeck.cli.token_commands import token

__all__ = ["cli"]


@cli.command(
    short_help="Compute a fee estimate and print every step.",
    epilog="Example:  relaydeck estimate sepolia-1 0x02f8... --token USDC",
)
@click.argument("relayer", required=False)
@click.argument("transaction", required=False)
@click.option("--token", default="", help="Fee token: symbol or address. Default: the native coin.")
@click.option("--backtest", metavar="NETWORK", help="Test the estimates of a network against what was paid on it.")
@click.option("--blocks", type=click.IntRange(1, 100_000), default=200, help="How many recent blocks to test.")
@click.option("--svg", type=PATH, help="Write a plot of the backtest to this file.")
@as_json("EstimateReport", other="Backtest", remark=" with `--backtest`")
@anywhere
def estimate(
    relayer: str | None,
    transaction: str | None,
    token: str,
    backtest: str | None,
    blocks: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Estimate the fee of TRANSACTION through RELAYER and print every step.

    TRANSACTION is an encoded transaction in 0x-hex; - reads it from standard input.

    With --backtest NETWORK and neither of the two: estimate up to three transactions of each recent block as of the
    block before, and print how far the estimates are from what was paid. The network's nodes must keep the state of
    these blocks. A backtest runs on the machine that holds the home, not on a server: it asks the nodes from there.
    """
    if backtest is not None:
        if relayer is not None:
            raise click.UsageError("--backtest takes no RELAYER and no TRANSACTION")
        require_home()
        from relaydeck.cli.backtest import run

        run(backtest, blocks, svg, as_json)
        return
    if relayer is None or transaction is None:
        raise click.UsageError("give RELAYER and TRANSACTION, or --backtest NETWORK")
    from relaydeck.cli.estimate import explain

    explain(relayer, transaction, token, as_json)


@cli.command(short_help="Check the installation; report problems and what to do about them.")
@as_json("Finding", many=True)
@anywhere
def doctor(as_json: bool) -> None:
    """Check settings, home, disk, clock, database, keys, audit log, relayers, signers, deliveries and RPC URLs.

    On a server: whether it answers and accepts the token, and the same checks as that machine finds them.

    Reports each problem with what to do about it. Changes nothing. Exits 1 if a check fails.
    """
    from relaydeck.cli.doctor import examine

    examine(as_json)


@cli.command(
    short_help="Print a link that signs you in to the console.",
    epilog="Example:  relaydeck console --open",
)
@click.option("--url", default="", help="Address of the running service (default: host and port of the settings).")
@click.option("--open", "opened", is_flag=True, help="Open the link in a browser.")
@as_json("ConsoleLink")
@at_home
def console(url: str, opened: bool, as_json: bool) -> None:
    """Print a link that signs you in to the console of a running service. It works once, for ten minutes.

    The session may change everything. In the audit log it appears as a token named after your account.
    """
    from relaydeck.cli.console_link import show_link

    show_link(url, opened=opened, as_json=as_json)


for command in (*START_COMMANDS, token, *RESOURCE_COMMANDS, *DATABASE_COMMANDS, *LOGIN_COMMANDS, conform):
    cli.add_command(command)
