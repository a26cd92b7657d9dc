"""Commands on a server, over its admin API."""

from typing import TYPE_CHECKING

from relaydeck.cli.remote.connection import Connection
from relaydeck.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relaydeck.cli.backend import Audit, Events, Provisioning, Records, Relayers, SignerChecks, Tokens
    from relaydeck.doctor.finding import Finding


class RemoteBackend:
    """Each part is loaded by its first use. All parts share one connection."""

    def __init__(self, url: str, token: Secret) -> None:
        self._connection = Connection(url, token)

    @property
    def records(self) -> "Records":
        from relaydeck.cli.remote.remote_records import RemoteRecords

        return RemoteRecords(self._connection)

    @property
    def relayers(self) -> "Relayers":
        from relaydeck.cli.remote.relayers import RemoteRelayers

        return RemoteRelayers(self._connection)

    @property
    def signer_checks(self) -> "SignerChecks":
        from relaydeck.cli.remote.signer_checks import RemoteSignerChecks

        return RemoteSignerChecks(self._connection)

    @property
    def tokens(self) -> "Tokens":
        from relaydeck.cli.remote.tokens import RemoteTokens

        return RemoteTokens(self._connection)

    @property
    def events(self) -> "Events":
        from relaydeck.cli.remote.events import RemoteEvents

        return RemoteEvents(self._connection)

    @property
    def audit(self) -> "Audit":
        from relaydeck.cli.remote.audit import RemoteAudit

        return RemoteAudit(self._connection)

    @property
    def provisioning(self) -> "Provisioning":
        from relaydeck.cli.remote.provisioning import RemoteProvisioning

        return RemoteProvisioning(self._connection.patient())

    def findings(self) -> "Iterator[Finding]":
        from relaydeck.cli.remote.doctor import server_findings

        return server_findings(self._connection)
