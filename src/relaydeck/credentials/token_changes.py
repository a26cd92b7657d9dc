"""Issue and revoke tokens, each change with its entry in the audit log."""

from relaydeck.credentials import token_rows
from relaydeck.credentials.kinds import TokenKind
from relaydeck.secret import Secret
from relaydeck.store.change_context import ChangeContext


def issue(context: ChangeContext, name: str, kind: TokenKind, token: Secret, *, expires_at: int | None = None) -> None:
    """Raises OperatorError when a token of that name exists and is not revoked."""
    token_rows.add(context.transaction, context.vault.proofs, name, kind, token, now=context.now, expires_at=expires_at)
    context.created("token", name, {"kind": kind.value, "expires_at": expires_at})


def revoke(context: ChangeContext, name: str) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    revoked = token_rows.revoke(context.transaction, context.vault.proofs, name, now=context.now)
    if revoked:
        context.performed("token.revoked", name)
    return revoked
