"""The collections of the admin API: where each is stored, how it is searched, and how its rows are shown.

Rows are shown without secrets, but with RPC URLs, which the list operation shows too.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.admin.documents import Json
from relaydeck.admin.handling import Content, Query, Request, Services
from relaydeck.api.list_filters import FILTERS, ORDERINGS, Ordering, Parameter, Part, conditions, without_others
from relaydeck.api.records import AuditEntry, Signer, Token
from relaydeck.credentials.grants import Restrictions, read_grant
from relaydeck.errors import BadRequest, Damaged, NotificationNotFound, RecordNotFound, RelayerNotFound, RequestError
from relaydeck.fields import response_view
from relaydeck.http.envelope import Pagination
from relaydeck.http.request import Page, encode_items, read_page
from relaydeck.networks import network_rows
from relaydeck.networks.model import FeeToken
from relaydeck.notifications import notification_changes
from relaydeck.provisioning.export import keyed_documents
from relaydeck.relayers import relayer_rows
from relaydeck.signers.check import check_report, stored_check
from relaydeck.signers.signer_types import response_type
from relaydeck.store import audit
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.open_store import Store
from relaydeck.store.record_table import RecordTable
from relaydeck.store.rows import in_list
from relaydeck.store.sealing import TOKEN_COLUMNS as PROVEN_COLUMNS
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

_LONG = ("relayers", "signers", "audit")  # lists that may be so long that a filter needs an index
_CREATION = {"seq": "found", "seq DESC": "found DESC"}  # orders for which no record is read
_FEW = 50_000  # in these
_SIGNER_COLUMNS = (
    "id, type, open_config, labels, created_at, revision,"
    " (SELECT result FROM signer_checks WHERE signer_id = signers.id) AS latest_check"
)
_TOKEN_COLUMNS = (
    f"{', '.join(PROVEN_COLUMNS)}, proof, purpose, made_by, last_used_at, last_used_from,"
    " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= :now THEN 'expired' ELSE 'live' END AS state"
)
_PROTECTION_COLUMNS = (
    "name, kinds, scope, note, CASE WHEN closed THEN 'true' ELSE 'false' END AS closed, made_by, created_at"
)
_PROPOSAL_COLUMNS = (
    "id, CASE WHEN state = 'open' AND expires_at <= :now THEN 'expired' ELSE state END AS state, operation, author,"
    " reason, protections, revision, plan AS steps, created_at, expires_at, decided_by, decided_at, decision"
)
_proven = attrgetter(*PROVEN_COLUMNS)


ShowRow = Callable[[Row, Vault], Content]  # a record as JSON values, the entity tag of its row, and notes


def json_values(record: msgspec.Struct) -> Json:
    """The record as JSON values: lists where it has tuples, and nothing for an unset field."""
    body: Json = msgspec.json.decode(msgspec.json.encode(record))
    return body


def _etag(row: tuple[Any, ...]) -> str:
    """Covers the whole row with its revision and sealed parts: two changes can share a revision, but no content."""
    return f'"{hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]}"'


def _record_view(table: RecordTable[Any]) -> ShowRow:
    """Shows a row of the table's columns, `created_at` and `revision`. Fields that do not open are left out."""

    def show(row: Row, vault: Vault) -> Content:
        notes: tuple[str, ...] = ()
        try:
            body = json_values(response_view(table.from_row(row, vault)))
        except Damaged as damage:
            body, notes = json_values(table.without_sealed(row)), (f"{damage}",)
            for name in table.sealed_fields:
                body.pop(name, None)
        return Content(body | {"created_at": utc(row.created_at)}, _etag(row), notes)

    return show


_show_network_record = _record_view(network_rows.TABLE)


def _network_view(row: Row, vault: Vault) -> Content:
    """A network with its fee tokens by symbol, in the form that an apply file has."""
    view = _show_network_record(row, vault)
    tokens = msgspec.convert(view.data["fee_tokens"], tuple[FeeToken, ...])
    return view._replace(data=view.data | {"fee_tokens": keyed_documents(tokens, "symbol")})


def _signer_view(row: Row, _vault: Vault) -> Content:
    signer = Signer(
        id=row.id,
        type=response_type(row.type),
        config=msgspec.json.decode(row.open_config),
        labels=UNSET if row.labels is None else msgspec.json.decode(row.labels),
        check=None if row.latest_check is None else check_report(stored_check(row.latest_check)),
        created_at=utc(row.created_at),
    )
    return Content(json_values(signer), _etag(row[:-1]))  # a check does not change the signer


