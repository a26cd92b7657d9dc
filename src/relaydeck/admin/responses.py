"""Runs requests to the admin API as changes of the store, and puts what they return into the envelope."""

import time
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, NamedTuple

import msgspec

from relaydeck.admin.idempotency import key_of, once
from relaydeck.admin.queries import RecordPage
from relaydeck.admin.views import Json, RecordView
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.errors import BadRequest
from relaydeck.http.credential import CONSOLE
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import Pagination, success
from relaydeck.http.paging import Page, require_bounded
from relaydeck.http.parameters import path_identifier
from relaydeck.http.pipeline import Call, Reply, origin_of, sender_of, written_at
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction

_DEEPEST = 16
_MOST_VALUES = 10_000
_decode_document = body_decoder(dict[str, Any])


class Content(NamedTuple):
    """The data of a successful response, with its status, entity tag and notes."""

    data: Any
    status: int = 200
    etag: str = ""
    notes: tuple[str, ...] = ()


def record_content(view: RecordView, status: int = 200) -> Content:
    return Content(view.body, status, view.etag, view.notes)


Work = Callable[[ChangeContext], Content]


class ChangeRunner:
    """Runs changes, each in one transaction, on behalf of the token of the request."""

    def __init__(self, writer: CallerWriter, audit: AuditLog, now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._audits = {"api": audit, CONSOLE: AuditLog(audit.vault, CONSOLE)}
        self._now = now

    async def run(self, call: Call, work: Work) -> Reply:
        return await self._writer.write(
            sender_of(call), lambda transaction: reply(work(self._change_context(transaction, call)), transaction)
        )

    async def run_once(self, call: Call, operation: str, work: Work) -> Reply:
        """Run the work of a POST. With an Idempotency-Key, a repeated request does not run it again."""
        key = key_of(call)
        if key is None:
            return await self.run(call, work)

        def store(transaction: Transaction) -> Reply:
            context = self._change_context(transaction, call)
            return once(context, call, operation, key, lambda change: reply(work(change), transaction))

        return await self._writer.write(sender_of(call), store)

    def _change_context(self, transaction: Transaction, call: Call) -> ChangeContext:
        origin = origin_of(call)
        return ChangeContext(transaction, self._audits[origin], sender_of(call).actor, int(self._now()), origin)


def reply(content: Content, transaction: Transaction | None = None) -> Reply:
    """`transaction`: the one that wrote the content."""
    headers: tuple[tuple[bytes, bytes], ...] = ((b"etag", content.etag.encode()),) if content.etag else ()
    if transaction is not None:
        headers += written_at(transaction.revision)
    body = success(msgspec.json.encode(content.data), list(content.notes))
    return Reply(content.status, body, headers=headers)


def page_reply(found: RecordPage, page: Page) -> Reply:
    notes = [note for view in found.records for note in view.notes]
    if page.coerced:
        notes.append(f"per_page was reduced to the largest allowed, {page.per_page}")
    number = msgspec.Raw(page.number.encode())  # digits are JSON already, however many
    pagination = Pagination(number, page.per_page, found.total)  # type: ignore[arg-type]
    items = require_bounded(msgspec.json.encode([view.body for view in found.records]))
    return Reply(200, success(items, notes, pagination))


def document_of(call: Call) -> Json:
    document: Json = _decode_document(call.headers, call.body)
    refuse_deep(document, _MOST_VALUES)
    return document


def refuse_deep(document: Json, most_values: float = inf) -> None:
    """Raises BadRequest."""
    if problem := _size_problem(document, most_values):
        raise BadRequest(problem)


def _size_problem(value: Any, most_values: float) -> str:
    """No body of one record is nested more than a few times or has many values; the code that reads it is recursive."""
    level, count = [value], 0
    for _ in range(_DEEPEST):
        level = [part for each in level for part in _parts(each)]
        count += len(level)
        if count > most_values:
            return f"the body has more than {most_values} values"
    return "the body is nested too deep" if level else ""


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def identifier_in_path(call: Call) -> str:
    return path_identifier(call.argument)


def if_match_of(call: Call) -> str | None:
    given = call.headers.get(b"if-match")
    return None if given is None else given.decode("latin-1")


def refuse_content(call: Call) -> None:
    """For an operation without a body; an empty object is accepted."""
    if call.body.strip() not in (b"", b"{}"):
        raise BadRequest("this operation takes no body")
