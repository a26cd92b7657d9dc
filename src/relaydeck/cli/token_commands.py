"""`relaydeck token …`."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Any

import click

from relaydeck.api.operations import CREATE_TOKEN, LIST_TOKENS, REVOKE_TOKEN, ROTATE_TOKEN, WHOAMI
from relaydeck.cli.operation_commands import (
    derived_command,
    identity,
    list_command,
    operation_group,
    scope_options,
)
from relaydeck.cli.options import anywhere, as_json
from relaydeck.cli.output import Shape, about, print_change, print_notes, print_outcome, print_record
from relaydeck.cli.reply import Json, Refused
from relaydeck.cli.target import target
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds
from relaydeck.errors import OperatorError
from relaydeck.identifiers import identifier_problem
from relaydeck.roles import ROLE_NAMES, describe_roles

token = operation_group("token")


def _limits(view: Json) -> str:
    """What limits a token, as the options that `token create` takes."""
    scope = view.get("scope") or {}
    found = [f"--relayer {each}" for each in scope.get("relayers", ())]
    found += [f"--network {each}" for each in scope.get("networks", ())]
    found += [f"--label {key}={value}" for key, value in scope.get("labels", {}).items()]
    found += [f"--from {each}" for each in view.get("addresses", ())]
    found += [f"--{name} {view[name]}" for name in ("rate", "burst") if view.get(name)]
    return " ".join(found)


def _approval(view: Json) -> str:
    """Whether it may approve changes that need it: a right, which no limit takes."""
    return "yes" if view.get("approve") else ""


token.add_command(
    list_command(
        LIST_TOKENS,
        "list",
        "List tokens with their names, kinds and states, oldest first.",
        {
            "name": "name",
            "kind": "kind",
            "state": "state",
            "created": "created_at",
            "expires": lambda view: view["expires_at"] or "never",
            "limited to": _limits,
            "may approve": _approval,
            "for": "purpose",
            "made by": "made_by",
            "last used": "last_used_at",
            "from": "last_used_from",
            "proven by": lambda view: "an upgrade" if view.get("migrated") else "its creation",
        },
        epilog="Example:  relaydeck token list --kind owner --state live",
    )
)


class IssuedToken(Shape, frozen=True):
    name: Annotated[str, about("Its name.")]
    kind: Annotated[str, about("Its kind.")]
    token: Annotated[str, about("The token itself. It is not shown again.")]


class Revoked(Shape, frozen=True):
    name: Annotated[str, about("The token that was revoked.")]


@token.command("create", epilog="Example:  TOKEN=$(relaydeck token create ci --role readonly --expires 30d)")
@click.argument("name")
@click.option(
    "--role",
    "--kind",
    "kind",
    type=click.Choice(ROLE_NAMES),
    default="api",
    show_default=True,
    help=f"What it may do: {describe_roles()}.",
)
@scope_options("Only this relayer and what belongs to it", "Only relayers on this network", "Only records")
@click.option("--from", "addresses", multiple=True, help="Only from this address or CIDR range. Repeatable.")
@click.option("--rate", type=click.IntRange(1), help="Requests per second, in place of the common limit.")
@click.option("--burst", type=click.IntRange(1), help="Most requests at once, with --rate. Default: the rate.")
@click.option("--approve", is_flag=True, help="It may also approve proposed changes.")
@click.option("--for", "purpose", default="", help="Purpose, shown in lists.")
@click.option("--expires", default="", help="Lifetime: 45m, 12h, 30d, 8w. Default: the token does not expire.")
@as_json(IssuedToken)
@anywhere
def token_create(name: str, kind: str, expires: str, as_json: bool, **others: Any) -> None:
    """Create a token called NAME and print it on standard output. It is not shown again."""
    if problem := identifier_problem(name):
        raise OperatorError(f"the name of a token {problem}")
    if expires and lifetime_seconds(expires) is None:
        raise OperatorError(f"--expires must be {LIFETIMES}")
    # The token goes to standard output alone, so that $(relaydeck token create …) holds nothing else.
    given = {"name": name, "kind": kind, "expires": expires, **others}
    document = {field: value for field, value in given.items() if value}
    issued = target().call(CREATE_TOKEN, document=document).data["token"]
    print_outcome(IssuedToken(name, kind, issued), as_json, issued)


@token.command("rotate", epilog="Example:  TOKEN=$(relaydeck token rotate ci --overlap 24h)")
@identity(ROTATE_TOKEN)
@click.option("--overlap", default="", help="How long the old one still works: 45m, 12h. Default: not at all.")
@as_json(IssuedToken)
@anywhere
def token_rotate(identifier: str, overlap: str, as_json: bool) -> None:
    """Give the token called NAME a new secret and print it.

    It goes to standard output, and is not shown again.
    """
    with _naming(identifier):
        found = target().call(ROTATE_TOKEN, identifier, document={"overlap": overlap} if overlap else {}).data
    if found["old_name"]:
        print_notes([f"until the overlap ends, the old one is listed as {found['old_name']}"])
    print_outcome(IssuedToken(identifier, found["kind"], found["token"]), as_json, found["token"])


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        if refusal.status != HTTPStatus.NOT_FOUND:
            raise
        raise OperatorError(f"no live token is named {name}", "See 'relaydeck token list'.") from None


@token.command("revoke", epilog="Example:  relaydeck token revoke ci")
@identity(REVOKE_TOKEN)
@as_json(Revoked)
@anywhere
def token_revoke(identifier: str, as_json: bool) -> None:
    """Revoke the token called NAME and its old secrets.

    The next request that uses it, or an old secret of it that still works since a rotation, is refused.
    """
    with _naming(identifier):
        reply = target().call(REVOKE_TOKEN, identifier)
    print_change(Revoked(identifier), as_json, f"revoked {identifier}")
    print_notes(reply.notes)


def _print_identity(view: Json) -> None:
    until = view["expires_at"] or "no end"
    found = {"actor": view["actor"], "role": view["role"], "limited to": _limits(view)}
    found |= {"may approve": _approval(view)} if view.get("approve") else {}
    print_record(found | {"rule": view["rule"], "until": until})


whoami = derived_command(WHOAMI, "whoami", show_response=_print_identity)
