"""`relaydeck token …`."""

from relaydeck.cli.json_shapes import IssuedToken, Revoked
from relaydeck.cli.output import print_change, print_json, print_outcome, print_table
from relaydeck.cli.target import backend
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds
from relaydeck.errors import OperatorError
from relaydeck.identifiers import identifier_problem

_MANY = 1_000_000  # a list of tokens is shown whole
_COLUMNS = {
    "name": lambda view: view["name"],
    "kind": lambda view: view["kind"],
    "state": lambda view: view["state"],
    "created": lambda view: view["created_at"],
    "expires": lambda view: view["expires_at"] or "never",
    "proven by": lambda view: "an upgrade" if view.get("migrated") else "its creation",
}


def create(name: str, kind: str, expires: str, as_json: bool) -> None:
    if problem := identifier_problem(name):
        raise OperatorError(f"the name of a token {problem}")
    if expires and lifetime_seconds(expires) is None:
        raise OperatorError(f"--expires must be {LIFETIMES}")
    # The token goes to standard output alone, so that $(relaydeck token create …) holds nothing else.
    token = backend().tokens.create(name, kind, expires)
    print_outcome(IssuedToken(name, kind, token), as_json, token)


def revoke(name: str, as_json: bool) -> None:
    if not backend().tokens.revoke(name):
        raise OperatorError(f"no live token is named {name}", "See 'relaydeck token list'.")
    print_change(Revoked(name), as_json, f"revoked {name}")


def show(filters: dict[str, str], as_json: bool) -> None:
    views = backend().records.list_records("tokens", filters, _MANY).bodies
    if as_json:
        print_json(views)
    else:
        print_table(views, _COLUMNS)
