"""Tokens of the home."""

from relaydeck.cli.local.store import local_change
from relaydeck.credentials import token_changes
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import lifetime_seconds


class LocalTokens:
    def create(self, name: str, kind: str, expires: str) -> str:
        lifetime = lifetime_seconds(expires) if expires else None
        with local_change(create=True) as change:
            return token_changes.issue_new(change, name, TokenKind(kind), lifetime).token.reveal()

    def revoke(self, name: str) -> bool:
        with local_change() as change:
            return token_changes.revoke(change, name)
