"""Commands on the home folder itself, with or without a running service."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relaydeck.cli.backend import Audit, Events, Provisioning, Records, Relayers, SignerChecks, Tokens
    from relaydeck.doctor.finding import Finding


_MANY_STEPS = 100_000  # a second or so


class LocalBackend:
    """Each part is loaded by its first use."""

    @property
    def records(self) -> "Records":
        from relaydeck.cli.local.local_records import LocalRecords

        return LocalRecords()

    @property
    def relayers(self) -> "Relayers":
        from relaydeck.cli.local.relayers import LocalRelayers

        return LocalRelayers()

    @property
    def signer_checks(self) -> "SignerChecks":
        from relaydeck.cli.local.signer_checks import LocalSignerChecks

        return LocalSignerChecks()

    @property
    def tokens(self) -> "Tokens":
        from relaydeck.cli.local.tokens import LocalTokens

        return LocalTokens()

    @property
    def events(self) -> "Events":
        from relaydeck.cli.local.events import LocalEvents

        return LocalEvents()

    @property
    def audit(self) -> "Audit":
        from relaydeck.cli.local.audit import LocalAudit

        return LocalAudit()

    @property
    def provisioning(self) -> "Provisioning":
        from relaydeck.cli.local.provisioning import LocalProvisioning

        return LocalProvisioning()

    def findings(self) -> "Iterator[Finding]":
        from relaydeck.cli.output import progress_bar
        from relaydeck.doctor.all_checks import findings
        from relaydeck.doctor.machine import Machine
        from relaydeck.settings import read_settings

        return findings(read_settings(), Machine(), partial(progress_bar, at_least=_MANY_STEPS))
