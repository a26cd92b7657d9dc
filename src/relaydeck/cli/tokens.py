"""`relaydeck token …`."""

import json
import sys
import time
from contextlib import closing

from relaydeck.cli.local_changes import local_change
from relaydeck.credentials import token_changes
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.token_rows import all_tokens
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds, new_token
from relaydeck.errors import OperatorError
from relaydeck.identifiers import identifier_problem
from relaydeck.settings import read_settings
from relaydeck.store.open_store import open_store
from relaydeck.timestamps import utc


def create(name: str, kind: str, expires: str) -> None:
    if problem := identifier_problem(name):
        raise OperatorError(f"the token's name {problem}")
    lasts = _lifetime(expires) if expires else None
    token = new_token()
    with local_change() as change:
        ends = None if lasts is None else change.now + lasts
        token_changes.issue(change, name, TokenKind(kind), token, expires_at=ends)
    sys.stdout.write(token.reveal() + "\n")


def _lifetime(text: str) -> int:
    seconds = lifetime_seconds(text)
    if seconds is None:
        raise OperatorError(f"--expires must be {LIFETIMES}")
    return seconds


def revoke(name: str) -> None:
    with local_change() as change:
        if not token_changes.revoke(change, name):
            raise OperatorError(f"there is no live token named {name!r}", "See 'relaydeck token list'.")
    sys.stderr.write(f"revoked {name}\n")


def show(as_json: bool) -> None:
    with closing(open_store(read_settings())) as store:
        tokens = all_tokens(store.database)
    if as_json:
        rows = [
            {
                "name": t.name,
                "kind": t.kind,
                "state": t.state(time.time()),
                "created": utc(t.created_at),
                "expires": utc(t.expires_at),
            }
            for t in tokens
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "kind", "state", "created", "expires")
    for each in tokens:
        table.add_row(
            each.name, each.kind, each.state(time.time()), utc(each.created_at), utc(each.expires_at) or "never"
        )
    Console().print(table)
