"""From a request to work on the store, and from its result to an answer in the envelope."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from relaydeck.admin.commands import Result
from relaydeck.admin.idempotency import key_of, once
from relaydeck.admin.queries import Listed
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import Pagination, success
from relaydeck.http.paging import Page
from relaydeck.http.path_identifiers import path_identifier
from relaydeck.http.pipeline import Call, Reply, actor_of, written_at
from relaydeck.provisioning.single import Document
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.writer import Writer

Work = Callable[[ChangeContext], Result]
_DEEPEST = 16
_decode_document = body_decoder(dict[str, Any])


class Writing:
    """Runs changes, each whole or not at all, in the name of the token that asks."""

    def __init__(self, writer: Writer, audit: AuditLog, now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._audit = audit
        self._now = now

    async def run(self, call: Call, work: Work) -> Reply:
        return await self._writer.write(
            lambda transaction: answer(work(self._change_context(transaction, call)), transaction)
        )

    async def run_once(self, call: Call, operation: str, work: Work) -> Reply:
        """The same for a POST: with an Idempotency-Key it is done once."""
        key = key_of(call)
        if key is None:
            return await self.run(call, work)

        def store(transaction: Transaction) -> Reply:
            context = self._change_context(transaction, call)
            return once(context, call, operation, key, lambda change: answer(work(change), transaction))

        return await self._writer.write(store)

    def _change_context(self, transaction: Transaction, call: Call) -> ChangeContext:
        return ChangeContext(transaction, self._audit, actor_of(call), int(self._now()))


def answer(result: Result, transaction: Transaction | None = None) -> Reply:
    """`transaction`: the one that the result was written in."""
    headers: tuple[tuple[bytes, bytes], ...] = ((b"etag", result.etag.encode()),) if result.etag else ()
    if transaction is not None:
        headers += written_at(transaction.revision)
    body = success(msgspec.json.encode(result.view), list(result.notes))
    return Reply(result.status, body, headers=headers)


def page_answer(listed: Listed, page: Page) -> Reply:
    notes = [note for item in listed.items for note in item.notes]
    if page.coerced:
        notes.append(f"per_page was reduced to the largest allowed, {page.per_page}")
    number = msgspec.Raw(page.number.encode())  # digits are JSON already, however many
    pagination = Pagination(number, page.per_page, listed.total)  # type: ignore[arg-type]
    return Reply(200, success(msgspec.json.encode([item.view for item in listed.items]), notes, pagination))


def document_of(call: Call) -> Document:
    document: Document = _decode_document(call.headers, call.body)
    if _is_deep(document):
        raise BadRequest("the body is nested too deep")
    return document


def _is_deep(value: Any) -> bool:
    """Nothing that is described is nested more than a few times; what is taken apart later has its limits."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [part for each in level for part in _parts(each)]
    return bool(level)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def named(call: Call) -> str:
    """The identifier in the path."""
    return path_identifier(call.argument)


def if_match_of(call: Call) -> str | None:
    given = call.headers.get(b"if-match")
    return None if given is None else given.decode("latin-1")


def refuse_content(call: Call) -> None:
    """Of an operation that takes nothing: an empty object will do."""
    if call.body.strip() not in (b"", b"{}"):
        raise BadRequest("this operation takes no body")
