"""The state of relayers and fee estimates, of a server."""

import time

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection
from relaydeck.client.models import BalanceHistory, EstimateReport, Explanation, FirstRunways, Relayer, Runway
from relaydeck.timestamps import utc

_UNCHANGED = "nothing was changed"  # how the server's note about a state that a relayer had already begins


class RemoteRelayers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        found = self._connection.request(Relayer, "POST", "relayers", relayer_id, "pause" if paused else "resume")
        return not any(note.startswith(_UNCHANGED) for note in found.meta.logs)

    def explain(self, relayer_id: str) -> Json:
        found: Json = self._connection.get(Explanation, "relayers", relayer_id, "why").data
        return found

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        document = {"transaction": transaction} | ({"token": token} if token else {})
        found: Json = self._connection.ask(EstimateReport, "relayers", relayer_id, "estimate", document=document).data
        return found

    def runway(self, relayer_id: str) -> Json:
        found: Json = self._connection.get(Runway, "relayers", relayer_id, "runway").data
        return found

    def first_runways(self, count: int) -> list[Json]:
        found: list[Json] = self._connection.get(FirstRunways, "runways", first=count).data["runways"]
        return found

    def balances(self, relayer_id: str, seconds: int, step: str) -> Json:
        start = utc(time.time() - seconds)
        query = {"from": start, "step": step}
        found: Json = self._connection.get(BalanceHistory, "relayers", relayer_id, "balances", **query).data
        return found
