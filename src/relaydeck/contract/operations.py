"""The operations of the described interface, as routes: the lists, and those that write."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.api.operation import CONTRACT_OPERATIONS
from relaydeck.api.wire import NotificationUpdate, Signer, SignerRequest
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.credential import Credential
from relaydeck.credentials.token_cache import CallerWriter
from relaydeck.errors import Damaged, ServerFailure, Unauthorized
from relaydeck.fields import contract_view
from relaydeck.http.body import body_decoder
from relaydeck.http.envelope import LogEntry, Metadata, Pagination, Success, encode_success
from relaydeck.http.pipeline import Call, Reply, Route, Routes, Written, sender_of, written_at
from relaydeck.http.request import Page, join_items, path_identifier, read_page
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import NotificationChange
from relaydeck.notifications.notification_changes import RequestedUpdate, StoredNotification
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.relayers.relayer_rows import from_row, without_urls
from relaydeck.scope import Visible
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_changes import SignerCreation
from relaydeck.signers.signer_types import SHOWN_FIELDS, new_signer, response_type
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Row, Transaction
from relaydeck.store.listing import Encoded, Listing, ListingPart
from relaydeck.store.scoped_lists import KeptScopes
from relaydeck.store.vault import Vault

_config_from_json = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def signer_view(signer_id: str, signer_type: str, config: dict[str, str], *, widened: bool) -> Signer:
    if config and not widened:
        config = {name: config[name] for name in SHOWN_FIELDS if name in config}
    return Signer(signer_id, response_type(signer_type), config)


def signer_encoder(*, widened: bool) -> Callable[[Row], Encoded]:
    def encode(row: Row) -> Encoded:
        return Encoded(_encode(signer_view(row.id, row.type, _config_from_json(row.open_config), widened=widened)))

    return encode


def relayer_encoder(vault: Vault, report: Callable[[Damaged], None]) -> Callable[[Row], Encoded]:
    """Encodes a relayer. One with sealed URLs that do not open is shown without them, with a note."""

    def encode(row: Row) -> Encoded:
        try:
            return Encoded(_encode(contract_view(from_row(row, vault))))
        except Damaged as damage:
            report(damage)
            readable = msgspec.structs.replace(without_urls(row), custom_rpc_urls=UNSET)
            note = "custom_rpc_urls of a relayer on this page cannot be opened and is left out; see the service's log"
            return Encoded(_encode(contract_view(readable)), note)

    return encode


# Rendered pages are kept until the next write: enough for every client that polls, bounded in memory.
_MOST_RENDERED = 256
_LARGEST_RENDERED = 65_536
_MOST_TRIES = 3

# Reads the items that a page of a listing lacks. The function returns the page's bounds for a total.
Fill = Callable[[Listing, Callable[[int], tuple[int, int]]], None]


class Pages:
    """The pages of one listing."""

    def __init__(self, listing: Listing, fill: Fill, max_per_page: int, scopes: KeptScopes) -> None:
        self._listing = listing
        self._fill = fill
        self._max_per_page = max_per_page
        self._scopes = scopes
        self._rendered: dict[bytes, bytes] = {}
        self._rendered_scoped: dict[tuple[bytes, bytes], bytes] = {}  # by scope and query

    def page(self, query: bytes) -> bytes:
        return self._rendered.get(query) or self._render(query)

    def forget(self) -> None:
        self._rendered.clear()
        self._rendered_scoped.clear()

    def _render(self, query: bytes) -> bytes:
        body = self._encode(self._listing, read_page(query, self._max_per_page))
        _keep(self._rendered, query, body)
        return body

    def _encode(self, listing: Listing, page: Page) -> bytes:
        if not listing.has(*page.bounds(listing.total)):
            self._fill(listing, page.bounds)
        return encode_page(listing, page)

    async def scoped_page(self, visible: Visible, query: bytes) -> bytes:
        """The page of a fleet that has nothing but what the credential sees."""
        key = (visible.key, query)
        if (rendered := self._rendered_scoped.get(key)) is not None:
            return rendered
        page = read_page(query, self._max_per_page)
        for _ in range(_MOST_TRIES):
            inside = await self._scopes.find(visible)
            body = self._encode(ListingPart(self._listing, partial(inside.numbers, self._listing)), page)
            if inside.is_kept:  # still: to fill the page may have brought too many changes
                _keep(self._rendered_scoped, key, body)
                return body
        raise ServerFailure("too much changes to list what is inside the scope of the credential")


def _keep(rendered: dict[Any, bytes], key: Any, body: bytes) -> None:
    if len(rendered) < _MOST_RENDERED and len(body) <= _LARGEST_RENDERED:
        rendered[key] = body


# sentence: 1-envelope 2.1-pagination 4.2-list 4.4-list
def encode_page(listing: Listing, page: Page) -> bytes:
    """The whole body of a list response; the items of the page must be filled. Raises BadRequest."""
    start, stop = page.bounds(listing.total)
    logs = [LogEntry(message=note) for note in (*listing.notes(start, stop), *page.notes)]
    success = Success(
        data=join_items(listing.items(start, stop)),
        metadata=Metadata(logs=logs),
        # Digits are JSON already: a page number of 5,000 digits is passed through as it is.
        pagination=Pagination(msgspec.Raw(page.number.encode()), page.per_page, listing.total),  # type: ignore[arg-type]
    )
    return msgspec.json.encode(success)


_decode_update = body_decoder(NotificationUpdate)
_decode_signer = body_decoder(SignerRequest)
_DAMAGED = "url cannot be opened: only its scheme and host are shown, and no event is sent; set it again"


# sentence: 4.3-update 4.3-not-found
class UpdateNotification:
    """`webhooks`: gives hints about URLs."""

    def __init__(self, writer: CallerWriter, audit: AuditLog, webhooks: WebhookRule) -> None:
        self._write = writer.jointly(self._store)
        self._audit, self._webhooks = audit, webhooks

    async def __call__(self, call: Call) -> Reply:
        notification_id = path_identifier(call.argument)
        change = _change(_decode_update(call.headers, call.body))
        caller = sender_of(call)
        changed, written = await self._write(
            caller, RequestedUpdate(notification_id, change, caller.actor, caller.scope, caller.role)
        )
        return Reply(200, encode_success(changed.notification, self._notes(change, changed)), headers=written)

    def _notes(self, change: NotificationChange, changed: StoredNotification) -> list[str]:
        if changed.url_is_damaged:
            return [_DAMAGED]
        hint = self._webhooks.hint(change.url) if change.url else ""
        return [f"url {hint}"] if hint else []

    def _store(
        self, transaction: Transaction, many: Sequence[RequestedUpdate]
    ) -> Sequence[tuple[StoredNotification, Written] | Exception]:
        """Updates that wait together are written together."""
        outcomes = notification_changes.update_all(transaction, self._audit, many, now=int(time.time()))
        written = written_at(transaction.revision)
        return [outcome if isinstance(outcome, Exception) else (outcome, written) for outcome in outcomes]


# sentence: 4.3-key-kept
def _change(update: NotificationUpdate) -> NotificationChange:
    """Null leaves the signing key as it is, like an absent field."""
    return NotificationChange(
        type=None if update.type is UNSET else update.type,
        url=None if update.url is UNSET else update.url,
        signing_key=None if update.signing_key is UNSET else update.signing_key,
    )


def _labels_of(caller: Credential) -> dict[str, str] | UnsetType:
    """Those of what it creates. Raises Unauthorized when that would be outside its scope."""
    if caller.visible is None:
        return UNSET
    labels = {} if caller.scope is None else caller.scope.labels
    if caller.scope is not None and not labels:
        raise Unauthorized("the scope of the credential has no labels, so that a new signer would be outside of it")
    if not caller.visible.has_new("signers", "", {}, labels):
        raise Unauthorized(
            "a protection closes what the credential would create, so that it would be outside its scope"
        )
    return labels or UNSET


# sentence: 4.1-create 4.1-duplicate
class CreateSigner:
    """`widened`: whether responses show every field of the config that is not secret."""

    def __init__(self, writer: CallerWriter, audit: AuditLog, *, widened: bool) -> None:
        self._write = writer.jointly(self._store)
        self._audit, self._widened = audit, widened

    async def __call__(self, call: Call) -> Reply:
        request = _decode_signer(call.headers, call.body)
        kind, caller = request.__struct_config__.tag, sender_of(call)
        new = new_signer(kind, request.config, request.id, _labels_of(caller))
        creation = signer_changes.prepare(new, caller.actor)
        written = await self._write(caller, creation)
        view = signer_view(new.id, new.type, creation.shown, widened=self._widened)
        return Reply(201, encode_success(view, creation.hints), headers=written)

    def _store(self, transaction: Transaction, many: Sequence[SignerCreation]) -> Sequence[Written | Exception]:
        """Creates that wait together are written together."""
        refusals = signer_changes.create_all(transaction, self._audit, many, origin="api", now=int(time.time()))
        written = written_at(transaction.revision)
        return [written if refusal is None else refusal for refusal in refusals]


def contract_routes(
    *,
    signers: Pages,
    relayers: Pages,
    rpc: RelayerRpc,
    writer: CallerWriter,
    audit: AuditLog,
    webhooks: WebhookRule,
    widened_signer_config: bool,
) -> Routes:
    handlers: dict[str, dict[str, Any]] = {
        "create_signer": {"answer": CreateSigner(writer, audit, widened=widened_signer_config)},
        "list_signers": {"page": signers.page, "scoped_page": signers.scoped_page},
        "update_notification": {"answer": UpdateNotification(writer, audit, webhooks)},
        "list_relayers": {"page": relayers.page, "scoped_page": relayers.scoped_page},
        "relayer_rpc": {"answer": rpc},
    }
    routes: Routes = {}
    for each in CONTRACT_OPERATIONS:
        route = Route(each.name, each.permission, limited=each.limited, **handlers[each.name])
        routes.setdefault(each.whole_path, {})[each.method] = route
    return routes