def _notification_view(row: Row, vault: Vault) -> Content:
    notes: tuple[str, ...] = ()
    try:
        notification = notification_changes.from_row(row, vault)
    except Damaged as damage:
        notification, notes = notification_changes.without_url(row), (f"{damage}",)
    return Content(json_values(notification) | {"created_at": utc(row.created_at)}, _etag(row), notes)


def _token_view(row: Row, vault: Vault) -> Content:
    origin = vault.proofs.token_origin(row.proof, _proven(row))
    grant = read_grant(row.kind)
    token = Token(
        name=row.name,
        kind=grant.role,  # type: ignore[arg-type]  # a newer version may know more
        **{name: getattr(grant, name) for name in Restrictions.__struct_fields__},
        state=row.state if origin else "refused",
        created_at=utc(row.created_at),
        expires_at=utc(row.expires_at),
        revoked_at=utc(row.revoked_at),
        migrated=origin == "migrated",
        purpose=row.purpose or "",
        made_by=row.made_by,
        last_used_at=utc(row.last_used_at),
        last_used_from=row.last_used_from,
    )
    return Content(json_values(token))


def _audit_view(row: Row, _vault: Vault) -> Content:
    entry = AuditEntry(
        sequence=row.seq,
        at=utc(row.moment),
        actor=row.actor,
        action=row.action,
        record=row.record,
        before=row.before_change and msgspec.json.decode(row.before_change),
        after=row.after_change and msgspec.json.decode(row.after_change),
        hash=row.hash.hex(),
        origin=UNSET if row.origin is None else row.origin,
    )
    return Content(json_values(entry))


def _plain_view(*json_columns: str) -> ShowRow:
    """Shows a row that has the fields of a record as columns: some as JSON text, and moments (`…_at`) as numbers."""

    def show(row: Row, _vault: Vault) -> Content:
        body: Json = row._asdict()
        body |= {name: msgspec.json.decode(body[name] or "null") for name in json_columns}
        return Content(body | {name: utc(value) for name, value in body.items() if name.endswith("_at")})

    return show


class Collection(NamedTuple):
    table: str
    identity: str
    columns: str
    show: ShowRow
    not_found: Callable[[str], RequestError] | None = None  # None: RecordNotFound

    @property
    def filters(self) -> tuple[Parameter, ...]:
        return FILTERS[self.table]


def _of_records(
    table: RecordTable[Any], show: ShowRow, not_found: Callable[[str], RequestError] | None = None
) -> Collection:
    return Collection(table.name, table.identity, f"{table.columns}, created_at, revision", show, not_found)


COLLECTIONS = {
    each.table: each
    for each in (
        _of_records(network_rows.TABLE, _network_view),
        Collection("signers", "id", _SIGNER_COLUMNS, _signer_view),
        _of_records(
            notification_changes.TABLE,
            _notification_view,
            lambda _: NotificationNotFound("no notification has this id"),
        ),
        _of_records(relayer_rows.TABLE, _record_view(relayer_rows.TABLE), RelayerNotFound),
        Collection("tokens", "name", _TOKEN_COLUMNS, _token_view),
        Collection("protections", "name", _PROTECTION_COLUMNS, _plain_view("kinds", "scope", "closed")),
        Collection("proposals", "id", _PROPOSAL_COLUMNS, _plain_view("protections", "steps")),
        Collection("audit", "seq", audit.COLUMNS, _audit_view),
    )
}


def find(read: ReadRows, vault: Vault, collection: Collection, name: str) -> Content:
    """Raises the collection's error when there is no such record."""
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {collection.identity} = :name",
        {"name": name, "now": int(time.time())},
    )
    if not rows:
        raise collection.not_found(name) if collection.not_found else RecordNotFound(collection.table[:-1])
    return collection.show(rows[0], vault)


def read_record(context: ChangeContext, table: str, name: str) -> Content:
    """As `find`, in the transaction of a change."""
    return find(context.transaction.all, context.vault, COLLECTIONS[table], name)


async def list_page(collection: Collection, services: Services, request: Request) -> Content:
    """One page, in the order of creation or another one. Raises BadRequest."""
    page, query = read_page(request.query_string, services.settings.max_per_page), request.query
    return await services.read(lambda store: _read_page(store, collection, query, page))


