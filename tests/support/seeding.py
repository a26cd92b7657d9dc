"""Homes filled without the command line: a process for every token would be most of the suite's time."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import UNSET

from relaydeck.credentials.tokens import add, mark_revoked, new_token
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import place_of
from tests.support.stored_rows import create_row

ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
WEBHOOK = "https://hooks.example.com/relaydeck"


def open_home(home: Path) -> Store:
    """A new home gets a copy of a migrated database: to migrate one takes four times as long as the rest."""
    where = place_of(home)
    if isinstance(where, Path) and not where.exists():
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        where.touch(0o600)
        where.write_bytes(_migrated())
    return open_store_at(home, where, home / "master.key")


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "relaydeck.db")
        with closing(SqliteDatabase(file, WriteSignal(Path(folder, "write-signal")))) as database:
            migrate(database)
        return file.read_bytes()


@contextmanager
def opened(home: Path) -> Iterator[Store]:
    store = open_home(home)
    try:
        yield store
    finally:
        store.close()


def issue(home: Path, name: str = "tests", kind: str = "api", *, lasts: int | None = None) -> str:
    """A new token, as `relaydeck token create` makes it; `kind`: a role, or `Grant.stored`."""
    now, token = int(time.time()), new_token()
    expires_at = None if lasts is None else now + lasts
    with opened(home) as store, store.database.transaction() as transaction:
        add(transaction, store.vault.proofs, name, kind, token, now=now, expires_at=expires_at)
    return token.reveal()


def withdraw(home: Path, name: str) -> None:
    """As `relaydeck token revoke` does it."""
    with opened(home) as store, store.database.transaction() as transaction:
        assert mark_revoked(transaction, store.vault.proofs, name, now=int(time.time()))


def fill(
    home: Path,
    *,
    signers: Iterable[str] = ("ops",),
    notifications: dict[str, str | None] | None = None,
    relayers: Iterable[Relayer] = (),
    node: str = "http://127.0.0.1:9/rpc",
) -> None:
    """Local signers by id, notifications as id -> signing key, relayers as they are, on a network `dev`."""
    with opened(home) as store, store.database.transaction() as transaction:
        network = Network("dev", "evm", 31337, "ETH", (RpcUrl(node),))
        create_row(network_rows.TABLE, transaction, store.vault, network)
        for name in signers:
            new = NewSigner(name, "plain", LocalConfig(Secret("11" * 32)))
            signer_changes.insert(transaction, store.vault, [signer_changes.prepare(new)], origin="api", now=0)
        for name, key in (notifications or {}).items():
            pager = Notification(name, "webhook", WEBHOOK, UNSET if key is None else Secret(key))
            create_row(notification_changes.TABLE, transaction, store.vault, pager)
        for each in relayers:
            create_row(relayer_rows.TABLE, transaction, store.vault, each)


def relayer(name: str, **given: object) -> Relayer:
    address = given.pop("address", ADDRESS)
    return Relayer(name, f"Relayer {name}", "dev", "evm", address, "ops", **given)  # type: ignore[arg-type]


def relayer_shown(name: str, **given: object) -> dict[str, Any]:
    """What the interface answers for `relayer(name)`."""
    return {
        "id": name,
        "name": f"Relayer {name}",
        "network": "dev",
        "network_type": "evm",
        "address": ADDRESS,
        "signer_id": "ops",
        "paused": False,
        "system_disabled": False,
        "custom_rpc_urls": [],
        "policies": {
            "eip1559_pricing": True,
            "gas_limit_estimation": True,
            "min_balance": 0,
            "private_transactions": False,
            "whitelist_receivers": [],
        },
    } | given
