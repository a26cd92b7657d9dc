"""Reads records for the admin API: where each collection is stored, how it is filtered and paged."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from relaydeck.admin import views
from relaydeck.admin.filters import FILTERS, Filter
from relaydeck.admin.views import RecordView, ShowRow
from relaydeck.errors import BadRequest, NotificationNotFound, RecordNotFound, RelayerNotFound, RequestError
from relaydeck.http.paging import Page
from relaydeck.http.parameters import query_parameters
from relaydeck.networks import network_rows
from relaydeck.notifications import notification_rows
from relaydeck.relayers import relayer_rows
from relaydeck.store import audit
from relaydeck.store.database import ReadRows
from relaydeck.store.row_proofs import TOKEN_COLUMNS
from relaydeck.store.vault import Vault

Query = Mapping[str, str]
_GREATEST_DIGITS = 18  # a whole number in a query fits a column of 64 bits


class Collection(NamedTuple):
    table: str
    identity: str
    columns: str
    show: ShowRow
    not_found: Callable[[str], RequestError]

    @property
    def filters(self) -> tuple[Filter, ...]:
        return FILTERS[self.table]


class RecordPage(NamedTuple):
    records: list[RecordView]
    total: int


NETWORKS = Collection(
    "networks",
    "name",
    f"{network_rows.COLUMNS}, created_at, revision",
    views.network_view(network_rows.TABLE),
    lambda _: RecordNotFound("network"),
)
SIGNERS = Collection(
    "signers",
    "id",
    "id, type, open_config, created_at, revision,"
    " (SELECT result FROM signer_checks WHERE signer_id = signers.id) AS latest_check",
    views.signer_view,
    lambda _: RecordNotFound("signer"),
)
NOTIFICATIONS = Collection(
    "notifications",
    "id",
    f"{notification_rows.COLUMNS}, created_at, revision",
    views.notification_view,
    lambda _: NotificationNotFound("no notification has this id"),
)
RELAYERS = Collection(
    "relayers",
    "id",
    f"{relayer_rows.COLUMNS}, created_at, revision",
    views.record_view(relayer_rows.TABLE),
    RelayerNotFound,
)
TOKENS = Collection(
    "tokens",
    "name",
    f"{', '.join(TOKEN_COLUMNS)}, proof,"
    " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= :now THEN 'expired' ELSE 'live' END AS state",
    views.token_view,
    lambda _: RecordNotFound("token"),
)
AUDIT = Collection("audit", "seq", audit.COLUMNS, views.audit_view, lambda _: RecordNotFound("audit entry"))


def read_query(query: bytes) -> Query:
    """The names and values of a query, unknown ones too. Raises BadRequest."""
    given: dict[str, str] = {}
    for name, value in query_parameters(query):
        if name in given:
            raise BadRequest("a name is given twice in the query")
        if "\0" in value:
            raise BadRequest("a value in the query contains a NUL character")  # PostgreSQL cannot store it
        given[name] = value
    return given


def find(read: ReadRows, vault: Vault, collection: Collection, name: str) -> RecordView:
    """Raises the collection's error when there is no such record."""
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {collection.identity} = :name", {"name": name}
    )
    if not rows:
        raise collection.not_found(name)
    return collection.show(rows[0], vault)


def list_page(
    read: ReadRows,
    vault: Vault,
    collection: Collection,
    query: Query,
    page: Page,
    *,
    newest: bool = False,
    now: Callable[[], float] = time.time,
) -> RecordPage:
    """One page in the order of creation, or newest first. Raises BadRequest for a value that a filter refuses."""
    where, values = conditions(collection.filters, query)
    values["now"] = int(now())
    total: int = read(f"SELECT count(*) FROM {collection.table} WHERE {where}", values)[0][0]
    start, stop = page.bounds(total)
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {where}"
        f" ORDER BY seq {'DESC' if newest else ''} LIMIT :limit OFFSET :skip",
        values | {"limit": stop - start, "skip": start},
    )
    return RecordPage([collection.show(row, vault) for row in rows], total)


def conditions(filters: tuple[Filter, ...], query: Query) -> tuple[str, dict[str, Any]]:
    """The SQL condition of the filters that a query uses, and its values. Raises BadRequest."""
    used = [each for each in filters if query.get(each.name)]
    values = {each.name: filter_value(each, query[each.name]) for each in used}
    return " AND ".join(["1 = 1", *(f"({each.condition_for(query[each.name])})" for each in used)]), values


def filter_value(used: Filter, text: str) -> str | int:
    """A filter's value, checked. Raises BadRequest."""
    if used.choices and text not in used.choices:
        raise BadRequest(f"{used.name} must be one of {', '.join(used.choices)}")
    if used.whole:
        return whole(used.name, text)
    # Both databases fold the letters of ASCII alone.
    return text.encode().lower().decode() if used.folded else text


def whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _GREATEST_DIGITS:
        raise BadRequest(f"{name} must be a whole number of at least 0")
    return int(text)