def _read_page(store: Store, collection: Collection, query: Query, page: Page) -> Content:
    where, values = conditions(collection.filters, query)
    listed = _Listed(store.database.read, collection, where, values | {"now": int(time.time())}, page)
    rows, total = listed.page_in(query.get("order") or "oldest", without_others(collection.filters, query))
    found = [collection.show(row, store.vault) for row in rows]
    number = msgspec.Raw(page.number.encode())  # digits are JSON already, however many
    pagination = Pagination(number, page.per_page, total)  # type: ignore[arg-type]
    notes = (*(note for view in found for note in view.notes), *page.notes)
    return Content(encode_items(view.data for view in found), notes=notes, pagination=pagination)


class _Listed(NamedTuple):
    """The records that meet a condition."""

    read: ReadRows
    collection: Collection
    where: str
    values: dict[str, Any]
    page: Page

    def page_in(self, order: str, counted: tuple[str, str] | None) -> tuple[list[Row], int]:
        """The rows of the page, and how many records there are. `counted`: see `without_others`. Raises BadRequest."""
        by, table = "seq DESC" if order == "newest" else "seq", self.collection.table
        ordering = ORDERINGS.get(table, {}).get(order) or Ordering(by, (Part(by, rows=table),), _FEW)
        total = counted and self._count(table, counted[0]) - self._count(table, counted[1])
        if table in _LONG and self.where != "1 = 1" and (total is None or total <= ordering.few):
            few = self._few(ordering)
            if few is not None:
                return few
        if total is None:
            total = self._count(table, self.where)
        if total > ordering.few and not ordering.parts:
            raise BadRequest(f"at most {ordering.few:,} records can be sorted by {order}: filter them, by network")
        start, stop = self.page.bounds(total)
        if start > total // 2 and ordering.by in _CREATION:  # nearer to the end
            opposite = Part("seq" if by == "seq DESC" else "seq DESC", rows=table)
            return list(self._rows((opposite,), total - stop, stop - start))[::-1], total
        return list(self._rows(ordering.parts or (Part(f"{ordering.by}, seq"),), start, stop - start)), total

    def _count(self, rows: str, where: str) -> int:
        total: int = self.read(f"SELECT count(*) AS total FROM {rows} WHERE {where}", self.values)[0].total
        return total

    def _few(self, ordering: Ordering) -> tuple[list[Row], int] | None:
        """If few match, they are found once, with an index where there is one, and sorted."""
        table, (start, stop) = self.collection.table, self.page.bounds(ordering.few)
        matching = f"(SELECT seq AS found FROM {table} WHERE {self.where} LIMIT {ordering.few + 1}) AS matching"
        joined = "" if ordering.by in _CREATION else f" CROSS JOIN {table} WHERE seq = found"
        placed = self.read(
            f"SELECT found, count(*) OVER () AS total FROM {matching}{joined}"
            f" ORDER BY {_CREATION.get(ordering.by, ordering.by)}, found LIMIT :limit OFFSET :skip",
            self.values | {"limit": max(1, stop - start), "skip": start},
        )
        total = placed[0].total if placed else self._count(matching, "1 = 1") if start else 0
        if total > ordering.few:
            return None
        places = {row.found: place for place, row in enumerate(placed[: stop - start])}
        if not places:
            return [], total
        listed, named = in_list([*places])
        select = f"SELECT {self.collection.columns}, seq AS place FROM {table} WHERE seq IN ({listed})"
        return sorted(self.read(select, self.values | named), key=lambda row: places[row.place]), total

    def _rows(self, parts: Sequence[Part], skip: int, limit: int) -> Iterator[Row]:
        for part in parts:
            matching = part.rows, f"{part.condition} AND {self.where}"
            rows = self.read(
                f"SELECT {self.collection.columns} FROM {matching[0]} WHERE {matching[1]} ORDER BY {part.by}"
                " LIMIT :limit OFFSET :skip",
                self.values | {"limit": limit, "skip": skip},
            )
            yield from rows
            limit -= len(rows)
            if not limit:
                return
            skip = 0 if rows or not skip else max(0, skip - self._count(*matching))


def newest_first(query: Query) -> bool:
    return query.get("order") == "newest"
