"""The audit log of a server."""

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection


class RemoteAudit:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def head(self) -> str:
        head: str = self._connection.get("audit", "head").data["head"]
        return head

    def verify(self, saved: str) -> Json:
        found: Json = self._connection.get("audit", "verify", head=saved or None).data
        return found
