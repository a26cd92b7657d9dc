"""Where each resource is found, and how its list is narrowed and paged. Everything here only reads."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from relaydeck.admin import views
from relaydeck.admin.views import Item
from relaydeck.errors import BadRequest, NotificationNotFound, RecordNotFound, RelayerNotFound, RequestError
from relaydeck.http.paging import Page
from relaydeck.networks import network_rows
from relaydeck.relayers import relayer_rows
from relaydeck.store import audit
from relaydeck.store.database import Row
from relaydeck.store.vault import Vault

Read = Callable[[str, dict[str, Any]], list[Row]]
Query = Mapping[str, str]


class Filter(NamedTuple):
    """A condition in SQL that speaks of `:<name>`; or one of several, chosen by the value."""

    condition: str = ""
    choices: Mapping[str, str] = {}
    folded: bool = False  # small and capital letters of ASCII are one


class Collection(NamedTuple):
    table: str
    identity: str
    columns: str
    show: Callable[[Row, Vault], Item]
    missing: Callable[[str], RequestError]
    filters: Mapping[str, Filter]


class Listed(NamedTuple):
    items: list[Item]
    total: int


def _holds(column: str) -> Filter:
    return Filter(f"instr(lower({column}), :{column}) > 0", folded=True)


def _is(column: str) -> Filter:
    return Filter(f"{column} = :{column}")


_STATES = {
    "active": "NOT paused AND NOT system_disabled",
    "paused": "paused",
    "disabled": "system_disabled",
}

NETWORKS = Collection(
    "networks",
    "name",
    f"{network_rows.COLUMNS}, created_at, revision",
    views.network_item,
    lambda _: RecordNotFound("network"),
    {"name": _holds("name")},
)
SIGNERS = Collection(
    "signers",
    "id",
    "id, type, open_config, created_at, revision",
    views.signer_item,
    lambda _: RecordNotFound("signer"),
    {"id": _holds("id"), "type": Filter("type = CASE :type WHEN 'local' THEN 'plain' ELSE :type END")},
)
NOTIFICATIONS = Collection(
    "notifications",
    "id",
    "id, type, url, sealed_signing_key, created_at, revision",
    views.notification_item,
    lambda _: NotificationNotFound("no notification has this id"),
    {"id": _holds("id")},
)
RELAYERS = Collection(
    "relayers",
    "id",
    f"{relayer_rows.COLUMNS}, created_at, revision",
    views.relayer_item,
    RelayerNotFound,
    {
        "name": _holds("name"),
        "network": _is("network"),
        "state": Filter(choices=_STATES),
        "signer_id": _is("signer_id"),
        "notification_id": _is("notification_id"),
    },
)
AUDIT = Collection(
    "audit",
    "seq",
    audit.COLUMNS,
    views.audit_item,
    lambda _: RecordNotFound("audit entry"),
    {"actor": _is("actor"), "action": _is("action"), "record": _is("record"), "after": Filter("seq > :after")},
)


def tokens_collection(now: int) -> Collection:
    ended = f"expires_at IS NOT NULL AND expires_at <= {now}"
    states = {
        "live": f"revoked_at IS NULL AND NOT ({ended})",
        "expired": f"revoked_at IS NULL AND {ended}",
        "revoked": "revoked_at IS NOT NULL",
    }
    return Collection(
        "tokens",
        "name",
        "name, kind, created_at, expires_at, revoked_at",
        lambda row, _: views.token_item(row, now),
        lambda _: RecordNotFound("token"),
        {"name": _holds("name"), "kind": _is("kind"), "state": Filter(choices=states)},
    )


def read_query(query: bytes) -> Query:
    """The names and values of a query; unknown names are ignored later. Raises BadRequest."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in given:
            raise BadRequest("a name is given twice in the query")
        if "\0" in value:
            raise BadRequest("a value in the query holds a NUL character")  # which not every database takes
        given[name] = value
    return given


def find(read: Read, vault: Vault, collection: Collection, name: str) -> Item:
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {collection.identity} = :name", {"name": name}
    )
    if not rows:
        raise collection.missing(name)
    return collection.show(rows[0], vault)


def listed(
    read: Read, vault: Vault, collection: Collection, query: Query, page: Page, *, newest: bool = False
) -> Listed:
    """A page in the order of creation, or the other way round."""
    where, values = _conditions(collection, query)
    total: int = read(f"SELECT count(*) FROM {collection.table} WHERE {where}", values)[0][0]
    start, stop = page.bounds(total)
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {where}"
        f" ORDER BY seq {'DESC' if newest else ''} LIMIT :limit OFFSET :skip",
        values | {"limit": stop - start, "skip": start},
    )
    return Listed([collection.show(row, vault) for row in rows], total)


def _conditions(collection: Collection, query: Query) -> tuple[str, dict[str, Any]]:
    given = {name: query[name] for name in collection.filters if query.get(name)}
    conditions = [_condition(name, collection.filters[name], value) for name, value in given.items()]
    given = {name: _folded(value) if collection.filters[name].folded else value for name, value in given.items()}
    if "after" in given:
        given["after"] = whole("after", given["after"])  # type: ignore[assignment]
    return " AND ".join(["1 = 1", *conditions]), given


def _condition(name: str, narrowing: Filter, value: str) -> str:
    if not narrowing.choices:
        return narrowing.condition
    if value not in narrowing.choices:
        raise BadRequest(f"{name} must be one of {', '.join(narrowing.choices)}")
    return f"({narrowing.choices[value]})"


def _folded(text: str) -> str:
    """As the databases fold the column it is looked for in: letters of ASCII alone."""
    return text.encode().lower().decode()


def whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadRequest(f"{name} must be a whole number of at least 0")
    return int(text)
