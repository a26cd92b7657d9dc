"""Calls operations of `/admin/v1` within the process, on behalf of the token of a session.

Pages have no other way to change anything: checks, conflicts, audit entries and events are those of the admin API.
"""

import json
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from relaydeck.credentials.console_sessions import ConsoleSession
from relaydeck.credentials.kinds import permissions_of
from relaydeck.errors import Forbidden
from relaydeck.http.credential import CONSOLE
from relaydeck.http.pipeline import Call, Find, Reply
from relaydeck.web_addresses import may_contain_key, shown_address

Json = dict[str, Any]
_ROOT = "/admin/v1"


class SessionCredential:
    """The token of a session, as an operation of the admin API sees it."""

    origin = CONSOLE
    __slots__ = ("actor", "digest", "logged_name", "permissions", "seq")

    def __init__(self, session: ConsoleSession) -> None:
        self.seq = session.token_seq
        self.digest = session.token_digest
        self.actor = f"token:{session.token_name}"
        self.logged_name = json.dumps(session.token_name)  # escaped, as that of a request to the API
        self.permissions = permissions_of(session.kind)

    @property
    def may_change(self) -> bool:
        return "manage" in self.permissions


class Result(NamedTuple):
    """What an operation returned."""

    data: Any
    total: int = 0  # of a paged list
    notes: tuple[str, ...] = ()
    etag: str = ""


class AdminCalls:
    def __init__(self, find: Find, credential: SessionCredential) -> None:
        self._find = find
        self._credential = credential

    async def read(self, *path: str, **query: str) -> Result:
        """Read what the admin API shows; without the keys in URLs for a session that may only look.

        Raises RequestError.
        """
        found = await self._call("GET", path, b"", urlencode(query), {})
        return found if self._credential.may_change else found._replace(data=_without_keys(found.data))

    async def change(self, method: str, *path: str, document: Json | None = None, if_match: str = "") -> Result:
        """Raises RequestError; Forbidden for a session that may only look."""
        if not self._credential.may_change:
            raise Forbidden("this session may look, but not change anything")
        headers = {b"content-type": b"application/json"}
        if if_match:
            headers[b"if-match"] = if_match.encode()
        return await self._call(method, path, b"" if document is None else msgspec.json.encode(document), "", headers)

    async def _call(
        self, method: str, path: tuple[str, ...], body: bytes, query: str, headers: dict[bytes, bytes]
    ) -> Result:
        target = "/".join([_ROOT, *(quote(part, safe="") for part in path)])
        route, argument = self._find(method, target, target.encode())
        assert route.answer is not None
        return _result(await route.answer(Call(argument, headers, body, query.encode(), self._credential)))


def _without_keys(value: Any, name: str = "") -> Any:
    """The same value, with `…` in place of what may be a key in the URL of a webhook or node."""
    if isinstance(value, dict):
        return {field: _without_keys(each, field) for field, each in value.items()}
    if isinstance(value, list):
        return [_without_keys(each) for each in value]
    return f"{shown_address(value)}/…" if name == "url" and may_contain_key(value) else value


def _result(reply: Reply) -> Result:
    body = msgspec.json.decode(reply.body)
    return Result(
        body["data"],
        body.get("pagination", {}).get("total_items", 0),
        tuple(each["message"] for each in body["metadata"]["logs"]),
        dict(reply.headers).get(b"etag", b"").decode(),
    )
