"""What commands ask for: the interface between how a command prints and where its records are.

`local/` implements it on the home folder, without a running service; `remote/` over the admin API of a server. Both
return JSON values in the form of the admin API, so that a command prints the same both ways. This module and those
that print import neither: of the server, a remote command loads only declarations.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from relaydeck.doctor.finding import Finding
from relaydeck.errors import OperatorError

Json = dict[str, Any]
Advance = Callable[[int], None]
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


class Relayers(Protocol):
    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        """Whether that changed anything."""

    def explain(self, relayer_id: str) -> Json:
        """An `Explanation` of the admin API."""

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        """An `EstimateReport` of the admin API."""

    def runway(self, relayer_id: str) -> Json:
        """A `Runway` of the admin API."""

    def first_runways(self, count: int) -> list[Json]: ...

    def balances(self, relayer_id: str, seconds: int, step: str) -> Json:
        """A `BalanceHistory` of the admin API, of the last so many seconds."""


class SignerChecks(Protocol):
    """Each check is a `SignerCheckReport` of the admin API with `signer_id`."""

    def check(self, signer_id: str) -> Json: ...

    def count(self) -> int:
        """How many signers `check_all` checks: those with a bound driver."""

    def check_all(self, advance: Advance) -> Iterator[Json]: ...


class Tokens(Protocol):
    def create(self, name: str, kind: str, expires: str) -> str:
        """The token. `expires` is a lifetime such as 30d; empty: never."""

    def revoke(self, name: str) -> bool:
        """Whether there was a live token of that name."""


class Events(Protocol):
    def list_events(self, query: dict[str, str], limit: int) -> list[Json]:
        """`query`: filters and `order`, as the admin API takes them."""

    def list_deliveries(self, query: dict[str, str], limit: int) -> list[Json]: ...

    def find_delivery(self, event_id: str) -> Json: ...

    def replay(self, event_id: str) -> None: ...

    def replay_dead(self) -> int: ...

    def send_test(self, notification_id: str) -> Json: ...


class Audit(Protocol):
    def head(self) -> str: ...

    def verify(self, saved: str) -> Json:
        """An `AuditVerification` of the admin API. `saved` is an earlier head, or empty."""


class ApplyFile(NamedTuple):
    name: str  # in messages
    content: bytes
    folder: Path  # that relative paths in it start from


class OutdatedPlan(OperatorError):
    """The plan that was reviewed is not the plan that would be applied."""

    def __init__(self, changes: Sequence[Mapping[str, str]], records: Sequence[Mapping[str, str]]) -> None:
        different = [f"  {each['kind']} {each['name'] or '(more than one, or not in this file)'}" for each in records]
        since = [f"  {each['at']}  {each['actor']}  {each['action']}  {each['record']}" for each in changes]
        super().__init__(
            "\n".join(
                [
                    "the plan is not the one that was reviewed",
                    *(["Different from the reviewed plan:", *different] if different else []),
                    *(["Changed since:", *since] if since else ["No record has changed since."]),
                ]
            ),
            "Nothing was changed. Plan again, and review the new plan.",
        )


class Provisioning(Protocol):
    """Each report is an `ApplyReport` of the admin API."""

    def plan(self, file: ApplyFile, *, prune: bool) -> Json: ...

    def apply(self, file: ApplyFile, *, prune: bool, revision: str) -> Json:
        """Shows its progress. With the revision of a plan, raises OutdatedPlan for any other plan."""

    def export(self) -> Iterator[str]:
        """The apply file in pieces."""


class Backend(Protocol):
    @property
    def records(self) -> Records: ...

    @property
    def relayers(self) -> Relayers: ...

    @property
    def signer_checks(self) -> SignerChecks: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def events(self) -> Events: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def provisioning(self) -> Provisioning: ...

    def findings(self) -> Iterator[Finding]:
        """What `relaydeck doctor` finds."""
