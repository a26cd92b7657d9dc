"""`relaydeck audit …`."""

from relaydeck.cli.output import counted, print_fields, print_json, print_line
from relaydeck.cli.target import backend
from relaydeck.errors import OperatorError


def show(filters: dict[str, str], limit: int, as_json: bool) -> None:
    """The latest entries, newest first."""
    views = backend().records.list_records("audit", filters, limit, newest=True).bodies
    if as_json:
        print_json(views)
    else:
        print_fields(views, ("sequence", "at", "actor", "action", "record"))


def print_head() -> None:
    print_line(backend().audit.head())


def check(kept: str) -> None:
    found = backend().audit.verify(kept)
    if found["problem"] is not None:
        raise OperatorError(
            f"the audit log is broken: entry {found['broken_at']} {found['problem']}",
            "The entries before it are unchanged. Compare the rest with a backup.",
        )
    print_line(f"{counted(found['entries'], 'entry', 'entries')}, every link holds; head {found['head']}")
