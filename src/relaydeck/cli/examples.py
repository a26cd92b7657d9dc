"""`relaydeck init`: example files that come with the package."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import click
from click.shell_completion import CompletionItem

from relaydeck.cli.options import PATH, as_json
from relaydeck.cli.output import Shape, about, print_change, write_new_file
from relaydeck.networks.chains import chain_problem, known_chains


class Written(Shape, frozen=True):
    file: Annotated[str, about("The file that was written.")]
    example: Annotated[str, about("The example that it contains.")]


def example_text(name: str) -> str:
    return (files("relaydeck") / "examples" / f"{name}.toml").read_text("utf-8")


class ChainName(click.ParamType[str]):
    """The name of a chain that a network can name. A refused one is an error with the reason."""

    name = "chain"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if problem := chain_problem(value):
            self.fail(problem if problem.startswith(value) else f"{value!r} {problem}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        presets = known_chains().presets
        found = [name for name in sorted(presets) if name.startswith(incomplete)]
        return [CompletionItem(name, help=f"chain id {presets[name].chain_id}") for name in found]


def _on_chain(text: str, chain: str) -> str:
    text = text.replace('0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"\n#decimals', '0x…"\n#decimals')
    name, variable = chain.replace("-", " ").capitalize(), chain.replace("-", "_").upper()
    return text.replace("Sepolia", name).replace("SEPOLIA", variable).replace("sepolia", chain)


@click.command(
    epilog="\b\nExamples:\n  relaydeck init\n  relaydeck init --chain base\n  relaydeck init tour.toml --example demo"
)
@click.argument("file", type=PATH, default="relaydeck.toml")
@click.option(
    "--example",
    type=click.Choice(["start", "demo", "laptop"]),
    default="start",
    show_default=True,
    help="start: to fill in. demo: the file of the tour. laptop: what 'relaydeck demo' applies.",
)
@click.option("--chain", type=ChainName(), help="The chain of the network, for 'start'. Default: sepolia.")
@as_json(Written)
def init(file: Path, example: str, chain: str | None, as_json: bool) -> None:
    """Write a commented apply file to FILE (default: relaydeck.toml), for you to edit. Never overwrites a file."""
    text = example_text(example)
    if chain is not None:
        if example != "start":
            raise click.UsageError("--chain goes with --example start")
        text = _on_chain(text, chain)
    content = text.replace("apply FILE", f"apply {file}").replace("examples/demo.toml", str(file))
    write_new_file(file, content.encode())  # private: secrets may be written into it later
    note = f"wrote {file}; edit it, then see what it would change with: relaydeck apply {file} --plan"
    print_change(Written(str(file), example), as_json, note)
