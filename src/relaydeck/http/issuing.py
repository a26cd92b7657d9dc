"""Tokens issued and withdrawn, each with its row in the audit log."""

import re

from relaydeck.http import tokens
from relaydeck.http.tokens import Kind
from relaydeck.secret import Secret
from relaydeck.store.acting import Acting

_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def span_seconds(text: str) -> int | None:
    """`45m`, `12h`, `30d` or `8w` in seconds; None for anything else."""
    match = _SPAN.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


def issue(acting: Acting, name: str, kind: Kind, token: Secret, *, expires_at: int | None = None) -> None:
    """Raises OperatorError when a live token has that name."""
    tokens.add(acting.transaction, name, kind, token, now=acting.now, expires_at=expires_at)
    acting.created("token", name, {"kind": kind, "expires_at": expires_at})


def withdraw(acting: Acting, name: str) -> bool:
    """Whether there was a live token of that name."""
    revoked = tokens.revoke(acting.transaction, name, now=acting.now)
    if revoked:
        acting.did("token.revoked", name)
    return revoked
