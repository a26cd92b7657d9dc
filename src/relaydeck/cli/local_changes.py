"""Changes made from the command line: whose they are, and how their refusals are told."""

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from relaydeck.errors import OperatorError, RequestError
from relaydeck.settings import read_settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store, open_store


def actor() -> str:
    """How the audit log names whoever typed the command: the account it runs under."""
    user = os.getuid()
    try:
        return f"cli:{pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"cli:{user}"


@contextmanager
def opened() -> Iterator[Store]:
    """The home; what the resources refuse is told as something an operator can mend."""
    with closing(open_store(read_settings())) as store:
        try:
            yield store
        except RequestError as refusal:
            told = refusal.reason if refusal.message == "Bad Request" else refusal.message
            raise OperatorError(told, "Nothing was changed.") from None


@contextmanager
def change_in(store: Store) -> Iterator[ChangeContext]:
    """One transaction: committed at the end, undone by any error."""
    with store.database.transaction() as transaction:
        yield ChangeContext(transaction, AuditLog(store.vault), actor(), int(time.time()), "cli")


@contextmanager
def local_change() -> Iterator[ChangeContext]:
    with opened() as store, change_in(store) as change:
        yield change
