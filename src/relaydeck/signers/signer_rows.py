"""Signers in the database."""

from collections.abc import Sequence

import msgspec

from relaydeck.errors import SignerExists
from relaydeck.signers.shapes import Config, join, split
from relaydeck.store.database import Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

LIST_COLUMNS = "id, type, open_config"
_COLUMNS = ("id", "type", "open_config", "sealed_config", "origin", "created_at", "revision")


class NewSigner(msgspec.Struct, frozen=True, gc=False):
    id: str
    type: str
    config: Config


class PreparedSigner(msgspec.Struct, frozen=True, gc=False):
    new: NewSigner
    named: bool  # whether its id was given by the caller, so that it may be taken
    shown: dict[str, str]
    open_config: str
    sealed: bytes


def place(signer_id: str) -> Place:
    return Place("signers", signer_id, "config")


def prepare(vault: Vault, new: NewSigner, *, named: bool = True) -> PreparedSigner:
    """Do ahead of the transaction what needs none: while it lasts, every other write waits."""
    shown, secret = split(new.config)
    open_config = msgspec.json.encode(shown).decode() if shown else "{}"
    return PreparedSigner(new, named, shown, open_config, vault.seal_early(secret, place(new.id)))


def create(transaction: Transaction, vault: Vault, new: NewSigner, *, origin: str, now: int) -> dict[str, str]:
    """Store a signer; gives the part of its config that may be shown. Raises SignerExists."""
    prepared = prepare(vault, new)
    (refusal,) = create_all(transaction, vault, [prepared], origin=origin, now=now)
    if refusal is not None:
        raise refusal
    return prepared.shown


def create_all(
    transaction: Transaction, vault: Vault, many: Sequence[PreparedSigner], *, origin: str, now: int
) -> list[SignerExists | None]:
    """Store signers in one go; for each, what `create` would raise."""
    taken, mark = _taken(transaction, many), vault.mark(transaction)
    rows: list[tuple[object, ...]] = []
    refusals: list[SignerExists | None] = []
    for each in many:
        new, sealed = each.new, each.sealed
        if new.id in taken:
            refusals.append(SignerExists("the given id is taken"))
            continue
        if each.named:
            taken.add(new.id)
        if not sealed.startswith(mark):
            sealed = vault.seal(split(new.config)[1], place(new.id), transaction)
        rows.append((new.id, new.type, each.open_config, sealed, origin, now, transaction.revision))
        refusals.append(None)
    transaction.insert("signers", _COLUMNS, rows)
    return refusals


def _taken(transaction: Transaction, many: Sequence[PreparedSigner]) -> set[str]:
    """Which of the given ids are in use. Nobody else can write until the transaction ends."""
    given = [each.new.id for each in many if each.named]
    return transaction.present("signers", "id", given) if given else set()  # one of our own making is new


def open_config(vault: Vault, signer_id: str, signer_type: str, shown: str, sealed: bytes) -> Config:
    """The whole config, secrets and all. Raises Damaged when the sealed part does not open."""
    return join(signer_type, shown.encode(), vault.open(sealed, place(signer_id)))
