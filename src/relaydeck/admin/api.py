"""Everything under `/admin/v1`, built for one worker: its routes, and how each operation runs and is answered."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from relaydeck.admin import apply, checks, events, find, problems, proposals, records, relayer_state, signers, tokens  # noqa: F401
from relaydeck.admin.handling import HANDLERS, Change, Content, OwnTransaction, Request, require_handlers
from relaydeck.admin.idempotency import key_of, once
from relaydeck.admin.store_thread import ServedServices
from relaydeck.api.description import Description
from relaydeck.api.operation import ADMIN, Operation
from relaydeck.api.operations import APPLY, OPERATIONS, SCOPED, WHOLE_SERVICE
from relaydeck.api.records import AdminSuccess
from relaydeck.credential import CONSOLE, Credential
from relaydeck.credentials.token_cache import CallerWriter
from relaydeck.errors import Forbidden
from relaydeck.fees.estimator import Estimator
from relaydeck.http.envelope import LogEntry, Metadata
from relaydeck.http.pipeline import Call, Reply, Route, Router, Routes, Written, sender_of, written_at
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from relaydeck.web_addresses import may_contain_key, shown_address

_EMPTY_BYTES = 1024  # an operation that takes no body accepts an empty object

require_handlers()


class AdminApi:
    """Runs each change in one transaction, on behalf of the token of the request."""

    def __init__(
        self, settings: Settings, writer: CallerWriter, audit: AuditLog, estimator: Estimator, keys: SignerKeys
    ) -> None:
        self.services = ServedServices(settings, estimator, keys)
        self._writer = writer
        self.console_audit = AuditLog(audit.vault, CONSOLE)
        self._audits = {"api": audit, CONSOLE: self.console_audit}
        self.find = Router(_routes(self.run, settings.apply_max_body_bytes)).find

    async def run(self, operation: Operation, call: Call) -> Reply:
        sender, is_scoped = sender_of(call), operation.name in SCOPED
        if sender.scope is not None and not is_scoped:
            raise Forbidden(WHOLE_SERVICE)
        services = self.services.within(sender.visible if is_scoped else None)
        outcome = await HANDLERS[operation.name](services, Request(call, operation))
        if isinstance(outcome, Content):
            return _reply(operation, outcome, sender)
        if isinstance(outcome, OwnTransaction):
            return await outcome.transact(partial(self._store_checked, operation, call, outcome.change))
        return await self._writer.write(
            sender_of(call),
            lambda transaction: self._store(operation, call, outcome, self._change_context(call, transaction)),
        )

    def _store(self, operation: Operation, call: Call, change: Change, context: ChangeContext) -> Reply:
        """Make the change; for a repeated request, return its first response."""
        key = key_of(call) if operation.is_repeatable else None

        def work(context: ChangeContext) -> Reply:
            content = proposals.make_or_propose(context, operation, call, change)
            return _reply(operation, content, sender_of(call), written_at(context.transaction.revision))

        with context.transaction.within(sender_of(call).scope):
            return work(context) if key is None else once(context, call, operation.label, key, work)

    def _store_checked(
        self, operation: Operation, call: Call, change: Change, transaction: Transaction, vault: Vault
    ) -> Reply:
        self._writer.check(transaction, sender_of(call))
        return self._store(operation, call, change, self._change_context(call, transaction, vault))

    def _change_context(self, call: Call, transaction: Transaction, vault: Vault | None = None) -> ChangeContext:
        origin = sender_of(call).origin
        audit = self._audits[origin] if vault is None else self._audits[origin].on(vault)
        return ChangeContext(transaction, audit, sender_of(call).actor, int(time.time()), origin)


def _reply(operation: Operation, content: Content, sender: Credential, written: Written = ()) -> Reply:
    """Without what may be a key in a URL, unless the sender could set it."""
    data = msgspec.Raw(msgspec.json.encode(content.data))
    if "change" not in sender.permissions:
        data = msgspec.Raw(msgspec.json.encode(_without_keys(msgspec.json.decode(data))))
    headers = ((b"etag", content.etag.encode()), *written) if content.etag else written
    body = AdminSuccess(
        data=data,
        metadata=Metadata(logs=[LogEntry(message=note) for note in content.notes]),
        pagination=content.pagination,
        changed=content.changed and not content.proposed if written else msgspec.UNSET,
    )
    return Reply(
        HTTPStatus.ACCEPTED if content.proposed else operation.status, msgspec.json.encode(body), headers=headers
    )


def _without_keys(value: Any, name: str = "") -> Any:
    """The same value, with `…` in place of what may be a key in the URL of a webhook or node."""
    if isinstance(value, dict):
        return {field: _without_keys(each, field) for field, each in value.items()}
    if isinstance(value, list):
        return [_without_keys(each) for each in value]
    return f"{shown_address(value)}/…" if name == "url" and may_contain_key(value) else value


def _routes(run: Callable[[Operation, Call], Awaitable[Reply]], apply_bytes: int) -> Routes:
    """`apply_bytes`: the largest apply document. The description needs no credential."""
    description = Description("admin")
    described = {"openapi.json": description.openapi, "docs": description.docs}
    routes = {f"{ADMIN}/{path}": {"GET": Route("admin", None, answer=each)} for path, each in described.items()}
    for each in OPERATIONS:
        # The largest body is the usual one (0) where nothing else is said.
        takes_none = each.method != "GET" and each.request is None
        most = apply_bytes if each is APPLY else _EMPTY_BYTES if takes_none else 0
        route = Route("admin", each.permission, answer=partial(run, each), denied=Forbidden, max_body=most)
        routes.setdefault(each.whole_path, {})[each.method] = route
    return routes
