"""Sequence numbers of rows, which the database returns as one JSON array: that takes a third of the time of rows."""

import msgspec

from relaydeck.store.database import ReadRows, Values

_decode = msgspec.json.Decoder(list[int]).decode


def read_numbers(read: ReadRows, table: str, condition: str = "true", values: Values | None = None) -> list[int]:
    """The sequence numbers of the rows that meet a condition, in order."""
    rows = read(f"SELECT CAST(json_group_array(seq) AS text) AS numbers FROM {table} WHERE {condition}", values or {})
    return sorted(_decode(rows[0].numbers or "[]"))  # PostgreSQL returns NULL for no numbers
