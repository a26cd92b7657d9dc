"""`relaydeck audit …`."""

from relaydeck.cli.json_shapes import AuditHead
from relaydeck.cli.output import print_fields, print_json, print_line, print_outcome
from relaydeck.cli.target import backend
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted


def show(filters: dict[str, str], limit: int, as_json: bool) -> None:
    """The latest entries, newest first."""
    views = backend().records.list_records("audit", filters, limit, newest=True).bodies
    if as_json:
        print_json(views)
    else:
        print_fields(views, ("sequence", "at", "actor", "action", "record"))


def print_head(as_json: bool) -> None:
    head = backend().audit.head()
    print_outcome(AuditHead(head), as_json, head)


def check(kept: str, as_json: bool) -> None:
    found = backend().audit.verify(kept)
    if as_json:
        print_json(found)
    if found["problem"] is not None and found["broken_at"] is None:
        raise OperatorError(found["problem"], "Find out who changed the database, and revoke what you did not issue.")
    if found["problem"] is not None:
        raise OperatorError(
            f"the audit log is broken: entry {found['broken_at']} {found['problem']}",
            "The entries before it are unchanged. Compare the rest with a backup.",
        )
    if not as_json:
        print_line(f"{counted(found['entries'], 'entry', 'entries')}, every link holds; head {found['head']}")
