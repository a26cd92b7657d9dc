"""`relaydeck audit …`."""

import sys

from relaydeck.admin import queries
from relaydeck.cli.local_changes import opened
from relaydeck.cli.showing import print_json, print_table
from relaydeck.errors import OperatorError
from relaydeck.http.paging import Page
from relaydeck.store.audit import BrokenLink, Head, head, read_head, verify


def show(filters: dict[str, str], limit: int, as_json: bool) -> None:
    """The latest entries, newest first."""
    page = Page("1", limit, coerced=False)
    with opened() as store:
        found = queries.listed(store.database.read, store.vault, queries.AUDIT, filters, page, newest=True)
    views = [item.view for item in found.items]
    if as_json:
        print_json(views)
        return
    names = ("sequence", "at", "actor", "action", "record")
    print_table(views, {name: lambda view, name=name: view[name] for name in names})  # type: ignore[misc]


def print_head() -> None:
    with opened() as store:
        sys.stdout.write(f"{head(store.database.read)}\n")


def check(kept: str) -> None:
    given = _given_head(kept)
    with opened() as store, store.database.snapshot():
        found = verify(store.database.stream, store.vault, given)
    if isinstance(found, BrokenLink):
        raise OperatorError(
            f"the audit log is broken: entry {found.seq} {found.why}",
            "Entries before it are as they were written. Compare with a backup.",
        )
    entries = "1 entry" if found.seq == 1 else f"{found.seq} entries"
    sys.stdout.write(f"{entries}, every link holds; head {found}\n")


def _given_head(text: str) -> Head | None:
    if not text:
        return None
    given = read_head(text)
    if given is None:
        raise OperatorError("--head is not a head", "Give one that 'relaydeck audit head' printed.")
    return given
