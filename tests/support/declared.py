"""A file as it is declared, without a command."""

from relaydeck.provisioning.apply import Apply
from relaydeck.provisioning.declared_records import Declared
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.mistakes import Mistake, parse_toml
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.references import Resolve
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction


def read_file(content: bytes, resolve: Resolve) -> Declared:
    document = parse_toml(content)
    return Declared([document]) if isinstance(document, Mistake) else read_parsed(document, resolve)


def run_apply(apply: Apply, actor: str = "apply", now: int = 1_800_000_000) -> Plan:
    """In a transaction of its own. Writes nothing if nothing differs."""

    def write(transaction: Transaction) -> None:
        apply.write(ChangeContext(transaction, AuditLog(apply.store.vault), actor, now))

    apply.run(write, lambda: None)
    return apply.plan
