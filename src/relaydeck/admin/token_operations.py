"""Tokens over the admin API: issued (shown once), listed, revoked."""

import msgspec

from relaydeck.admin.bodies import NewToken, TokenRequest
from relaydeck.admin.collections import TOKENS
from relaydeck.admin.lists import Lists
from relaydeck.admin.operation import Change, Content, Operations, RepeatableChange, Request
from relaydeck.credentials.token_changes import issue_new, revoke
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.store.change_context import ChangeContext
from relaydeck.timestamps import utc


class TokenOperations:
    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def operations(self) -> Operations:
        return {
            "tokens": {"GET": self.list_tokens, "POST": self.create},
            "tokens/{id}": {"DELETE": self.revoke},
        }

    async def list_tokens(self, request: Request) -> Content:
        return await self._lists.list_page(request, TOKENS)

    async def create(self, request: Request) -> RepeatableChange:
        new: TokenRequest = request.decode(TokenRequest)
        seconds = None if new.expires is msgspec.UNSET else lifetime_seconds(new.expires)
        if new.expires is not msgspec.UNSET and seconds is None:
            raise BadRequest(f"expires must be {LIFETIMES}")
        return RepeatableChange("tokens.create", lambda context: Content(_issue(context, new, seconds), 201))

    async def revoke(self, request: Request) -> Change:
        name = request.identifier
        request.refuse_content()

        def work(context: ChangeContext) -> Content:
            if not revoke(context, name):
                raise RecordNotFound("token")
            return Content(None)

        return work


def _issue(context: ChangeContext, new: TokenRequest, seconds: int | None) -> NewToken:
    issued = issue_new(context, new.name, new.kind, seconds)
    return NewToken(
        name=new.name,
        kind=new.kind,
        state="live",
        created_at=utc(context.now),
        expires_at=utc(issued.expires_at),
        revoked_at=None,
        migrated=False,
        token=issued.token.reveal(),
    )
