"""`relaydeck audit …`."""

from relaydeck.admin import queries
from relaydeck.cli.local.store import existing_store
from relaydeck.cli.output import counted, print_fields, print_json, print_line
from relaydeck.errors import OperatorError
from relaydeck.http.paging import Page
from relaydeck.store.audit import BrokenLink, Head, head, read_head, verify


def show(filters: dict[str, str], limit: int, as_json: bool) -> None:
    """The latest entries, newest first."""
    page = Page("1", limit, coerced=False)
    with existing_store() as store:
        found = queries.list_page(store.database.read, store.vault, queries.AUDIT, filters, page, newest=True)
    views = [view.body for view in found.records]
    if as_json:
        print_json(views)
    else:
        print_fields(views, ("sequence", "at", "actor", "action", "record"))


def print_head() -> None:
    with existing_store() as store:
        print_line(str(head(store.database.read)))


def check(kept: str) -> None:
    earlier = _earlier_head(kept)
    with existing_store() as store, store.database.snapshot():
        found = verify(store.database.stream, store.vault, earlier)
    if isinstance(found, BrokenLink):
        raise OperatorError(
            f"the audit log is broken: entry {found.seq} {found.why}",
            "The entries before it are unchanged. Compare the rest with a backup.",
        )
    print_line(f"{counted(found.seq, 'entry', 'entries')}, every link holds; head {found}")


def _earlier_head(text: str) -> Head | None:
    if not text:
        return None
    earlier = read_head(text)
    if earlier is None:
        raise OperatorError("--head is not the head of an audit log", "Give one that 'relaydeck audit head' printed.")
    return earlier
