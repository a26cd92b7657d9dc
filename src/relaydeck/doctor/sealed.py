"""Checks that need the master key: every sealed value, the audit log, and the nodes behind sealed URLs."""

from collections.abc import Iterator

from relaydeck.credentials.token_rows import FORGED, forged_tokens
from relaydeck.doctor.audit_log import read_keyring, verify_chain
from relaydeck.doctor.finding import Finding, Progress
from relaydeck.doctor.nodes import node_findings
from relaydeck.errors import Damaged, OperatorError
from relaydeck.quantities import counted
from relaydeck.settings import Settings
from relaydeck.store.audit import BrokenLink
from relaydeck.store.database import Reader
from relaydeck.store.migrate import schema_version
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.row_proofs import PROOFS_SINCE
from relaydeck.store.sealing import Keyring


def sealed_findings(database: Reader, settings: Settings, progress: Progress) -> Iterator[Finding]:
    try:
        keyring = read_keyring(database, settings)
    except OperatorError as error:
        yield Finding("FAIL", "master key", f"{error.problem}. {error.remedy}")
        return
    ((keys,),) = database.read("SELECT count(*) FROM data_keys")
    yield Finding("ok", "master key", f"{settings.master_key_path} opens {counted(keys, 'data key')}")
    with progress("opening sealed values", 0):
        yield from _sealed_values(database, keyring)
    proven = schema_version(database) >= PROOFS_SINCE
    if proven:
        yield from forged_token_findings(database, keyring)
    yield _audit_log(database, keyring, progress, has_stored_head=proven)
    with progress("calling every node", 0):
        yield from node_findings(database, keyring, settings.rpc_allowed)


def _sealed_values(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    opened = damaged = 0
    for column in SEALED_COLUMNS:
        columns = f"{column.identity} AS record, {column.column} AS sealed"
        for row in database.stream(f"SELECT {columns} FROM {column.table} WHERE {column.column} IS NOT NULL"):
            try:
                keyring.open(row.sealed, column.place(row.record))
                opened += 1
            except Damaged as damage:
                damaged += 1
                yield Finding("FAIL", "sealed values", f"{damage}; restore the record, or set it again")
    if not damaged:
        yield Finding("ok", "sealed values", f"all {opened} open")


def forged_token_findings(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    for token in forged_tokens(database, keyring.proofs):
        yield Finding("FAIL", "tokens", f"{token.name!r} {FORGED}; revoke it and find out who changed the database")


def _audit_log(database: Reader, keyring: Keyring, progress: Progress, *, has_stored_head: bool) -> Finding:
    found = verify_chain(database, keyring, progress, has_stored_head=has_stored_head)
    if isinstance(found, BrokenLink):
        remark = f"entry {found.seq} {found.why}; the entries before it are unchanged: compare the rest with a backup"
        return Finding("FAIL", "audit log", remark)
    return Finding("ok", "audit log", f"{counted(found.seq, 'entry', 'entries')}, every link holds")
