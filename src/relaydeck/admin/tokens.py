"""Tokens over the admin API: issued (shown once), listed, revoked."""

import msgspec

from relaydeck.admin.bodies import NewToken, TokenRequest
from relaydeck.admin.queries import TOKENS
from relaydeck.admin.resources import Lists
from relaydeck.admin.responses import ChangeRunner, Content, identifier_in_path, refuse_content
from relaydeck.admin.routes import Methods
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.token_changes import issue, revoke
from relaydeck.credentials.token_rows import is_taken
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds, new_token
from relaydeck.errors import BadRequest, RecordExists, RecordNotFound
from relaydeck.http.decoding import body_decoder
from relaydeck.http.pipeline import Call, Reply
from relaydeck.store.change_context import ChangeContext
from relaydeck.timestamps import utc

_decode = body_decoder(TokenRequest)


class TokenOperations:
    def __init__(self, changes: ChangeRunner, lists: Lists) -> None:
        self._changes = changes
        self._lists = lists

    def routes(self) -> dict[str, Methods]:
        return {
            "tokens": {"GET": self.list_tokens, "POST": self.create},
            "tokens/{id}": {"DELETE": self.revoke},
        }

    async def list_tokens(self, call: Call) -> Reply:
        return await self._lists.reply_page(call, TOKENS)

    async def create(self, call: Call) -> Reply:
        new: TokenRequest = _decode(call.headers, call.body)
        seconds = None if new.expires is msgspec.UNSET else lifetime_seconds(new.expires)
        if new.expires is not msgspec.UNSET and seconds is None:
            raise BadRequest(f"expires must be {LIFETIMES}")
        return await self._changes.run_once(
            call, "tokens.create", lambda context: Content(issue_token(context, new.name, new.kind, seconds), 201)
        )

    async def revoke(self, call: Call) -> Reply:
        name = identifier_in_path(call)
        refuse_content(call)

        def work(context: ChangeContext) -> Content:
            if not revoke(context, name):
                raise RecordNotFound("token")
            return Content(None)

        return await self._changes.run(call, work)


def issue_token(context: ChangeContext, name: str, kind: TokenKind, seconds: int | None) -> NewToken:
    """Valid for so many seconds; None: forever. Raises RecordExists while a token of that name is not revoked."""
    if is_taken(context.transaction, name):
        raise RecordExists("token")
    token, expires_at = new_token(), None if seconds is None else context.now + seconds
    issue(context, name, kind, token, expires_at=expires_at)
    return NewToken(
        name=name,
        kind=kind,
        state="live",
        created_at=utc(context.now),
        expires_at=utc(expires_at),
        revoked_at=None,
        token=token.reveal(),
    )
