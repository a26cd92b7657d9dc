"""Events for receivers, written as any process beside the service writes them: through the library, in batches.

Not through the admin API: it is answered by the worker that delivers, and takes about two fifths of its time for
the request, the credential and the audit entry. What is measured here is delivery alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import NamedTuple

from bench.homes import Home, change, open_store
from relaydeck.notifications import events, notification_changes
from relaydeck.notifications.model import EventKind, Notification
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.relayer_changes import event_data
from relaydeck.secret import Secret
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault
from tests.support.stored_rows import create_row

_RELAYERS_EACH = 10
_KEY = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


class WrittenEvent(NamedTuple):
    """An event: to which receiver, and when it was committed, by the monotonic clock."""

    receiver: int
    committed: float


def add_receivers(home: Home, urls: Sequence[str]) -> None:
    """A notification for each, used by ten relayers."""

    def work(transaction: Transaction, vault: Vault) -> None:
        for number, url in enumerate(urls):
            notification = Notification(_name(number), "webhook", url, signing_key=_KEY)
            create_row(notification_changes.TABLE, transaction, vault, notification, origin="apply", now=1)
            for each in range(_RELAYERS_EACH):
                create_row(relayer_rows.TABLE, transaction, vault, _relayer(number, each), origin="apply", now=1)

    change(home, work)


def _name(number: int) -> str:
    return f"receiver-{number:02d}"


def _relayer(receiver: int, number: int) -> Relayer:
    name = f"event-{receiver:02d}-{number}"
    return Relayer(name, name, "sepolia", "evm", f"0x{number:040x}", "signer-0000000", notification_id=_name(receiver))


class EventWriter:
    """Writes events; `written` holds them all, by sequence number."""

    def __init__(self, store: Store, receivers: int) -> None:
        self._database = store.database
        self._receivers = receivers
        self._dice = Random(0)
        self._numbers = count()
        self.written: dict[int, WrittenEvent] = {}

    def seed(self, number: int) -> None:
        """The same number, the same receivers in the same order."""
        self._dice.seed(number)

    def write(self, amount: int) -> None:
        """Commit that many, to receivers by the dice: of a relayer, in its line, and of none, in no line, in turn."""
        written = []
        with self._database.transaction() as transaction:
            for _ in range(amount):
                receiver = self._dice.randrange(self._receivers)
                written.append((self._record(transaction, receiver), receiver))
        committed = time.monotonic()
        self.written |= {sequence: WrittenEvent(receiver, committed) for sequence, receiver in written}

    def _record(self, transaction: Transaction, receiver: int) -> int:
        now = int(time.time())
        if next(self._numbers) % 2:
            name = _name(receiver)
            return events.record(
                transaction, EventKind.NOTIFICATION_TEST, {"notification_id": name}, notification_id=name, now=now
            )
        relayer = _relayer(receiver, self._dice.randrange(_RELAYERS_EACH))
        return events.record(
            transaction,
            EventKind.RELAYER_PAUSED,
            event_data(relayer),
            notification_id=_name(receiver),
            relayer_id=relayer.id,
            now=now,
        )


@contextmanager
def writing_events(home: Home, receivers: int) -> Iterator[EventWriter]:
    store = open_store(home.folder)
    try:
        yield EventWriter(store, receivers)
    finally:
        store.close()
