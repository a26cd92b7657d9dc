"""The audit log of a server."""

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection
from relaydeck.client.models import AuditHead, AuditVerification


class RemoteAudit:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def head(self) -> str:
        head: str = self._connection.get(AuditHead, "audit", "head").data["head"]
        return head

    def verify(self, saved: str) -> Json:
        found: Json = self._connection.get(AuditVerification, "audit", "verify", head=saved or None).data
        return found
