"""Commands on the home folder itself, with or without a running service."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaydeck.cli.backend import Records


class LocalBackend:
    """Each part is loaded by its first use."""

    @property
    def records(self) -> "Records":
        from relaydeck.cli.local.records import LocalRecords

        return LocalRecords()
