"""What commands ask for: the interface between how a command prints and where its records are.

`local/` implements it on the home folder, without a running service; `remote/` over the admin API of a server. Both
return JSON values in the form of the admin API, so that a command prints the same both ways. This module and those
that print import neither: a remote command loads nothing of the server.
"""

from typing import Any, Literal, NamedTuple, Protocol

Json = dict[str, Any]
Resource = Literal["networks", "signers", "notifications", "relayers"]
# The collections that are listed in pages: the resources, tokens and the audit log.
Collection = Literal["networks", "signers", "notifications", "relayers", "tokens", "audit"]
IDENTITY: dict[Resource, str] = {"networks": "name", "signers": "id", "notifications": "id", "relayers": "id"}


class View(NamedTuple):
    """A record, and notes for the operator."""

    body: Json
    notes: tuple[str, ...] = ()


class Views(NamedTuple):
    """The first records of a list, and how many there are in all."""

    bodies: list[Json]
    total: int
    notes: tuple[str, ...] = ()


class Records(Protocol):
    """Raises OperatorError for whatever is refused."""

    def list_records(
        self, collection: Collection, filters: dict[str, str], limit: int, *, newest: bool = False
    ) -> Views: ...

    def find(self, resource: Resource, name: str) -> View: ...

    def create(self, resource: Resource, document: Json) -> View: ...

    def update(self, resource: Resource, name: str, patch: Json) -> View: ...

    def delete(self, resource: Resource, name: str) -> None: ...


class Backend(Protocol):
    @property
    def records(self) -> Records: ...
