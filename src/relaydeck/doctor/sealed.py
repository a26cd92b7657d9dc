"""Checks that need the master key: every sealed value, the audit log, and the nodes behind sealed URLs."""

from collections.abc import Iterator

from relaydeck.doctor.audit_log import read_keyring
from relaydeck.doctor.finding import Finding, Progress
from relaydeck.doctor.nodes import node_findings
from relaydeck.doctor.proofs import proof_findings
from relaydeck.doctor.sealed_values import sealed_value_findings
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted
from relaydeck.settings import Settings
from relaydeck.store.database import Reader

_NOT_CHECKED = (
    "the sealed values, whether somebody forged a token, the audit log, and the nodes (their URLs are sealed): these"
    " checks need the master key"
)


def sealed_findings(database: Reader, settings: Settings, progress: Progress) -> Iterator[Finding]:
    try:
        keyring = read_keyring(database, settings)
    except OperatorError as error:
        yield Finding("FAIL", "master key", f"{error.problem}. {error.remedy}")
        yield Finding("warn", "not checked", _NOT_CHECKED)
        return
    keys: int = database.read("SELECT count(*) AS total FROM data_keys")[0].total
    yield Finding("ok", "master key", f"{settings.master_key_path} opens {counted(keys, 'data key')}")
    with progress("opening sealed values", 0):
        yield from sealed_value_findings(database, keyring)
    yield from proof_findings(database, keyring, progress)
    with progress("calling every node", 0):
        yield from node_findings(database, keyring, settings)
