"""Calls operations of `/admin/v1` within the process, on behalf of a signed-in operator.

Pages have no other way to change anything: checks, conflicts, audit entries and events are those of the admin API.
"""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from relaydeck.api.operation import Operation
from relaydeck.api.operations import BY_NAME, SCOPED, WHOLE_SERVICE
from relaydeck.console.guard import form_token
from relaydeck.credential import CONSOLE
from relaydeck.credentials.console_sessions import ConsoleSession
from relaydeck.errors import Forbidden
from relaydeck.http.pipeline import Call, Reply
from relaydeck.roles import requirement
from relaydeck.scope import Visible
from relaydeck.secret import Secret
from relaydeck.store.database import ReadRows

Json = dict[str, Any]
Run = Callable[[Operation, Call], Awaitable[Reply]]


class Operator:
    """Who is signed in. To an operation of the admin API, a credential: the token of the session."""

    origin = CONSOLE

    def __init__(self, session: ConsoleSession, secret: Secret) -> None:
        self.name, self.secret = session.token_name, secret
        self.seq, self.digest = session.token_seq, session.token_digest
        self.actor = session.actor
        self.logged_name = json.dumps(self.name)  # escaped, as that of a request to the API
        grant = session.grant
        self.role, self.expires_at = grant.role, session.expires_at
        self.rule = session.rule or f"the token {self.name}"
        self.permissions = grant.permissions | {"view"}  # nobody without `look` is signed in
        self.may_export = "view" in grant.permissions
        self.scope, self.limits = session.scope, grant.limits
        self.visible: Visible | None = session.scope  # without closed records: see `SignIn`
        self.form_token = form_token(secret)

    def holds(self, read: ReadRows, _now: float) -> bool:
        """Whether the session of a person is still open, when a change is written."""
        from relaydeck.credentials.people import is_open

        return is_open(read, self.digest)

    def may(self, operation: str, record: Json | None = None) -> bool:
        """Whether the operation of that name answers, and does not refuse: for the button that leads to it.

        `record`: what it would change.
        """
        try:
            self.require(BY_NAME[operation])
        except Forbidden:
            return False
        verb, _, kind = operation.partition("_")
        if self.scope is None or verb not in ("create", "update", "delete"):
            return True
        if verb == "create":
            return self.scope.may_create(kind)
        if record is None:
            return True
        return self.scope.may_change(kind, record["name" if kind == "network" else "id"], record.get("labels", {}))

    def require(self, operation: Operation) -> None:
        """Raises Forbidden."""
        if operation.permission not in self.permissions:
            raise Forbidden(requirement(operation.permission))
        if self.visible is not None and operation.name not in SCOPED:
            raise Forbidden(WHOLE_SERVICE)


class Result(NamedTuple):
    """What an operation returned."""

    data: Any
    total: int = 0  # of a paged list
    notes: tuple[str, ...] = ()
    etag: str = ""


class Proposed(Exception):
    """The change needs approval. Not an error of the request: a form that shows it again would propose it again."""

    def __init__(self, proposal: str) -> None:
        super().__init__(
            f"This change needs approval: it is now proposal {proposal}, and somebody else has to approve it"
        )
        self.proposal = proposal


async def call_operation(
    run: Run, operator: Operator, name: str, identifier: str, document: Json | None, if_match: str, query: Json
) -> Result:
    """Raises RequestError, Proposed."""
    operation = BY_NAME[name]
    operator.require(operation)
    headers = {b"content-type": b"application/json"}
    if if_match:
        headers[b"if-match"] = if_match.encode()
    body = b"" if document is None else msgspec.json.encode(document)
    call = Call(quote(identifier, safe=""), headers, body, urlencode(query).encode(), operator)
    reply = await run(operation, call)
    result = _result(reply)
    if reply.status == HTTPStatus.ACCEPTED:
        raise Proposed(result.data["id"])
    return result


def _result(reply: Reply) -> Result:
    body = msgspec.json.decode(reply.body)
    return Result(
        body["data"],
        body.get("pagination", {}).get("total_items", 0),
        tuple(each["message"] for each in body["metadata"]["logs"]),
        dict(reply.headers).get(b"etag", b"").decode(),
    )
