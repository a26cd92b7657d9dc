"""Compares a file with the database. Every mistake is noted, and planning goes on to find the others."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from relaydeck.identifiers import new_identifier
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.notifications.model import Notification
from relaydeck.provisioning.addresses import derived_address
from relaydeck.provisioning.comparing import address_change, network_changes, relayer_changes
from relaydeck.provisioning.declared import (
    Declared,
    DeclaredNetwork,
    DeclaredNotification,
    DeclaredRelayer,
    DeclaredSigner,
    DeclaredUrl,
)
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.provisioning.plan import Change, Create, FieldChange, KeyedNotification, Plan
from relaydeck.provisioning.pruning import plan_removals
from relaydeck.provisioning.references import Missing
from relaydeck.provisioning.stored import Stored, StoredNotification, StoredSigner
from relaydeck.relayers.model import Relayer
from relaydeck.secret import Secret
from relaydeck.signers.hints import hints
from relaydeck.signers.shapes import SHAPES, Config, NewSigner
from relaydeck.store.sealing import Damaged

_NEVER_IN_PLACE = "key material is never changed in place: declare a new signer under another id"
NewId = Callable[[], str]


def make_plan(declared: Declared, stored: Stored, *, prune: bool, new_id: NewId = new_identifier) -> Plan:
    planner = _Planner(declared, stored, new_id)
    planner.plan_all()
    if prune:
        plan_removals(declared, stored, planner.plan, planner.relayer_ids)
    return planner.plan


class _Planner:
    def __init__(self, declared: Declared, stored: Stored, new_id: NewId) -> None:
        self.plan = Plan()
        self.relayer_ids: set[str] = set()
        self._declared = declared
        self._stored = stored
        self._new_id = new_id
        self._configs: dict[str, Config] = {}  # of the signers of the file, once they are whole
        self._addresses: dict[str, str | None] = {}

    def plan_all(self) -> None:
        """Referred-to records come before the relayers that refer to them."""
        self._check_mentions()
        for network in self._declared.networks:
            self._plan_network(network)
        for signer in self._declared.signers:
            self._plan_signer(signer)
        for notification in self._declared.notifications:
            self._plan_notification(notification)
        for relayer in self._declared.relayers:
            self._plan_relayer(relayer)

    def _note(self, place: str, problem: str) -> None:
        self.plan.mistakes.append(Mistake(place, problem))

    def _note_missing(self, missing: Iterable[Missing]) -> None:
        for each in missing:
            self._note(each.place, each.why)

    def _note_kept(self, missing: Iterable[Missing]) -> None:
        self.plan.notes += [f"{each.place}: {each.why}; the stored value is kept" for each in missing]

    def _check_mentions(self) -> None:
        for place, resource, record in self._declared.mentions:
            if record not in self._declared.places[resource] and not self._stored.exists(resource, record):
                self._note(place, f"there is no such {resource[:-1]}, in this file or stored")

    def _urls(self, declared: tuple[DeclaredUrl, ...], stored: tuple[RpcUrl, ...] | None) -> tuple[RpcUrl, ...] | None:
        """The URLs as they are to be; None when one is missing and cannot be taken from the stored ones."""
        missing = [each.url for each in declared if isinstance(each.url, Missing)]
        if not missing:
            return tuple(RpcUrl(_revealed(each.url), each.weight) for each in declared)
        if stored is not None and _all_alike(declared, stored):
            self._note_kept(missing)
            return stored
        self._note_missing(missing)
        return None

    def _plan_network(self, declared: DeclaredNetwork) -> None:
        before = self._stored.network(declared.name)
        urls = self._urls(declared.rpc_urls, before.rpc_urls if isinstance(before, Network) else None)
        if urls is None:
            return
        after = Network(
            declared.name,
            declared.network_type,
            declared.chain_id,
            declared.native_symbol,
            urls,
            declared.fee_tokens,
        )
        changes = network_changes(before, after) if isinstance(before, Network) else (FieldChange("rpc_urls"),)
        if before is None:
            self.plan.steps.append(Create("networks", after.name, after))
        elif changes:
            self.plan.steps.append(Change("networks", after.name, after, changes))

    def _plan_signer(self, declared: DeclaredSigner) -> None:
        before = self._stored.signer(declared.id)
        if isinstance(before, Damaged):
            self._note(declared.place, f"{before}; see 'relaydeck doctor'")
        elif before is None:
            self._plan_new_signer(declared)
        else:
            self._compare_signer(declared, before)

    def _plan_new_signer(self, declared: DeclaredSigner) -> None:
        missing = [value for value in declared.config.values() if isinstance(value, Missing)]
        self._note_missing(missing)
        if missing:
            return
        config = SHAPES[declared.type](**declared.config)
        self._configs[declared.id] = config
        self.plan.notes += [f"{declared.place}.{hint}" for hint in hints(config)]
        self.plan.steps.append(Create("signers", declared.id, NewSigner(declared.id, declared.type, config)))

    def _compare_signer(self, declared: DeclaredSigner, before: StoredSigner) -> None:
        self._configs[declared.id] = before.config
        if declared.type != before.type:
            self._note(f"{declared.place}.type", f"the stored signer is of type {before.type}; {_NEVER_IN_PLACE}")
            return
        for name in before.config.__struct_fields__:
            wanted, kept = declared.config.get(name, msgspec.UNSET), getattr(before.config, name)
            if isinstance(wanted, Missing):
                self._note_kept([wanted])
            elif _plain(wanted) != _plain(kept):
                self._note(f"{declared.place}.config.{name}", f"differs from the stored one; {_NEVER_IN_PLACE}")

    def _plan_notification(self, declared: DeclaredNotification) -> None:
        before = self._stored.notification(declared.id)
        key = declared.signing_key
        if isinstance(key, Missing):
            if before is None or not isinstance(before.signing_key, Secret):
                self._note_missing([key])
                return
            self._note_kept([key])
            key = None
        after = KeyedNotification(
            Notification(declared.id, declared.type, declared.url, has_signing_key=bool(key and key.reveal())), key
        )
        if before is None:
            self.plan.steps.append(Create("notifications", declared.id, after))
        elif changes := _notification_changes(before, after):
            self.plan.steps.append(Change("notifications", declared.id, after, tuple(changes)))

    def _plan_relayer(self, declared: DeclaredRelayer) -> None:
        relayer_id = declared.id or self._known_id(declared)
        if relayer_id is None:
            return
        before = self._stored.relayer(relayer_id) if relayer_id else None
        address = self._address(declared)
        urls = self._urls(declared.custom_rpc_urls, before.custom_rpc_urls if isinstance(before, Relayer) else None)
        if address is None or urls is None:
            return
        after = Relayer(
            id=relayer_id or self._new_id(),
            name=declared.name,
            network=declared.network,
            network_type=declared.network_type,
            address=address,
            signer_id=declared.signer_id,
            notification_id=declared.notification_id,
            custom_rpc_urls=urls,
            policies=declared.policies,
        )
        self._add_relayer(before, after)

    def _add_relayer(self, before: Relayer | Damaged | None, after: Relayer) -> None:
        self.relayer_ids.add(after.id)
        changes = relayer_changes(before, after) if isinstance(before, Relayer) else (FieldChange("custom_rpc_urls"),)
        if before is None:
            self.plan.steps.append(Create("relayers", after.id, after))
        elif changes:
            self.plan.steps.append(Change("relayers", after.id, after, changes))

    def _known_id(self, declared: DeclaredRelayer) -> str | None:
        """The id of the applied relayer of this name; empty when there is none, None when several."""
        named = self._declared.places["relayers"]
        known = [each for each in self._stored.applied_relayers_named(declared.name) if each not in named]
        if len(known) > 1:
            self._note(f"{declared.place}.id", f"is missing, and {len(known)} stored relayers have this name")
            return None
        return known[0] if known else ""

    def _address(self, declared: DeclaredRelayer) -> str | None:
        """None when it is not known, which is noted here unless the mistake is the signer's."""
        derived = self._signer_address(declared.signer_id)
        if derived is None:
            return None
        if not derived and not declared.address:
            self._note(f"{declared.place}.address", "is missing, and cannot be derived from this signer")
            return None
        if derived and declared.address not in ("", derived):
            self._note(f"{declared.place}.address", f"is not the address of this signer, which is {derived}")
            return None
        return derived or declared.address

    def _signer_address(self, signer_id: str) -> str | None:
        """Empty when it cannot be derived; None when the signer is a mistake that is noted already."""
        if signer_id not in self._addresses:
            self._addresses[signer_id] = self._derived_address(signer_id)
        return self._addresses[signer_id]

    def _derived_address(self, signer_id: str) -> str | None:
        if signer_id in self._configs:
            return derived_address(self._configs[signer_id])
        if signer_id in self._declared.places["signers"]:
            return None
        match self._stored.signer(signer_id):
            case StoredSigner(config=config):
                return derived_address(config)
            case Damaged():
                return ""  # what does not open tells no address
        return None


def _revealed(url: Secret | Missing) -> str:
    return url.reveal() if isinstance(url, Secret) else ""


def _all_alike(declared: tuple[DeclaredUrl, ...], stored: tuple[RpcUrl, ...]) -> bool:
    """Whether nothing that is known differs, so that each missing URL can only be the stored one."""
    return len(declared) == len(stored) and all(
        wanted.weight == kept.weight and (isinstance(wanted.url, Missing) or wanted.url.reveal() == kept.url)
        for wanted, kept in zip(declared, stored, strict=True)
    )


def _plain(value: Any) -> Any:
    """JSON objects are compared by what they say, not by how it is written."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _notification_changes(before: StoredNotification, after: KeyedNotification) -> list[FieldChange]:
    changes = address_change(before.url, after.notification.url)
    # No key stored and an empty one declared are the same; a damaged one differs from every other.
    if after.signing_key is not None and after.signing_key != (before.signing_key or Secret("")):
        changes.append(FieldChange("signing_key"))
    return changes
