"""Issue and revoke tokens, each change with its entry in the audit log."""

from typing import NamedTuple

from relaydeck.credentials import token_rows
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import new_token
from relaydeck.errors import RecordExists
from relaydeck.secret import Secret
from relaydeck.store.change_context import ChangeContext


class IssuedToken(NamedTuple):
    token: Secret
    expires_at: int | None


def issue(context: ChangeContext, name: str, kind: TokenKind, token: Secret, *, expires_at: int | None = None) -> None:
    """Raises OperatorError when a token of that name exists and is not revoked."""
    token_rows.add(context.transaction, context.vault.proofs, name, kind, token, now=context.now, expires_at=expires_at)
    context.created("token", name, {"kind": kind.value, "expires_at": expires_at})


def issue_new(context: ChangeContext, name: str, kind: TokenKind, seconds: int | None) -> IssuedToken:
    """Valid for so many seconds; None: forever. Raises RecordExists while a token of that name is not revoked."""
    if token_rows.is_taken(context.transaction, name):
        raise RecordExists("token")
    token, expires_at = new_token(), None if seconds is None else context.now + seconds
    issue(context, name, kind, token, expires_at=expires_at)
    return IssuedToken(token, expires_at)


def revoke(context: ChangeContext, name: str) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    revoked = token_rows.revoke(context.transaction, context.vault.proofs, name, now=context.now)
    if revoked:
        context.performed("token.revoked", name)
    return revoked
