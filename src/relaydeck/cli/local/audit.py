"""The audit log of the home."""

from relaydeck.admin.audit_operations import verification
from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store
from relaydeck.store.audit import head


class LocalAudit:
    def head(self) -> str:
        with existing_store() as store:
            return str(head(store.database.read))

    def verify(self, saved: str) -> Json:
        with existing_store() as store, store.database.snapshot():
            return json_values(verification(store, saved))
