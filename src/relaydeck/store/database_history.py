"""What a process remembers of a database server: a promoted standby or a restored backup has another history."""

from typing import Any, NamedTuple

from relaydeck.store.database import Row

# The end of the audit log, the entry that this process remembers, and the server's timeline, which changes with each
# promotion. A standby writes nothing, so it has no timeline of its own.
HISTORY_COLUMNS = (
    "(SELECT max(seq) FROM audit) AS audit_end",
    "(SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS audit_hash",
    "(SELECT hash FROM audit WHERE seq = :remembered) AS remembered_hash",
    "(SELECT max(seq) FROM events) AS newest_event",
    "CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline",
)


class History(NamedTuple):
    """What this process remembers of the database's past, to notice that it was not continued."""

    revision: int = -1
    audit: tuple[int, bytes] = (0, b"")
    timeline: str = ""

    @property
    def remembered(self) -> dict[str, Any]:
        return {"remembered": self.audit[0]}

    def problem(self, newest: Row) -> str:
        """How the history differs; empty when it was continued."""
        if newest.revision < self.revision:
            return f"its revision went back from {self.revision} to {newest.revision}"
        if self.audit[0] and newest.remembered_hash != self.audit[1]:
            return f"entry {self.audit[0]} of the audit log is missing or another one"
        if self.timeline and newest.timeline and newest.timeline != self.timeline:
            return "another server was promoted"
        return ""

    def continued(self, newest: Row) -> "History":
        return History(
            newest.revision, (newest.audit_end or 0, newest.audit_hash or b""), newest.timeline or self.timeline
        )
