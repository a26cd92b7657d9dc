"""The store as commands open it: without a running service, and on behalf of the account that runs them.

Only few commands create a home, and they say so.
"""

import os
import pwd
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from relaydeck.cli.output import print_note
from relaydeck.cli.reply import Refused
from relaydeck.errors import Damaged, OperatorError, RequestError
from relaydeck.http.envelope import problem_of
from relaydeck.log import Log
from relaydeck.settings.model import Settings, read_settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ShowProgress, Transaction, without_progress
from relaydeck.store.migrate import schema_version
from relaydeck.store.open_store import Store, open_reader_at, open_store, open_store_at
from relaydeck.store.vault import read_master_keys

if TYPE_CHECKING:
    from relaydeck.process.wrapped_keys import KeySystem


def key_system(settings: Settings) -> "KeySystem | None":
    """What wraps the master key. Drivers are loaded only where there is such a system."""
    if settings.master_key_from is None:
        return None
    from relaydeck.signers.drivers.key_wrapping import DriverKeySystem

    return DriverKeySystem(settings, settings.master_key_from)


def has_data(settings: Settings) -> bool:
    """Whether the configured database exists and has a schema. Creates nothing."""
    if isinstance(settings.database, Path) and not settings.database.exists():
        return False
    with closing(open_reader_at(settings.database)) as reader:
        return schema_version(reader) > 0


def require_data(settings: Settings) -> None:
    """Raises OperatorError rather than create a database or a master key that the command did not mean to make."""
    if not has_data(settings):
        raise OperatorError(
            f"there is no Relaydeck data at {settings.database}",
            "Create it with 'relaydeck serve' or 'relaydeck apply', or choose another home with --home or"
            " RELAYDECK_HOME.",
        )
    read_master_keys(settings.master_key_path)


def open_or_create(settings: Settings, progress: ShowProgress = without_progress) -> Store:
    """Announces what it creates: in the wrong folder, a command would otherwise seem to succeed."""
    has_key, is_new = settings.master_key_path.exists(), not has_data(settings)
    if has_key:
        read_master_keys(settings.master_key_path)  # an unusable one is refused before anything is created
    store = open_store(settings, progress=progress)
    if is_new:
        created = f"database at {settings.database}" if has_key else f"home in {settings.home.absolute()}"
        print_note(f"relaydeck: created a new {created}")
    return store


def actor() -> str:
    """The account that runs the command, as the audit log names it."""
    user = os.getuid()
    try:
        return f"cli:{pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"cli:{user}"


@contextmanager
def existing_store() -> Iterator[Store]:
    """The store, which must exist. A refused request becomes an error for the operator."""
    settings = read_settings()
    require_data(settings)
    with closing(open_store(settings)) as store, refusals_for_operators():
        yield store


@contextmanager
def empty_store() -> Iterator[Store]:
    """In a temporary folder, for the plan of a home that does not exist yet.

    A master key that exists already is used: the revision of a plan is computed with it.
    """
    settings = read_settings()
    with TemporaryDirectory(prefix="relaydeck-plan-") as folder:
        home = Path(folder)
        key = settings.master_key_path if settings.master_key_path.exists() else home / "master.key"
        with closing(open_store_at(home, home / "relaydeck.db", key)) as store:
            yield store


@contextmanager
def change_in(store: Store) -> Iterator[ChangeContext]:
    """One transaction: committed at the end, rolled back by any error."""
    with store.database.transaction() as transaction:
        yield change_context(store, transaction)


def change_context(store: Store, transaction: Transaction) -> ChangeContext:
    return ChangeContext(transaction, AuditLog(store.vault), actor(), int(time.time()), "cli")


@contextmanager
def refusals_for_operators(remedy: str = "") -> Iterator[None]:
    try:
        yield
    except RequestError as refusal:
        detail = problem_of(refusal, "").detail  # the words of the admin API
        raise Refused(detail, remedy, refusal.status, refusal.members) from None
    except Damaged as damage:
        raise OperatorError(
            str(damage), "Run 'relaydeck doctor' to find every damaged value; set each again."
        ) from None


def service_log(settings: Settings) -> Log:
    as_json = not sys.stderr.isatty() if settings.log_format == "auto" else settings.log_format == "json"
    return Log(as_json=as_json, level=settings.log_level)
