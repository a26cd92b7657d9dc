"""The commands for a first look: `init` and `demo`."""

from pathlib import Path

import click

from relaydeck.cli.options import PATH, as_json


@click.command(
    epilog="\b\nExamples:\n  relaydeck init\n  relaydeck init tour.toml --example demo",
    short_help="Write a commented apply file to start from.",
)
@click.argument("file", type=PATH, default="relaydeck.toml")
@click.option(
    "--example",
    type=click.Choice(["start", "demo", "laptop"]),
    default="start",
    show_default=True,
    help="start: to fill in. demo: the file of the README's tour. laptop: what 'relaydeck demo' applies.",
)
@as_json("Written")
def init(file: Path, example: str, as_json: bool) -> None:
    """Write a commented apply file to FILE (default: relaydeck.toml), for you to edit. Never overwrites a file."""
    from relaydeck.cli.examples import write_example

    write_example(file, example, as_json)


@click.command(
    epilog="\b\nExamples:\n  relaydeck demo\n  relaydeck demo --keep",
    short_help="Try Relaydeck in a temporary folder: serve, apply, estimate, deliver a webhook.",
)
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C.")
@as_json("Demo")
def demo(keep: bool, as_json: bool) -> None:
    """Try Relaydeck on this machine: serve, apply an example, estimate a fee, deliver a verified webhook.

    Starts a service in a temporary folder, a node and a webhook receiver, each on a free port of 127.0.0.1, and stops
    all of them at the end. The node is Hardhat if Node.js and Hardhat 2 are installed in the current folder; otherwise
    a minimal one that comes with Relaydeck, which answers estimates with fixed prices. Your settings and your data are
    neither read nor changed.
    """
    from relaydeck.cli.demo import run

    run(keep=keep, as_json=as_json)


START_COMMANDS: tuple[click.Command, ...] = (init, demo)
