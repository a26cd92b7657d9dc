"""The difference between what a file declares and what is stored, as steps in an order that can be taken."""

from dataclasses import dataclass, field
from typing import NamedTuple

from relaydeck.networks.model import Network
from relaydeck.notifications.model import Notification
from relaydeck.provisioning.declared import Resource
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.relayers.model import Relayer
from relaydeck.secret import Secret
from relaydeck.signers.shapes import NewSigner


class KeyedNotification(NamedTuple):
    """A notification and the key to set: None leaves the stored one, an empty one removes it."""

    notification: Notification
    signing_key: Secret | None


Record = Network | NewSigner | KeyedNotification | Relayer


class FieldChange(NamedTuple):
    """A field and its value before and after, as they may be shown; both empty where they may not."""

    name: str
    before: str = ""
    after: str = ""


class Create(NamedTuple):
    resource: Resource
    name: str
    record: Record


class Change(NamedTuple):
    resource: Resource
    name: str
    record: Record
    fields: tuple[FieldChange, ...]


class Remove(NamedTuple):
    resource: Resource
    name: str


Step = Create | Change | Remove


@dataclass
class Plan:
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
