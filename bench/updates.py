"""Durable updates of a notification from 64 clients, against creates of signers on a server of the same kind."""

from contextlib import ExitStack
from functools import partial

from bench.comparing import Side
from bench.creates import create_request
from bench.homes import Home, change, make_home
from bench.load import NUMBER, Request
from bench.rows import CPU, Row
from bench.run import Run, warm_relaydeck
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from tests.support.stored_rows import create_row

_AT_MOST_A_CREATE = 1.2
_WHAT = "update-notification, 64 clients, answered after the sync"
_AGAINST = "create-signer on another server with the same settings"
_NAME = "pager"


def measure(run: Run) -> list[Row]:
    updated = make_home(run.folder / "updates", signers=10, relayers=10)
    created = make_home(run.folder / "updates-creates", signers=10, relayers=10)
    change(updated, add_notification)
    found = run.compare_fresh("update-notification", partial(_sides, updated, created))
    return [Row(_WHAT, _AGAINST, CPU, found.cpu("updates", "creates"), at_most=_AT_MOST_A_CREATE)]


def add_notification(transaction: Transaction, vault: Vault) -> None:
    notification = Notification(_NAME, "webhook", "https://hooks.example.com/")
    create_row(notification_changes.TABLE, transaction, vault, notification, origin="api", now=1)


def _sides(updated: Home, created: Home, stack: ExitStack) -> list[Side]:
    return [
        Side("updates", warm_relaydeck(stack, updated), update_request(updated)),
        Side("creates", warm_relaydeck(stack, created), create_request(created)),
    ]


def update_request(home: Home) -> Request:
    headers = {"Authorization": f"Bearer {home.token}", "Content-Type": "application/json"}
    body = '{"url": "https://hooks.example.com/' + NUMBER + '"}'  # another one each time: an equal one changes nothing
    return Request("PATCH", f"/api/v1/notifications/{_NAME}", headers, body)
