"""Checks of the signers of a server."""

from collections.abc import Iterator

from relaydeck.cli.backend import Advance, Json
from relaydeck.cli.remote.connection import Connection
from relaydeck.cli.remote.remote_records import RemoteRecords
from relaydeck.client.models import SignerCheck, SignerDriver

_MANY = 1_000_000_000


class RemoteSignerChecks:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check(self, signer_id: str) -> Json:
        return {"signer_id": signer_id, **self._connection.ask(SignerCheck, "signers", signer_id, "check").data}

    def count(self) -> int:
        records = RemoteRecords(self._connection)
        return sum(records.list_records("signers", {"type": each}, 1).total for each in self._bound_types())

    def check_all(self, advance: Advance) -> Iterator[Json]:
        records = RemoteRecords(self._connection)
        for signer_type in self._bound_types():
            for signer in records.list_records("signers", {"type": signer_type}, _MANY).bodies:
                yield self.check(signer["id"])
                advance(1)

    def _bound_types(self) -> list[str]:
        return [each["type"] for each in self._connection.get(list[SignerDriver], "signer-drivers").data]
