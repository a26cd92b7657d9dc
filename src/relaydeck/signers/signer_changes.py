"""Changes of signers, each with its row in the audit log. A key is never changed in place."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from relaydeck.errors import RecordNotFound, SignerExists
from relaydeck.signers import signer_rows
from relaydeck.signers.shapes import SHAPES, secret_fields
from relaydeck.signers.signer_rows import NewSigner, PreparedSigner
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, to_json
from relaydeck.store.references import refuse_while_used
from relaydeck.store.removals import remove_row
from relaydeck.store.vault import Vault


class AskedSigner(msgspec.Struct, frozen=True, gc=False):
    """A signer ready to be stored, what the audit log will say of it, and who asks for it."""

    signer: PreparedSigner
    facts: str
    actor: str


def prepare(vault: Vault, actor: str, new: NewSigner, *, named: bool = True) -> AskedSigner:
    """Do ahead of the transaction what needs none. `named`: the caller gave the id, so that it may be taken."""
    prepared = signer_rows.prepare(vault, new, named=named)
    facts = to_json(_facts(new.type, prepared.shown)) if prepared.shown else _told_of_nothing_shown(new.type)
    return AskedSigner(prepared, facts, actor)


@cache
def _told_of_nothing_shown(signer_type: str) -> str:
    return to_json(_facts(signer_type, {}))


def create(context: ChangeContext, new: NewSigner) -> dict[str, str]:
    """The part of the config that may be shown. Raises SignerExists."""
    asked = prepare(context.vault, context.actor, new)
    (refusal,) = create_all(context.transaction, context.audit, [asked], origin=context.origin, now=context.now)
    if refusal is not None:
        raise refusal
    return asked.signer.shown


def create_all(
    transaction: Transaction, audit: AuditLog, many: Sequence[AskedSigner], *, origin: str, now: int
) -> list[SignerExists | None]:
    """Store signers in one go; for each, what `create` would raise."""
    signers = [asked.signer for asked in many]
    refusals = signer_rows.create_all(transaction, audit.vault, signers, origin=origin, now=now)
    deeds = [
        AuditEntry(now, asked.actor, "signer.created", asked.signer.new.id, None, asked.facts)
        for asked, refusal in zip(many, refusals, strict=True)
        if refusal is None
    ]
    audit.append(transaction, deeds)
    return refusals


def delete(context: ChangeContext, signer_id: str) -> None:
    """Raises StillInUse while a relayer uses it."""
    row = context.transaction.one("SELECT type, open_config FROM signers WHERE id = :id", {"id": signer_id})
    if row is None:
        raise RecordNotFound("signer")
    refuse_while_used(context.transaction, "signer", signer_id)
    remove_row(context.transaction, "signers", "id", signer_id)
    context.removed("signer", signer_id, _facts(row[0], msgspec.json.decode(row[1])))


def _facts(signer_type: str, shown: Mapping[str, str]) -> Facts:
    hidden = dict.fromkeys(sorted(secret_fields(SHAPES[signer_type])), "set")
    return {"type": signer_type, "config": {**shown, **hidden}}
