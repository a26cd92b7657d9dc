"""Reads records for the admin API: one by its name, or a page of those that match filters."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from relaydeck.admin.collections import Collection
from relaydeck.admin.filters import Filter
from relaydeck.admin.operation import Query
from relaydeck.admin.views import RecordView
from relaydeck.errors import BadRequest
from relaydeck.http.paging import Page
from relaydeck.store.database import ReadRows
from relaydeck.store.vault import Vault

_GREATEST_DIGITS = 18  # a whole number in a query fits a column of 64 bits


class RecordPage(NamedTuple):
    records: list[RecordView]
    total: int


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
    total: int = read(f"SELECT count(*) AS total FROM {collection.table} WHERE {where}", values)[0].total
    start, stop = page.bounds(total)
    rows = read(
        f"SELECT {collection.columns} FROM {collection.table} WHERE {where}"
        f" ORDER BY seq {'DESC' if newest else ''} LIMIT :limit OFFSET :skip",
        values | {"limit": stop - start, "skip": start},
    )
    return RecordPage([collection.show(row, vault) for row in rows], total)


def newest_first(query: Query) -> bool:
    """Whether a list is to start with the newest record. Raises BadRequest."""
    order = query.get("order") or "oldest"
    if order not in ("oldest", "newest"):
        raise BadRequest("order must be oldest or newest")
    return order == "newest"


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
