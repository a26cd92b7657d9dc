"""Tokens of a server."""

from relaydeck.cli.remote.connection import Connection, Refused
from relaydeck.client.errors import NotFound
from relaydeck.client.models import NewToken


class RemoteTokens:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str, kind: str, expires: str) -> str:
        document = {"name": name, "kind": kind} | ({"expires": expires} if expires else {})
        token: str = self._connection.request(NewToken, "POST", "tokens", document=document).data["token"]
        return token

    def revoke(self, name: str) -> bool:
        try:
            self._connection.request(None, "DELETE", "tokens", name)
        except Refused as refusal:
            if isinstance(refusal.error, NotFound):
                return False
            raise
        return True
