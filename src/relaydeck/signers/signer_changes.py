"""Signers in the database: created and deleted, each with its entry in the audit log. Its config never changes."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.errors import BadRequest, Forbidden, SignerExists
from relaydeck.scope import MOST_LABELS, OUTSIDE, TOO_MANY_LABELS
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES, NewSigner, hints, join, secret_fields, split
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.changes import ChangeContext, Preparation, RowChange
from relaydeck.store.database import Row, Transaction
from relaydeck.store.record_table import Facts, difference, to_json
from relaydeck.store.sealed_columns import VERSION
from relaydeck.store.sealing import Keyring, Place
from relaydeck.store.vault import Vault

LIST_COLUMNS = "id, type, open_config"
OPENED_COLUMNS = "id, type, open_config, sealed_config, secret_version, set_locally, labels"
_OWN_COLUMNS = ("id", "type", "open_config", "sealed_config", VERSION, "labels")
_COLUMNS = (*_OWN_COLUMNS, "origin", "set_locally", "created_at", "revision")


class SignerCreation(msgspec.Struct, frozen=True, gc=False):
    """A signer with its config split, ready to be sealed and stored, and the content of its audit entry."""

    new: NewSigner
    shown: dict[str, str]
    secret: Secret  # the JSON of the fields to seal
    open_config: str
    facts: str
    actor: str
    hints: list[str]  # about values that look unusable


def prepare(new: NewSigner, actor: str = "") -> SignerCreation:
    """Do the work that needs no transaction before it begins: while it lasts, every other write waits."""
    shown, secret = split(new.config)
    if not shown and new.labels is UNSET:
        open_config, facts = _without_config(new.type)
    else:
        open_config, facts = msgspec.json.encode(shown).decode(), to_json(_facts(new.type, shown, new.labels))
    return SignerCreation(new, shown, Secret(secret.decode()), open_config, facts, actor, hints(new.config))


@cache
def _without_config(signer_type: str) -> tuple[str, str]:
    """Open config and facts of by far the most signers; to write them takes as long as the rest of `prepare`."""
    return "{}", to_json(_facts(signer_type, {}))


def create(context: ChangeContext, new: NewSigner) -> SignerCreation:
    """Store a signer. Raises SignerExists, Forbidden, BadRequest."""
    if (statements := context.transaction.statements) is not None:
        labels = statements.scope.labels | (new.labels or {})
        if len(labels) > MOST_LABELS:
            raise BadRequest(TOO_MANY_LABELS)
        if not statements.scope.carried_by(labels):
            raise Forbidden(OUTSIDE)
        new = msgspec.structs.replace(new, labels=labels)
    creation = prepare(new, context.actor)
    (refusal,) = create_all(context.transaction, context.audit, [creation], origin=context.origin, now=context.now)
    if refusal is not None:
        raise refusal
    context.look([("signer.created", new.id, None, creation.facts)])
    return creation


def create_all(
    transaction: Transaction, audit: AuditLog, many: Sequence[SignerCreation], *, origin: str, now: int
) -> list[SignerExists | None]:
    """Store signers with one statement, and return for each what `create` would raise."""
    refusals = insert(transaction, audit.vault, many, origin=origin, now=now)
    entries = [
        AuditEntry(now, creation.actor, "signer.created", creation.new.id, None, creation.facts)
        for creation, refusal in zip(many, refusals, strict=True)
        if refusal is None
    ]
    audit.append(transaction, entries)
    return refusals


def insert(
    transaction: Transaction, vault: Vault, many: Sequence[SignerCreation], *, origin: str, now: int
) -> list[SignerExists | None]:
    """The rows alone. Write transactions are serialised, so no other adds an id meanwhile."""
    given = [each.new.id for each in many if each.new.named]  # a generated id is new
    # Outside of a scope too: an id that another team uses cannot be used a second time.
    in_use = transaction.present("signers", "id", given, everything=True)
    keyring, version = vault.refreshed(transaction).keyring, transaction.chain_end[0]
    rows: list[tuple[object, ...]] = []
    refusals: list[SignerExists | None] = []
    for each in many:
        new = each.new
        if new.id in in_use:
            refusals.append(SignerExists("the given id is taken"))
            continue
        if new.named:
            in_use.add(new.id)
        shared = (origin, each.actor.startswith("cli:"), now, transaction.revision)
        rows.append(_own_values(each, keyring, version) + shared)
        refusals.append(None)
    transaction.insert("signers", _COLUMNS, rows)
    return refusals


def prepare_creation(preparation: Preparation, new: NewSigner) -> RowChange:
    creation = prepare(new)
    values = dict(zip(_OWN_COLUMNS, _own_values(creation, preparation.keyring, preparation.version), strict=True))
    return RowChange("signers", "created", new.id, values, None, creation.facts)


def _own_values(creation: SignerCreation, keyring: Keyring, version: int) -> tuple[object, ...]:
    new, secret = creation.new, creation.secret.reveal().encode()
    sealed = keyring.seal(secret, _place(new.id, version))
    return new.id, new.type, creation.open_config, sealed, version, _stored_labels(new.labels)


def _stored_labels(labels: dict[str, str] | UnsetType) -> str | None:
    return None if labels is UNSET else msgspec.json.encode(labels).decode()


def _opened_labels(stored: str | None) -> dict[str, str] | UnsetType:
    return UNSET if stored is None else msgspec.json.decode(stored, type=dict[str, str])


def prepare_update(preparation: Preparation, signer: NewSigner) -> RowChange:
    """Only the labels of a signer ever change."""
    return _labels_change(preparation, signer.id, signer.labels)


def _labels_change(preparation: Preparation, signer_id: str, labels: dict[str, str] | UnsetType) -> RowChange:
    row = preparation.row("signers", "labels", "id", signer_id)
    before, after = ({} if each is UNSET else {"labels": each} for each in (_opened_labels(row.labels), labels))
    values = {"seq": row.seq, "labels": _stored_labels(labels)}
    return RowChange("signers", "updated", signer_id, values, *difference(before, after))


def set_labels(context: ChangeContext, signer_id: str, labels: dict[str, str]) -> None:
    """Raises RecordNotFound, BadRequest."""
    if len(labels) > MOST_LABELS:
        raise BadRequest(f"labels must have at most {MOST_LABELS} entries")
    change = _labels_change(context.preparation, signer_id, labels or UNSET)
    if change.entries:
        context.write(change)


def prepare_deletion(preparation: Preparation, signer_id: str) -> RowChange:
    row = preparation.row("signers", "type, open_config, labels", "id", signer_id)
    facts = _facts(row.type, msgspec.json.decode(row.open_config), _opened_labels(row.labels))
    return RowChange("signers", "deleted", signer_id, {"seq": row.seq}, to_json(facts), None)


def _facts(signer_type: str, shown: Mapping[str, str], labels: dict[str, str] | UnsetType = UNSET) -> Facts:
    hidden = dict.fromkeys(sorted(secret_fields(SHAPES[signer_type])), "set")
    labelled = {} if labels is UNSET else {"labels": labels}
    return {"type": signer_type, "config": {**shown, **hidden}} | labelled


def opened(row: Row, vault: Vault) -> NewSigner:
    """A stored signer with its secrets, from OPENED_COLUMNS. Raises Damaged when the sealed part does not open."""
    secret = vault.open(row.sealed_config, _place(row.id, row.secret_version))
    config = join(row.type, row.open_config.encode(), secret)
    return NewSigner(row.id, row.type, config, _opened_labels(row.labels), set_locally=bool(row.set_locally))


def _place(signer_id: str, version: int) -> Place:
    return Place("signers", signer_id, "config", version)
