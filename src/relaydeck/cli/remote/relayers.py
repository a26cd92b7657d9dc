"""The state of relayers and fee estimates, of a server."""

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection

_UNCHANGED = "nothing was changed"  # how the server's note about a state that a relayer had already begins


class RemoteRelayers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        found = self._connection.request("POST", "relayers", relayer_id, "pause" if paused else "resume")
        return not any(note.startswith(_UNCHANGED) for note in found.meta.logs)

    def explain(self, relayer_id: str) -> Json:
        found: Json = self._connection.get("relayers", relayer_id, "why").data
        return found

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        document = {"transaction": transaction} | ({"token": token} if token else {})
        found: Json = self._connection.ask("relayers", relayer_id, "estimate", document=document).data
        return found
