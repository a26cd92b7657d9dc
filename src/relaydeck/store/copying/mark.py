"""Marks a database while a copy fills it, and after a restore from a backup that is not authentic.

A database that is being filled has a mark from before its first table until the copy is verified. It cannot be opened;
the command that began the copy can continue it.

A restore from a backup that is not authentic revokes every credential in it, and lists them in a second mark. The next
process that opens the database has the master key: it proves the revoked rows, records them in the audit log, treats
every signer as set over HTTP and removes the mark.
"""

from typing import NamedTuple

from relaydeck.errors import OperatorError, ServerFailure
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.database import Database, Reader
from relaydeck.store.sealing import prove_revoked_tokens
from relaydeck.store.vault import Vault

MARK = "unfinished_copy"
REVOKED = "revoked_by_restore"
# Somebody who can write to the database can write the mark too, and must not get any other entry into the audit log.
_ACTIONS = {
    "restore": "database.restored_unauthenticated",
    "token": "token.revoked",
    "session": "session.revoked",
    "person": "session.revoked",
    "link": "session.link_revoked",
}
_OWNER = "JOIN tokens t ON t.seq = c.token_seq ORDER BY c.seq"
_CREDENTIALS = {
    "token": ("tokens", "SELECT name FROM tokens WHERE revoked_at IS NULL ORDER BY seq"),
    "session": ("console_sessions", f"SELECT t.name FROM console_sessions c {_OWNER}"),
    "person": ("person_sessions", "SELECT person AS name FROM person_sessions ORDER BY seq"),
    "link": ("console_codes", f"SELECT t.name FROM console_codes c {_OWNER}"),
}


class Revoked(NamedTuple):
    """A credential that a restore revoked. A session and a sign-in link have the name of their token or person."""

    kind: str
    name: str


def unfinished_copy_of(reader: Reader) -> str | None:
    """The source of an unfinished copy; None when the database is not one."""
    if not reader.has_table(MARK):
        return None
    origin: str = reader.read(f"SELECT origin FROM {MARK}")[0].origin
    return origin


def set_mark(database: Database, origin: str) -> None:
    with database.migration() as execute:
        execute(f"CREATE TABLE {MARK} (origin TEXT NOT NULL)")
        execute(f"INSERT INTO {MARK} (origin) VALUES (:origin)", {"origin": origin})


def remove_mark(database: Database) -> None:
    with database.migration() as execute:
        execute(f"DROP TABLE {MARK}")


def refuse_unfinished(reader: Reader) -> None:
    origin = unfinished_copy_of(reader)
    if origin is not None:
        raise OperatorError(
            f"this database is an unfinished copy of {origin}",
            "Run the command that began it again ('relaydeck db move' or 'relaydeck restore').",
        )


def revoke_and_remove_mark(database: Database, now: int) -> list[Revoked]:
    """Revoke every credential. Until the database is opened, the rows of revoked tokens have no proof that holds."""
    held = {kind: sql for kind, (table, sql) in _CREDENTIALS.items() if database.has_table(table)}
    revoked = [Revoked(kind, row.name) for kind, sql in held.items() for row in database.read(sql)]
    with database.migration() as execute:
        execute(f"CREATE TABLE {REVOKED} (kind TEXT NOT NULL, name TEXT NOT NULL, moment BIGINT NOT NULL)")
        for kind, name in [("restore", ""), *revoked]:
            values = {"kind": kind, "name": name, "now": now}
            execute(f"INSERT INTO {REVOKED} (kind, name, moment) VALUES (:kind, :name, :now)", values)
        execute("UPDATE tokens SET revoked_at = :now WHERE revoked_at IS NULL", {"now": now})
        for kind in held.keys() - {"token"}:
            execute(f"DELETE FROM {_CREDENTIALS[kind][0]}")
        execute(f"DROP TABLE {MARK}")
    return revoked


def record_revoked(database: Database, vault: Vault) -> None:
    """Complete a restore from a backup that is not authentic, now that the master key is at hand."""
    if not database.has_table(REVOKED):
        return
    with database.transaction() as transaction:
        rows = transaction.all(f"SELECT kind, name, moment FROM {REVOKED} ORDER BY kind, name")
        prove_revoked_tokens(transaction.execute, vault.proofs.fresh(transaction))
        entries = [
            AuditEntry(row.moment, "restore", _ACTIONS[row.kind], row.name) for row in rows if row.kind in _ACTIONS
        ]
        try:
            AuditLog(vault).append(transaction, entries)
        except ServerFailure as failure:
            raise OperatorError(
                f"this database was restored from a backup that is not authentic, and cannot be used: {failure.reason}",
                "Restore another backup into an empty database.",
            ) from None
        transaction.allow_long_statements()
        transaction.execute("UPDATE signers SET set_locally = FALSE WHERE set_locally")  # who set them is not known
        transaction.execute(f"DROP TABLE {REVOKED}")
