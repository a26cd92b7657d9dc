"""The store as commands open it: without a running service, and on behalf of the account that runs them."""

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from relaydeck.cli.local.home import has_data, open_or_create, require_data
from relaydeck.errors import Damaged, OperatorError, RequestError
from relaydeck.http.error_body import problem_of
from relaydeck.settings import read_settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store, open_store, open_store_at


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
    with closing(open_store(settings)) as store, _refusals_for_operators():
        yield store


@contextmanager
def store_for_apply(*, may_create: bool) -> Iterator[Store]:
    """The configured store. A plan for a home that does not exist yet uses an empty store in a temporary folder.

    A master key that exists already is used: the revision of a plan is computed with it.
    """
    settings = read_settings()
    if may_create or has_data(settings):
        with closing(open_or_create(settings)) as store, _refusals_for_operators():
            yield store
        return
    with TemporaryDirectory(prefix="relaydeck-plan-") as folder:
        home = Path(folder)
        key = settings.master_key_path if settings.master_key_path.exists() else home / "master.key"
        with closing(open_store_at(home, home / "relaydeck.db", key)) as store:
            yield store


@contextmanager
def change_in(store: Store) -> Iterator[ChangeContext]:
    """One transaction: committed at the end, rolled back by any error."""
    with store.database.transaction() as transaction:
        yield ChangeContext(transaction, AuditLog(store.vault), actor(), int(time.time()), "cli")


@contextmanager
def local_change(*, create: bool = False) -> Iterator[ChangeContext]:
    """A change to the store. `create`: the store is created if it does not exist yet."""
    settings = read_settings()
    if not create:
        require_data(settings)
    with (
        closing(open_or_create(settings) if create else open_store(settings)) as store,
        _refusals_for_operators("Nothing was changed."),
        change_in(store) as change,
    ):
        yield change


@contextmanager
def _refusals_for_operators(remedy: str = "") -> Iterator[None]:
    try:
        yield
    except RequestError as refusal:
        raise OperatorError(problem_of(refusal, "").detail, remedy) from None  # the words of the admin API
    except Damaged as damage:
        raise OperatorError(
            str(damage), "Run 'relaydeck doctor' to find every damaged value; set each again."
        ) from None
