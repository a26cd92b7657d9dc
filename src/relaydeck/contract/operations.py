"""The five operations: decode once, ask the resource, answer in the envelope."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET

from relaydeck.contract.paging import encode_page
from relaydeck.contract.routes import ContractRoutes
from relaydeck.contract.rpc_ids import rpc_id
from relaydeck.contract.views import signer_view
from relaydeck.contract.wire import NotificationUpdate, RpcRequest, RpcResponse, SignerRequest
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import LogEntry, Metadata, Success
from relaydeck.http.paging import read_page
from relaydeck.http.path_identifiers import path_identifier
from relaydeck.http.pipeline import Call, Reply, Route, Written, actor_of, written_at
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.notifications.notification_changes import AskedUpdate
from relaydeck.notifications.notification_rows import NotificationChange
from relaydeck.signers import signer_changes
from relaydeck.signers.hints import hints
from relaydeck.signers.shapes import nested_object_problem
from relaydeck.signers.signer_changes import AskedSigner
from relaydeck.signers.signer_rows import NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Transaction
from relaydeck.store.listing import Listing
from relaydeck.store.writer import Writer
from relaydeck.web_addresses import web_address_problem

_decode_signer = body_decoder(SignerRequest)
_decode_update = body_decoder(NotificationUpdate)
_decode_rpc = body_decoder(RpcRequest)

# Rendered pages kept until the next write: enough for every client that polls, bounded in memory.
_MOST_RENDERED = 256
_LARGEST_RENDERED = 65_536
_NO_NOTES = Metadata()
_encode = msgspec.json.Encoder().encode


# Reads what a page of a listing still misses; the function tells from the total where the page lies.
Fill = Callable[[Listing, Callable[[int], tuple[int, int]]], None]


class Pages:
    """A list operation: from a query to a whole body."""

    def __init__(self, listing: Listing, fill: Fill, max_per_page: int) -> None:
        self._listing = listing
        self._fill = fill
        self._max_per_page = max_per_page
        self._rendered: dict[bytes, bytes] = {}

    def page(self, query: bytes) -> bytes:
        return self._rendered.get(query) or self._render(query)

    def forget(self) -> None:
        self._rendered.clear()

    def _render(self, query: bytes) -> bytes:
        page = read_page(query, self._max_per_page)
        if not self._listing.has(*page.bounds(self._listing.total)):
            self._fill(self._listing, page.bounds)
        body = encode_page(self._listing, page)
        if len(self._rendered) < _MOST_RENDERED and len(body) <= _LARGEST_RENDERED:
            self._rendered[query] = body
        return body


class RunsRpc(Protocol):
    """Runs one JSON-RPC method through a relayer. Raises RelayerNotFound."""

    async def __call__(
        self, relayer_id: str, method: str, params: msgspec.Raw, answer_id: str | None
    ) -> RpcResponse: ...


class Operations:
    def __init__(
        self,
        *,
        signers: Pages,
        relayers: Pages,
        run_rpc: RunsRpc,
        writer: Writer,
        audit: AuditLog,
        widened_signer_config: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._signers = signers
        self._relayers = relayers
        self._run_rpc = run_rpc
        self._writer = writer
        self._audit = audit
        self._widened = widened_signer_config
        self._now = now

    def routes(self) -> ContractRoutes:
        return ContractRoutes(
            create_signer=Route("create_signer", "call", answer=self.create_signer),
            list_signers=Route("list_signers", "list", page=self._signers.page),
            update_notification=Route("update_notification", "call", answer=self.update_notification),
            list_relayers=Route("list_relayers", "list", limited=True, page=self._relayers.page),
            relayer_rpc=Route("relayer_rpc", "call", limited=True, answer=self.relayer_rpc),
        )

    async def create_signer(self, call: Call) -> Reply:
        request = _decode_signer(call.headers, call.body)
        if problem := nested_object_problem(request.config):
            raise BadRequest(problem)
        new = NewSigner(_signer_id(request.id), request.__struct_config__.tag, request.config)
        named = request.id is not UNSET
        prepared = signer_changes.prepare(self._audit.vault, actor_of(call), new, named=named)
        written = await self._writer.write_jointly(self._store_signers, prepared)
        view = signer_view(new.id, new.type, prepared.signer.shown, widened=self._widened)
        return Reply(201, _success(view, hints(new.config)), headers=written)

    def _store_signers(self, transaction: Transaction, many: Sequence[AskedSigner]) -> Sequence[Written | Exception]:
        refusals = signer_changes.create_all(transaction, self._audit, many, origin="api", now=int(self._now()))
        written = written_at(transaction.revision)
        return [written if refusal is None else refusal for refusal in refusals]

    async def update_notification(self, call: Call) -> Reply:
        notification_id = path_identifier(call.argument)
        change = _notification_change(_decode_update(call.headers, call.body))
        asked = AskedUpdate(notification_id, change, actor_of(call))
        changed, written = await self._writer.write_jointly(self._store_updates, asked)
        return Reply(200, _success(changed, []), headers=written)

    def _store_updates(
        self, transaction: Transaction, many: Sequence[AskedUpdate]
    ) -> Sequence[tuple[Notification, Written] | Exception]:
        outcomes = notification_changes.update_all(transaction, self._audit, many, now=int(self._now()))
        written = written_at(transaction.revision)
        return [outcome if isinstance(outcome, Exception) else (outcome, written) for outcome in outcomes]

    async def relayer_rpc(self, call: Call) -> Reply:
        relayer_id = path_identifier(call.argument)
        request: RpcRequest = _decode_rpc(call.headers, call.body)
        if not bytes(request.params).startswith(b"{"):
            raise BadRequest("params must be an object")
        response = await self._run_rpc(relayer_id, request.method, request.params, rpc_id(request.id))
        return Reply(200, msgspec.json.encode(response))


def _signer_id(given: str | msgspec.UnsetType) -> str:
    if given is UNSET:
        return new_identifier()
    if problem := identifier_problem(given):
        raise BadRequest(f"id {problem}")
    return given


def _notification_change(update: NotificationUpdate) -> NotificationChange:
    if update.url is not UNSET and (problem := web_address_problem(update.url)):
        raise BadRequest(f"url {problem}")
    return NotificationChange(
        type=None if update.type is UNSET else update.type,
        url=None if update.url is UNSET else update.url,
        signing_key=None if update.signing_key is UNSET else update.signing_key,
    )


def _success(view: msgspec.Struct, notes: list[str]) -> bytes:
    metadata = Metadata(logs=[LogEntry(message=note) for note in notes]) if notes else _NO_NOTES
    return _encode(Success(data=view, metadata=metadata))
