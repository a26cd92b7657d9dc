"""Runs the operations of the admin API, and puts what they return into the envelope."""

import time
from collections.abc import Callable
from functools import partial

import msgspec

from relaydeck.admin.idempotency import key_of, once
from relaydeck.admin.operation import Change, Content, Operation, RepeatableChange, Request
from relaydeck.admin.routes import Answer
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.http.credential import CONSOLE
from relaydeck.http.envelope import success
from relaydeck.http.pipeline import Call, Reply, origin_of, sender_of, written_at
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault


class OperationRunner:
    """Runs each change in one transaction, on behalf of the token of the request."""

    def __init__(self, writer: CallerWriter, audit: AuditLog, now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self.console_audit = AuditLog(audit.vault, CONSOLE)
        self._audits = {"api": audit, CONSOLE: self.console_audit}
        self._now = now

    def answer(self, operation: Operation) -> Answer:
        async def run(call: Call) -> Reply:
            outcome = await operation(Request(call))
            if isinstance(outcome, Content):
                return _reply(outcome)
            if isinstance(outcome, RepeatableChange):
                return await self._run_once(call, outcome)
            return await self._run(call, outcome)

        return run

    async def _run(self, call: Call, change: Change) -> Reply:
        return await self._write(call, lambda context: _reply(change(context), context.transaction))

    async def _run_once(self, call: Call, repeatable: RepeatableChange) -> Reply:
        operation, change, transact = repeatable
        key = key_of(call)

        def work(context: ChangeContext) -> Reply:
            return _reply(change(context), context.transaction)

        def store(context: ChangeContext) -> Reply:
            return work(context) if key is None else once(context, call, operation, key, work)

        if transact is None:
            return await self._write(call, store)
        return await transact(partial(self._change_context, call), partial(self._checked, call, store))

    async def _write(self, call: Call, work: Callable[[ChangeContext], Reply]) -> Reply:
        return await self._writer.write(
            sender_of(call), lambda transaction: work(self._change_context(call, transaction))
        )

    def _checked(self, call: Call, work: Callable[[ChangeContext], Reply], context: ChangeContext) -> Reply:
        self._writer.check(context.transaction, sender_of(call))
        return work(context)

    def _change_context(self, call: Call, transaction: Transaction, vault: Vault | None = None) -> ChangeContext:
        origin = origin_of(call)
        audit = self._audits[origin] if vault is None else self._audits[origin].on(vault)
        return ChangeContext(transaction, audit, sender_of(call).actor, int(self._now()), origin)


def _reply(content: Content, transaction: Transaction | None = None) -> Reply:
    """`transaction`: the one that wrote the content."""
    headers: tuple[tuple[bytes, bytes], ...] = ((b"etag", content.etag.encode()),) if content.etag else ()
    if transaction is not None:
        headers += written_at(transaction.revision)
    body = success(msgspec.json.encode(content.data), list(content.notes), content.pagination)
    return Reply(content.status, body, headers=headers)
