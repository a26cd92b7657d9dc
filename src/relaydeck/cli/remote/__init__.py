"""Commands on a server, over its admin API."""

from typing import TYPE_CHECKING

from relaydeck.cli.remote.connection import Connection
from relaydeck.secret import Secret

if TYPE_CHECKING:
    from relaydeck.cli.backend import Records


class RemoteBackend:
    """Each part is loaded by its first use. All parts share one connection."""

    def __init__(self, url: str, token: Secret) -> None:
        self._connection = Connection(url, token)

    @property
    def records(self) -> "Records":
        from relaydeck.cli.remote.records import RemoteRecords

        return RemoteRecords(self._connection)
