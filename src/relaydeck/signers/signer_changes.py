"""Changes of signers, each with its entry in the audit log. The config of a signer never changes."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import UnsetType

from relaydeck.errors import RecordNotFound, SignerExists
from relaydeck.signers import signer_rows
from relaydeck.signers.hints import hints
from relaydeck.signers.signer_rows import PreparedSigner
from relaydeck.signers.signer_types import SHAPES, Config, NewSigner, new_signer, secret_fields
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, to_json


class SignerCreation(msgspec.Struct, frozen=True, gc=False):
    """A signer ready to be stored, the content of its audit entry, and hints about values that look unusable."""

    signer: PreparedSigner
    facts: str
    actor: str
    hints: list[str]


def prepare_new(actor: str, signer_type: str, config: Config, signer_id: str | UnsetType) -> SignerCreation:
    """Prepare the signer of a request, with a generated id when none is given. Raises BadRequest."""
    return _prepare(actor, new_signer(signer_type, config, signer_id))


def _prepare(actor: str, new: NewSigner) -> SignerCreation:
    """Do the work that needs no transaction before it begins."""
    prepared = signer_rows.prepare(new, actor)
    facts = to_json(_facts(new.type, prepared.shown)) if prepared.shown else _facts_without_config(new.type)
    return SignerCreation(prepared, facts, actor, hints(new.config))


@cache
def _facts_without_config(signer_type: str) -> str:
    return to_json(_facts(signer_type, {}))


def create(context: ChangeContext, new: NewSigner) -> SignerCreation:
    """Store a signer. Raises SignerExists."""
    creation = _prepare(context.actor, new)
    (refusal,) = create_all(context.transaction, context.audit, [creation], origin=context.origin, now=context.now)
    if refusal is not None:
        raise refusal
    return creation


def create_all(
    transaction: Transaction, audit: AuditLog, many: Sequence[SignerCreation], *, origin: str, now: int
) -> list[SignerExists | None]:
    """Store signers with one statement, and return for each what `create` would raise."""
    signers = [creation.signer for creation in many]
    refusals = signer_rows.create_all(transaction, audit.vault, signers, origin=origin, now=now)
    entries = [
        AuditEntry(now, creation.actor, "signer.created", creation.signer.new.id, None, creation.facts)
        for creation, refusal in zip(many, refusals, strict=True)
        if refusal is None
    ]
    audit.append(transaction, entries)
    return refusals


def delete(context: ChangeContext, signer_id: str) -> None:
    """Raises StillInUse while a relayer uses it."""
    row = context.transaction.one("SELECT type, open_config FROM signers WHERE id = :id", {"id": signer_id})
    if row is None:
        raise RecordNotFound("signer")
    context.remove("signer", signer_id, _facts(row.type, msgspec.json.decode(row.open_config)))


def _facts(signer_type: str, shown: Mapping[str, str]) -> Facts:
    hidden = dict.fromkeys(sorted(secret_fields(SHAPES[signer_type])), "set")
    return {"type": signer_type, "config": {**shown, **hidden}}
