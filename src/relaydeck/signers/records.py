"""Signers in the database."""

from typing import NamedTuple

from relaydeck.errors import SignerExists
from relaydeck.signers.shapes import Config, join, split
from relaydeck.store.database import Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

LIST_COLUMNS = "id, type, open_config"


class NewSigner(NamedTuple):
    id: str
    type: str
    config: Config


def place(signer_id: str) -> Place:
    return Place("signers", signer_id, "config")


def create(transaction: Transaction, vault: Vault, new: NewSigner, *, origin: str, now: int) -> bytes:
    """Store a signer; gives the part of its config that may be shown, as JSON. Raises SignerExists."""
    shown, secret = split(new.config)
    stored = transaction.execute(
        "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
        " VALUES (:id, :type, :shown, :sealed, :origin, :now, :revision)"
        " ON CONFLICT (id) DO NOTHING",
        {
            "id": new.id,
            "type": new.type,
            "shown": shown.decode(),
            "sealed": vault.seal(secret, place(new.id), transaction),
            "origin": origin,
            "now": now,
            "revision": transaction.revision,
        },
    )
    if stored.rowcount != 1:
        raise SignerExists("the given id is taken")
    return shown


def open_config(vault: Vault, signer_id: str, signer_type: str, shown: str, sealed: bytes) -> Config:
    """The whole config, secrets and all. Raises Damaged when the sealed part does not open."""
    return join(signer_type, shown.encode(), vault.open(sealed, place(signer_id)))
