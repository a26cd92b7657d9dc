"""Signers in the database."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from relaydeck.errors import SignerExists
from relaydeck.signers.shapes import Config, join, split
from relaydeck.store.database import Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

LIST_COLUMNS = "id, type, open_config"
_COLUMNS = ("id", "type", "open_config", "sealed_config", "origin", "created_at", "revision")


class NewSigner(NamedTuple):
    id: str
    type: str
    config: Config


class PreparedSigner(NamedTuple):
    new: NewSigner
    shown: dict[str, str]
    sealed: bytes


def place(signer_id: str) -> Place:
    return Place("signers", signer_id, "config")


def prepare(vault: Vault, new: NewSigner) -> PreparedSigner:
    """Do ahead of the transaction what needs none: while it lasts, every other write waits."""
    shown, secret = split(new.config)
    return PreparedSigner(new, shown, vault.seal_early(secret, place(new.id)))


def create(transaction: Transaction, vault: Vault, new: NewSigner, *, origin: str, now: int) -> dict[str, str]:
    """Store a signer; gives the part of its config that may be shown. Raises SignerExists."""
    (outcome,) = create_all(transaction, vault, [prepare(vault, new)], origin=origin, now=now)
    if isinstance(outcome, SignerExists):
        raise outcome
    return outcome


def create_all(
    transaction: Transaction, vault: Vault, many: Sequence[PreparedSigner], *, origin: str, now: int
) -> list[dict[str, str] | SignerExists]:
    """Store signers in one go; for each, what `create` gives or would raise."""
    taken = _taken(transaction, many)
    rows: list[tuple[object, ...]] = []
    outcomes: list[dict[str, str] | SignerExists] = []
    for new, shown, sealed in many:
        if new.id in taken:
            outcomes.append(SignerExists("the given id is taken"))
            continue
        taken.add(new.id)
        if not vault.holds(sealed, transaction):
            sealed = vault.seal(split(new.config)[1], place(new.id), transaction)
        rows.append((new.id, new.type, msgspec.json.encode(shown).decode(), sealed, origin, now, transaction.revision))
        outcomes.append(shown)
    transaction.insert("signers", _COLUMNS, rows)
    return outcomes


def _taken(transaction: Transaction, many: Sequence[PreparedSigner]) -> set[str]:
    """Which of the ids are in use. Nobody else can write until the transaction ends."""
    return transaction.present("signers", "id", [new.id for new, _, _ in many])


def open_config(vault: Vault, signer_id: str, signer_type: str, shown: str, sealed: bytes) -> Config:
    """The whole config, secrets and all. Raises Damaged when the sealed part does not open."""
    return join(signer_type, shown.encode(), vault.open(sealed, place(signer_id)))
