"""A process that is killed in the middle of a large apply: `python -m tests.provisioning.killed_apply FOLDER POINT`.

It reads the file from standard input, and the URL of a PostgreSQL database from the environment variable DATABASE.
"""

import os
import signal
import sys
from pathlib import Path

from relaydeck.database_url import DatabaseUrl
from relaydeck.provisioning import prepared_plan
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.prepared_plan import PreparedPlan
from relaydeck.provisioning.references import Resolver
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store, open_store_at

LARGE = 300  # here, to be fast: more rows than PostgreSQL inserts without COPY
POINTS = ("staged", "locked", "written")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def apply(store: Store, content: bytes, point: str) -> None:
    planner = FilePlanner(read_file(content, Resolver({}, Path())), False)
    database, vault = store

    def context_of(transaction: Transaction) -> ChangeContext:
        if point == "staged" and database.remote:
            kill()
        return ChangeContext(transaction, AuditLog(vault), "apply", 1_800_000_000)

    with database.snapshot():
        prepared = PreparedPlan(planner, planner.plan(database.read, vault, KnownAddresses()), database.read, vault)
    with prepared.transaction(database, context_of) as transaction:
        if point != "written":
            kill()
        prepared.write(context_of(transaction))
        kill()


if __name__ == "__main__":
    prepared_plan.LARGE = LARGE
    folder, url = Path(sys.argv[1]), os.environ.get("DATABASE")
    where = DatabaseUrl(url) if url else folder / "relaydeck.db"
    apply(open_store_at(folder, where, folder / "master.key"), sys.stdin.buffer.read(), sys.argv[2])
