"""Signers in the database."""

from collections.abc import Sequence

import msgspec

from relaydeck.errors import SignerExists
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import Config, NewSigner, join, split
from relaydeck.store.database import Transaction
from relaydeck.store.sealed_columns import VERSION
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

LIST_COLUMNS = "id, type, open_config"
_COLUMNS = ("id", "type", "open_config", "sealed_config", VERSION, "origin", "set_locally", "created_at", "revision")


class PreparedSigner(msgspec.Struct, frozen=True, gc=False):
    """A signer with its config split, ready to be sealed and inserted."""

    new: NewSigner
    shown: dict[str, str]
    open_config: str
    secret: Secret  # the JSON of the fields to seal
    set_locally: bool = False


def place(signer_id: str, version: int) -> Place:
    return Place("signers", signer_id, "config", version)


def prepare(new: NewSigner, actor: str = "") -> PreparedSigner:
    """Do the work that needs no transaction before it begins: while it lasts, every other write waits."""
    shown, secret = split(new.config)
    open_config = msgspec.json.encode(shown).decode() if shown else "{}"
    return PreparedSigner(new, shown, open_config, Secret(secret.decode()), actor.startswith("cli:"))


def create(transaction: Transaction, vault: Vault, new: NewSigner, *, origin: str, now: int) -> dict[str, str]:
    """Store a signer and return the part of its config that may be shown. Raises SignerExists."""
    prepared = prepare(new)
    (refusal,) = create_all(transaction, vault, [prepared], origin=origin, now=now)
    if refusal is not None:
        raise refusal
    return prepared.shown


def create_all(
    transaction: Transaction, vault: Vault, many: Sequence[PreparedSigner], *, origin: str, now: int
) -> list[SignerExists | None]:
    """Store signers with one statement, and return for each what `create` would raise."""
    in_use, version = _ids_in_use(transaction, many), transaction.chain_end[0]
    rows: list[tuple[object, ...]] = []
    refusals: list[SignerExists | None] = []
    for each in many:
        new = each.new
        if new.id in in_use:
            refusals.append(SignerExists("the given id is taken"))
            continue
        if new.named:
            in_use.add(new.id)
        sealed = vault.seal(each.secret.reveal().encode(), place(new.id, version), transaction)
        values = (sealed, version, origin, each.set_locally, now, transaction.revision)
        rows.append((new.id, new.type, each.open_config, *values))
        refusals.append(None)
    transaction.insert("signers", _COLUMNS, rows)
    return refusals


def _ids_in_use(transaction: Transaction, many: Sequence[PreparedSigner]) -> set[str]:
    """Which of the callers' ids are in use. Write transactions are serialised, so no other adds one meanwhile."""
    given = [each.new.id for each in many if each.new.named]  # a generated id is new
    return transaction.present("signers", "id", given) if given else set()


def open_config(vault: Vault, signer_id: str, signer_type: str, shown: str, sealed: bytes, version: int) -> Config:
    """The whole config with its secrets. Raises Damaged when the sealed part does not open."""
    return join(signer_type, shown.encode(), vault.open(sealed, place(signer_id, version)))
