"""Tokens and audit entries as the admin API shows them."""

from operator import attrgetter

import msgspec
from msgspec import UNSET

from relaydeck.admin.bodies import AuditEntry, Token
from relaydeck.admin.views import RecordView, json_values
from relaydeck.store import audit
from relaydeck.store.database import Row
from relaydeck.store.row_proofs import TOKEN_COLUMNS as PROVEN_COLUMNS
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

TOKEN_COLUMNS = (
    f"{', '.join(PROVEN_COLUMNS)}, proof,"
    " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= :now THEN 'expired' ELSE 'live' END AS state"
)
AUDIT_COLUMNS = audit.COLUMNS
_proven = attrgetter(*PROVEN_COLUMNS)


def token_view(row: Row, vault: Vault) -> RecordView:
    origin = vault.proofs.token_origin(row.proof, _proven(row))
    token = Token(
        name=row.name,
        kind=row.kind,
        state=row.state if origin else "refused",
        created_at=utc(row.created_at),
        expires_at=utc(row.expires_at),
        revoked_at=utc(row.revoked_at),
        migrated=origin == "migrated",
    )
    return RecordView(json_values(token))


def audit_view(row: Row, _vault: Vault) -> RecordView:
    entry = AuditEntry(
        sequence=row.seq,
        at=utc(row.moment),
        actor=row.actor,
        action=row.action,
        record=row.record,
        before=row.before_change and msgspec.json.decode(row.before_change),
        after=row.after_change and msgspec.json.decode(row.after_change),
        hash=row.hash.hex(),
        origin=UNSET if row.origin is None else row.origin,
    )
    return RecordView(json_values(entry))
