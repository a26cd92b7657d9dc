"""What a file declares, read and checked as far as the file alone allows."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from msgspec import UnsetType

from relaydeck.networks.model import FeeToken, NetworkType
from relaydeck.notifications.model import NotificationType
from relaydeck.provisioning.references import Missing
from relaydeck.relayers.model import Policies
from relaydeck.secret import Secret

Resource = Literal["networks", "signers", "notifications", "relayers"]


class DeclaredUrl(NamedTuple):
    url: Secret | Missing
    weight: int


class DeclaredNetwork(NamedTuple):
    place: str
    name: str
    network_type: NetworkType
    chain_id: int
    native_symbol: str
    rpc_urls: tuple[DeclaredUrl, ...]
    fee_tokens: tuple[FeeToken, ...]


class DeclaredSigner(NamedTuple):
    place: str
    id: str
    type: str
    config: dict[str, Any]  # str, Secret, msgspec.Raw or Missing, by field


class DeclaredNotification(NamedTuple):
    place: str
    id: str
    type: NotificationType
    url: str
    signing_key: Secret | Missing | None  # as in the update operation: None leaves it, an empty one removes it


class DeclaredRelayer(NamedTuple):
    place: str
    id: str  # empty: known by its name
    name: str
    network: str
    network_type: NetworkType
    address: str  # empty: derived from the signer
    signer_id: str
    notification_id: str | UnsetType
    custom_rpc_urls: tuple[DeclaredUrl, ...]
    policies: Policies


class Mention(NamedTuple):
    """A record that another one refers to."""

    place: str
    resource: Resource
    record: str


def _no_names() -> dict[Resource, dict[str, str]]:
    return {"networks": {}, "signers": {}, "notifications": {}, "relayers": {}}


@dataclass
class Declared:
    """Records with a mistake in them are left out, but their names are known all the same."""

    networks: list[DeclaredNetwork] = field(default_factory=list)
    signers: list[DeclaredSigner] = field(default_factory=list)
    notifications: list[DeclaredNotification] = field(default_factory=list)
    relayers: list[DeclaredRelayer] = field(default_factory=list)
    places: dict[Resource, dict[str, str]] = field(default_factory=_no_names)
    mentions: list[Mention] = field(default_factory=list)
