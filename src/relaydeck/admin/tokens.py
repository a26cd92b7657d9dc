"""Tokens over the admin API: issued (shown once), listed, revoked."""

import time
from collections.abc import Callable

import msgspec

from relaydeck.admin.commands import Result
from relaydeck.admin.queries import tokens_collection
from relaydeck.admin.resources import Lists
from relaydeck.admin.responses import Writing, named, refuse_content
from relaydeck.admin.routes import Methods
from relaydeck.admin.views import token_item
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.token_changes import issue, revoke
from relaydeck.credentials.token_rows import is_taken
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds, new_token
from relaydeck.errors import BadRequest, RecordExists, RecordNotFound
from relaydeck.http.decoding import body_decoder
from relaydeck.http.pipeline import Call, Reply
from relaydeck.identifiers import identifier_problem
from relaydeck.store.change_context import ChangeContext


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    kind: TokenKind = TokenKind.API
    expires: str | msgspec.UnsetType = msgspec.UNSET


_decode = body_decoder(NewToken)


class TokenOperations:
    def __init__(self, writing: Writing, lists: Lists, now: Callable[[], float] = time.time) -> None:
        self._writing = writing
        self._lists = lists
        self._now = now

    def routes(self) -> dict[str, Methods]:
        return {
            "tokens": {"GET": self.give, "POST": self.create},
            "tokens/{id}": {"DELETE": self.revoke},
        }

    async def give(self, call: Call) -> Reply:
        return await self._lists.give(call, tokens_collection(int(self._now())))

    async def create(self, call: Call) -> Reply:
        new: NewToken = _decode(call.headers, call.body)
        if problem := identifier_problem(new.name):
            raise BadRequest(f"name {problem}")
        seconds = None if new.expires is msgspec.UNSET else lifetime_seconds(new.expires)
        if new.expires is not msgspec.UNSET and seconds is None:
            raise BadRequest(f"expires must be {LIFETIMES}")
        return await self._writing.run_once(call, "tokens.create", lambda context: _create(context, new, seconds))

    async def revoke(self, call: Call) -> Reply:
        name = named(call)
        refuse_content(call)

        def work(context: ChangeContext) -> Result:
            if not revoke(context, name):
                raise RecordNotFound("token")
            return Result(None)

        return await self._writing.run(call, work)


def _create(context: ChangeContext, new: NewToken, seconds: int | None) -> Result:
    if is_taken(context.transaction, new.name):
        raise RecordExists("token")
    token, expires_at = new_token(), None if seconds is None else context.now + seconds
    issue(context, new.name, new.kind, token, expires_at=expires_at)
    view = token_item((new.name, new.kind.value, context.now, expires_at, None), context.now).view
    return Result(view | {"token": token.reveal()}, 201)
