"""Refuses to delete a record that other records refer to."""

from relaydeck.errors import StillInUse
from relaydeck.store.database import Transaction

_MOST_NAMED = 5
# Of relayers. Stated again because the store imports no record type; a test compares them with the declarations.
COLUMNS = {"network": "network", "signer": "signer_id", "notification": "notification_id"}


def refuse_while_used(transaction: Transaction, resource: str, record: str) -> None:
    """Raises StillInUse, which names the first relayers that refer to the record and counts all of them."""
    if resource not in COLUMNS:
        return  # nothing refers to it
    condition, values = f"WHERE {COLUMNS[resource]} = :record", {"record": record}
    rows = transaction.all(f"SELECT id FROM relayers {condition} ORDER BY seq LIMIT {_MOST_NAMED}", values)
    if rows:
        counted = transaction.all(f"SELECT count(*) AS total FROM relayers {condition}", values)
        raise StillInUse(resource, [f"relayer {row.id}" for row in rows], counted[0].total)
