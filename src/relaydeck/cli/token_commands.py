"""The commands about access tokens."""

import click

from relaydeck.cli.filter_options import filters, given
from relaydeck.cli.options import anywhere, as_json
from relaydeck.credentials.kinds import KIND_NAMES, describe_kinds


@click.group()
def token() -> None:
    """Create, list and revoke access tokens."""


@token.command("create", epilog="Example:  TOKEN=$(relaydeck token create ci --kind readonly --expires 30d)")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(KIND_NAMES),
    default="api",
    show_default=True,
    help=f"What it may do: {describe_kinds()}.",
)
@click.option("--expires", default="", help="Lifetime: 45m, 12h, 30d, 8w. Default: the token does not expire.")
@as_json("IssuedToken")
@anywhere
def token_create(name: str, kind: str, expires: str, as_json: bool) -> None:
    """Create a token called NAME and print it on standard output. It is not shown again."""
    from relaydeck.cli.token_actions import create

    create(name, kind, expires, as_json)


@token.command("list", epilog="Example:  relaydeck token list --kind admin --state live")
@filters("tokens")
@as_json("Token", many=True)
@anywhere
def token_list(as_json: bool, **query: str | None) -> None:
    """List tokens with their names, kinds and states, oldest first."""
    from relaydeck.cli.token_actions import show

    show(given(query), as_json)


@token.command("revoke", epilog="Example:  relaydeck token revoke ci")
@click.argument("name")
@as_json("Revoked")
@anywhere
def token_revoke(name: str, as_json: bool) -> None:
    """Revoke the token called NAME. The next request that uses it is refused."""
    from relaydeck.cli.token_actions import revoke

    revoke(name, as_json)
