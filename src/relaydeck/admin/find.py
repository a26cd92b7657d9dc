"""Finds records of every kind by a part of an id, a name or an address.

Relayers are found by the beginning of an id, a name or an address and by the end of an address with indexes, however
many there are, and other records by their whole name. Other parts are looked for in the newest records of each kind,
so that a search always ends soon.
"""

import re
from functools import partial
from typing import Any, NamedTuple

from relaydeck.admin.handling import Content, Request, Services, handles
from relaydeck.api.operations import FIND
from relaydeck.api.records import Found
from relaydeck.errors import BadRequest
from relaydeck.store.database import ReadRows, Row

_FIRST = 20
_NEWEST = 20_000  # records of a kind that are searched for a part in the middle
_END = 4  # digits at the end of an address that its index has
_AFTER_ALL = "\U0010ffff"  # greater than any character that follows a beginning
_SHORT_FORM = re.compile("(?P<start>0x[0-9a-f]*)(?:…|\\.{2,3})(?P<end>[0-9a-f]{4,})")
_RELAYER = "SELECT id, name, network, address FROM relayers"
_OTHERS = {
    "network": ("networks", "name"),
    "signer": ("signers", "id"),
    "notification": ("notifications", "id"),
    "token": ("tokens", "name"),
}


@handles(FIND)
async def find(services: Services, request: Request) -> Content:
    """Upper and lower case are the same for letters of ASCII."""
    text = request.query.get("text", "").strip()
    first = int(request.query.get("first") or _FIRST)
    if not text:
        raise BadRequest("text must be given")
    found, more = await services.read(lambda store: search(store.database.read, text, first))
    notes = (f"more {', '.join(f'{each}s' for each in more)} match: enter a longer text",) if more else ()
    return Content(found, notes=notes)


class SearchResult(NamedTuple):
    found: tuple[Found, ...]
    more: tuple[str, ...]  # the kinds of which more match


def search(read: ReadRows, text: str, most: int) -> SearchResult:
    """What matches as a whole comes first, then what begins with the text; of each, relayers first.

    All kinds share the places, so that many of one kind leave room for the others.
    """
    kinds = _candidates(read, text, most + 1)
    ranked = {kind: sorted(found, key=partial(_rank, text.lower())) for kind, found in kinds.items()}
    places = [
        (rank, number, order, each)
        for order, found in enumerate(ranked.values())
        for number, each in enumerate(found)
        for rank in [_rank(text.lower(), each)]
    ]
    places.sort(key=lambda place: (place[0] > 0, *place[1:3]))
    chosen = sorted(places[:most], key=lambda place: (place[0], place[2], place[1]))
    left = {each.kind for *_, each in places[most:]}
    return SearchResult(tuple(each for *_, each in chosen), tuple(kind for kind in kinds if kind in left))


def _rank(text: str, found: Found) -> int:
    """The better, the lower."""
    names = [each.lower() for each in (found.id, found.name, found.address or "")]
    return 0 if text in names else 1 if any(each.startswith(text) for each in names) else 2


def _candidates(read: ReadRows, text: str, most: int) -> dict[str, list[Found]]:
    """By kind, the best `most` of each; relayers first."""
    folded = text.encode().lower().decode()  # as the databases fold
    values = {"text": text, "folded": folded, "above": folded + _AFTER_ALL, "most": most, "newest": _NEWEST}
    relayers = {row.id: row for row in _relayers(read, values, folded)}.values()
    found = {
        "relayer": [
            Found(kind="relayer", id=row.id, name=row.name, network=row.network, address=row.address)
            for row in relayers
        ]
    }
    for kind, (table, name) in _OTHERS.items():
        newest = f"SELECT seq, {name} AS id FROM {table} ORDER BY seq DESC LIMIT :newest"
        rows = read(
            f"SELECT id FROM (SELECT id FROM ({newest}) AS newest WHERE instr(lower(id), :folded) > 0"
            f" UNION SELECT {name} FROM {table} WHERE {name} = :text) AS matching"
            " ORDER BY lower(id) <> :folded, instr(lower(id), :folded) > 1, id LIMIT :most",
            values,
        )
        found[kind] = [Found(kind=kind, id=row.id, name=row.id) for row in rows]
    events = read("SELECT id, kind FROM events WHERE id = :text", values)
    return found | {"event": [Found(kind="event", id=row.id, name=row.kind) for row in events]}


def _relayers(read: ReadRows, values: dict[str, Any], folded: str) -> list[Row]:
    """Those of each index, and others only if these are few."""
    found = read(f"{_RELAYER} WHERE id = :text", values)
    for column in ("id", "name", "address"):
        found += read(
            f"{_RELAYER} WHERE lower({column}) >= :folded AND lower({column}) < :above"
            f" ORDER BY lower({column}) LIMIT :most",
            values,
        )
    short = _SHORT_FORM.fullmatch(folded)
    start, end = (short["start"], short["end"]) if short else ("", folded)
    if len(end) >= _END:
        ends = values | {"last": end[-_END:], "end": end, "length": len(end), "start": start}
        found += read(
            f"{_RELAYER} WHERE substr(lower(address), 39) = :last"
            " AND substr(lower(address), CAST(43 - :length AS INT)) = :end"
            " AND instr(lower(address), :start) = 1 LIMIT :most",
            ends,
        )
    if len({row.id for row in found}) >= values["most"]:
        return found
    return found + read(
        f"SELECT id, name, network, address FROM ({_RELAYER} ORDER BY seq DESC LIMIT :newest) AS newest"
        " WHERE instr(lower(id), :folded) > 0 OR instr(lower(name), :folded) > 0 OR instr(lower(address), :folded) > 0"
        " LIMIT :most",
        values,
    )
