"""`relaydeck token …`."""

import time
from typing import Any

from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.cli.output import print_json, print_line, print_note, print_table
from relaydeck.credentials import token_changes
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.token_rows import Token, all_tokens
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds, new_token
from relaydeck.errors import OperatorError
from relaydeck.identifiers import identifier_problem
from relaydeck.timestamps import utc

_COLUMNS = {
    "name": lambda view: view["name"],
    "kind": lambda view: view["kind"],
    "state": lambda view: view["state"],
    "created": lambda view: view["created"],
    "expires": lambda view: view["expires"] or "never",
}


def create(name: str, kind: str, expires: str) -> None:
    if problem := identifier_problem(name):
        raise OperatorError(f"the name of a token {problem}")
    lifetime = _lifetime(expires) if expires else None
    token = new_token()
    with local_change(create=True) as change:
        expires_at = None if lifetime is None else change.now + lifetime
        token_changes.issue(change, name, TokenKind(kind), token, expires_at=expires_at)
    # The token goes to standard output alone, so that $(relaydeck token create …) holds nothing else.
    print_line(token.reveal())


def _lifetime(text: str) -> int:
    seconds = lifetime_seconds(text)
    if seconds is None:
        raise OperatorError(f"--expires must be {LIFETIMES}")
    return seconds


def revoke(name: str) -> None:
    with local_change() as change:
        if not token_changes.revoke(change, name):
            raise OperatorError(f"no live token is named {name}", "See 'relaydeck token list'.")
    print_note(f"revoked {name}")


def show(as_json: bool) -> None:
    with existing_store() as store:
        views = [_view(token) for token in all_tokens(store.database)]
    if as_json:
        print_json(views)
    else:
        print_table(views, _COLUMNS)


def _view(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "kind": token.kind,
        "state": token.state(time.time()),
        "created": utc(token.created_at),
        "expires": utc(token.expires_at),
    }
