"""Tokens issued and withdrawn, each with its row in the audit log."""

import re

from relaydeck.http import tokens
from relaydeck.http.tokens import Kind
from relaydeck.secret import Secret
from relaydeck.store.change_context import ChangeContext

_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def span_seconds(text: str) -> int | None:
    """`45m`, `12h`, `30d` or `8w` in seconds; None for anything else."""
    match = _SPAN.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


def issue(context: ChangeContext, name: str, kind: Kind, token: Secret, *, expires_at: int | None = None) -> None:
    """Raises OperatorError when a live token has that name."""
    tokens.add(context.transaction, name, kind, token, now=context.now, expires_at=expires_at)
    context.created("token", name, {"kind": kind, "expires_at": expires_at})


def withdraw(context: ChangeContext, name: str) -> bool:
    """Whether there was a live token of that name."""
    revoked = tokens.revoke(context.transaction, name, now=context.now)
    if revoked:
        context.did("token.revoked", name)
    return revoked
