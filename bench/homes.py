"""Homes with as many signers and relayers as a comparison asks for, filled through the records' own code."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from relaydeck.credentials import tokens
from relaydeck.credentials.tokens import new_token
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Policies, Relayer
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import NewSigner, SecretStoreConfig
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.vault import Vault
from tests.support.statements import run_statement
from tests.support.stored_rows import create_row

_IN_ONE_TRANSACTION = 20_000
Advance = Callable[[float], None]


class Home(NamedTuple):
    folder: Path
    token: str
    relayers: int
    database: str = ""  # of a server; none: a file in the folder


def make_home(folder: Path, *, signers: int, relayers: int, advance: Advance = lambda share: None) -> Home:
    """A new home; `advance` receives the share of the work that each step was."""
    store = open_store(folder)
    token = new_token()
    try:
        # The service syncs each commit. Nothing of a half-filled home is kept, so open_for_filling need not.
        run_statement(store.database, "PRAGMA synchronous = OFF")
        with store.database.transaction() as transaction:
            tokens.add(transaction, store.vault.proofs, "bench", Role.API, token, now=_now())
            create_row(network_rows.TABLE, transaction, store.vault, _NETWORK, origin="apply", now=_now())
        share = 1 / (signers + relayers)
        _fill(store, signers, _add_signer, lambda added: advance(added * share))
        _fill(store, relayers, _add_relayer, lambda added: advance(added * share))
        run_statement(store.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()
    return Home(folder, token.reveal(), relayers)


def change(home: Home, work: Callable[[Transaction, Vault], None]) -> None:
    """Write something more into a home."""
    store = open_store(home.folder)
    try:
        with store.database.transaction() as transaction:
            work(transaction, store.vault)
    finally:
        store.close()


def open_store(folder: Path) -> Store:
    settings = Settings(home=folder)
    return open_store_at(settings.home, settings.database, settings.master_key_path)


def _fill(store: Store, amount: int, add: Callable[[Transaction, Vault, int], None], added: Advance) -> None:
    for start in range(0, amount, _IN_ONE_TRANSACTION):
        stop = min(start + _IN_ONE_TRANSACTION, amount)
        with store.database.transaction() as transaction:
            for number in range(start, stop):
                add(transaction, store.vault, number)
        added(stop - start)


_NETWORK = Network("sepolia", "evm", 11155111, "ETH", (RpcUrl("https://rpc.example.com/v2/key"),))
_POLICIES = Policies(gas_price_cap=100_000_000_000, whitelist_receivers=("0x" + "cd" * 20,))


# Both shapes are chosen so that an item is about 400 bytes in a list.
def _add_signer(transaction: Transaction, vault: Vault, number: int) -> None:
    config = SecretStoreConfig(
        address=f"https://vault-{number:07d}.secrets.internal.example.com:8200/v1/namespaces/operations/clusters/eu",
        key_name=f"relayers/production/europe-west/evm/sepolia/signing-key-number-{number:07d}",
        role_id=Secret("a-role-that-is-secret"),
        secret_id=Secret("an-identifier-that-is-secret"),
        mount_point="secret/production/europe-west/relayers",
        namespace="operations/production/europe-west/relayers",
    )
    new = NewSigner(f"signer-{number:07d}", "provider_c", config)
    signer_changes.insert(transaction, vault, [signer_changes.prepare(new)], origin="api", now=_now())


def _add_relayer(transaction: Transaction, vault: Vault, number: int) -> None:
    relayer = Relayer(
        f"relayer-{number:07d}",
        f"Sepolia relayer {number:07d}",
        "sepolia",
        "evm",
        f"0x{number:040x}",
        f"signer-{number % 10:07d}",
        custom_rpc_urls=(RpcUrl(f"https://rpc.example.com/v2/{number:07d}", 1),),
        policies=_POLICIES,
    )
    create_row(relayer_rows.TABLE, transaction, vault, relayer, origin="apply", now=_now())


def _now() -> int:
    return int(time.time())
