"""`relaydeck token …`."""

import json
import sys
import time
from contextlib import closing

from relaydeck.cli.local_changes import local_change
from relaydeck.errors import OperatorError
from relaydeck.http.issuing import issue, span_seconds, withdraw
from relaydeck.http.tokens import KINDS, Token, all_tokens, new_token
from relaydeck.identifiers import identifier_problem
from relaydeck.settings import read_settings
from relaydeck.store.open_store import open_store


def create(name: str, kind: str, expires: str) -> None:
    if problem := identifier_problem(name):
        raise OperatorError(f"the token's name {problem}")
    if kind not in KINDS:
        raise OperatorError(f"--kind must be one of {', '.join(KINDS)}")
    lasts = _span(expires) if expires else None
    token = new_token()
    with local_change() as change:
        issue(change, name, kind, token, expires_at=None if lasts is None else change.now + lasts)
    sys.stdout.write(token.reveal() + "\n")


def _span(text: str) -> int:
    seconds = span_seconds(text)
    if seconds is None:
        raise OperatorError("--expires must be a number and a unit: 45m, 12h, 30d or 8w")
    return seconds


def revoke(name: str) -> None:
    with local_change() as change:
        if not withdraw(change, name):
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
                "state": _state(t),
                "created": _day(t.created_at),
                "expires": _day(t.expires_at),
            }
            for t in tokens
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "kind", "state", "created", "expires")
    for each in tokens:
        table.add_row(each.name, each.kind, _state(each), _day(each.created_at), _day(each.expires_at) or "never")
    Console().print(table)


def _state(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= time.time() else "live"


def _day(moment: int | None) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
