"""Which records were removed, so that processes that keep them in memory can remove them there too.

A changed row carries its revision; a removed one leaves a row in `removals` instead. Those of the newest
`KEPT_REVISIONS` revisions are kept. The invariant:

    clock.removals_pruned_to = P  means that every removal after revision P is still in the table

so a process that has seen every write up to revision S misses nothing while P <= S. When P > S it cannot know what
was removed in between, and compares what it holds with the rows that are there. P is written in the transaction that
prunes, and read after the removals: pruning that happens between two reads is noticed.
"""

from relaydeck.store.database import SINCE_SEEN, ReadRows, Transaction
from relaydeck.store.row_sets import Rows

KEPT_REVISIONS = 100_000


def remove_row(transaction: Transaction, table: str, identity: str, name: str) -> None:
    """Delete a record, so that running servers follow."""
    transaction.erases_secrets = True
    removed = transaction.one(f"DELETE FROM {table} WHERE {identity} = :name RETURNING seq", {"name": name})
    if removed is not None:
        record_removal(transaction, table, removed.seq)


def remove_rows(transaction: Transaction, table: str, rows: Rows) -> None:
    """Like `remove_row`, for many records, which must exist; their one column is `seq`. Prunes nothing."""
    transaction.erases_secrets = True
    transaction.delete_all(table, rows)
    transaction.insert_all("removals", rows, {"resource": table, "revision": transaction.revision})


def record_removal(transaction: Transaction, table: str, seq: int) -> None:
    transaction.insert("removals", ("revision", "resource", "seq"), [(transaction.revision, table, seq)])
    prune_removals(transaction)


def prune_removals(transaction: Transaction) -> None:
    prune_to = {"revision": transaction.revision - KEPT_REVISIONS}
    if transaction.execute("DELETE FROM removals WHERE revision <= :revision", prune_to).rowcount:
        transaction.execute("UPDATE clock SET removals_pruned_to = :revision", prune_to)


def removed_since(read: ReadRows, table: str, seen: int) -> list[int] | None:
    """The sequence numbers removed after revision `seen`; None when some of those removals are pruned."""
    removed = read(f"SELECT seq FROM removals WHERE {SINCE_SEEN} AND resource = :table", {"seen": seen, "table": table})
    if read("SELECT removals_pruned_to FROM clock", {})[0].removals_pruned_to > seen:
        return None
    return [row.seq for row in removed]
