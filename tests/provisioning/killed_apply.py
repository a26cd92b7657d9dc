"""A process that is killed in the middle of a large apply: `python -m tests.provisioning.killed_apply FOLDER POINT`.

It reads the file from standard input, and the URL of a PostgreSQL database from the environment variable DATABASE.
"""

import os
import signal
import sys
from pathlib import Path

from relaydeck.provisioning.apply import Apply
from relaydeck.provisioning.references import Resolver
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store, open_store_at
from tests.support.declared import read_file

POINTS = ("prepared", "staged", "locked", "written")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def apply(store: Store, content: bytes, point: str) -> None:
    apply, (database, vault) = Apply(store, read_file(content, Resolver({}, Path())), False), store

    def reach(reached: str) -> None:
        if reached == point:
            kill()

    with database.snapshot():
        apply.prepare()
    reach("prepared")
    with database.staging() as stage:
        apply.stage(stage)
        reach("staged")
        with database.transaction() as transaction:
            apply.require_valid(transaction)
            reach("locked")
            apply.write(ChangeContext(transaction, AuditLog(vault), "apply", 1_800_000_000))
            reach("written")


if __name__ == "__main__":
    folder, url = Path(sys.argv[1]), os.environ.get("DATABASE")
    where = DatabaseUrl(url) if url else folder / "relaydeck.db"
    apply(open_store_at(folder, where, folder / "master.key"), sys.stdin.buffer.read(), sys.argv[2])
