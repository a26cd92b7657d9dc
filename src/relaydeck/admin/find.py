"""Finds records of every kind by a part of an id, a name or an address.

Relayers are found by the beginning of an id, a name or an address and by the end of an address with indexes, however
many there are. Other parts are looked for in the newest records of each kind, so that a search always ends soon.
"""

import re
from collections.abc import Iterator

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
    """What matches as a whole comes first, then by kind. Upper and lower case are the same for letters of ASCII."""
    text = request.query.get("text", "").strip()
    first = int(request.query.get("first") or _FIRST)
    if not text:
        raise BadRequest("text must be given")
    return Content(await services.read(lambda store: search(store.database.read, text, first)))


def search(read: ReadRows, text: str, most: int) -> tuple[Found, ...]:
    found: dict[tuple[str, str], Found] = {}
    for each in _candidates(read, text, most):
        found.setdefault((each.kind, each.id), each)
        if len(found) == most:
            break
    return tuple(sorted(found.values(), key=lambda each: text.lower() not in (each.id.lower(), each.name.lower())))


def _candidates(read: ReadRows, text: str, most: int) -> Iterator[Found]:
    folded = text.encode().lower().decode()  # as the databases fold
    values = {"text": text, "folded": folded, "above": folded + _AFTER_ALL, "most": most, "newest": _NEWEST}
    for kind, (table, name) in _OTHERS.items():
        newest = f"SELECT seq, {name} AS id FROM {table} ORDER BY seq DESC LIMIT :newest"
        rows = read(
            f"SELECT id FROM ({newest}) AS newest WHERE instr(lower(id), :folded) > 0 ORDER BY id LIMIT :most", values
        )
        yield from (Found(kind=kind, id=row.id, name=row.id) for row in rows)
    if event := read("SELECT id, kind FROM events WHERE id = :text", values):
        yield Found(kind="event", id=event[0].id, name=event[0].kind)
    for row in _relayers(read, values, folded):
        yield Found(kind="relayer", id=row.id, name=row.name, network=row.network, address=row.address)


def _relayers(read: ReadRows, values: dict[str, object], folded: str) -> Iterator[Row]:
    yield from read(f"{_RELAYER} WHERE id = :text", values)
    for column in ("id", "name", "address"):
        yield from read(
            f"{_RELAYER} WHERE lower({column}) >= :folded AND lower({column}) < :above"
            f" ORDER BY lower({column}) LIMIT :most",
            values,
        )
    short = _SHORT_FORM.fullmatch(folded)
    start, end = (short["start"], short["end"]) if short else ("", folded)
    if len(end) >= _END:
        ends = values | {"last": end[-_END:], "end": end, "length": len(end), "start": start}
        yield from read(
            f"{_RELAYER} WHERE substr(lower(address), 39) = :last"
            " AND substr(lower(address), CAST(43 - :length AS INT)) = :end"
            " AND instr(lower(address), :start) = 1 LIMIT :most",
            ends,
        )
    yield from read(
        f"SELECT id, name, network, address FROM ({_RELAYER} ORDER BY seq DESC LIMIT :newest) AS newest"
        " WHERE instr(lower(id), :folded) > 0 OR instr(lower(name), :folded) > 0 OR instr(lower(address), :folded) > 0"
        " LIMIT :most",
        values,
    )
