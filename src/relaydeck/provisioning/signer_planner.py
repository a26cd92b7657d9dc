"""Plans the signers of a file. Key material is never changed in place."""

from typing import Any

import msgspec

from relaydeck.provisioning.declared_records import Declared, DeclaredRecord
from relaydeck.provisioning.differences import signer_fields
from relaydeck.provisioning.plan import Create, Pinned, Plan
from relaydeck.provisioning.reader import missing_in
from relaydeck.provisioning.references import Missing
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.hints import hints
from relaydeck.signers.known_addresses import KeyAnswer, KnownAddresses
from relaydeck.signers.signer_types import SHAPES, NewSigner

_NEVER_IN_PLACE = "key material is never changed in place: declare a new signer under another id"


class SignerPlanner:
    def __init__(self, declared: Declared, stored: Stored, addresses: KnownAddresses, plan: Plan) -> None:
        self._declared = declared
        self._stored = stored
        self._addresses = addresses
        self._plan = plan
        self._signers: dict[str, NewSigner] = {}  # of the file, once they are complete
        self._answers: dict[str, KeyAnswer | None] = {}

    def plan_signer(self, declared: DeclaredRecord) -> None:
        before = self._stored.signer(declared.name)
        self._plan.pinned.append(Pinned("signers", declared.name, declared.values, before))
        if before is None:
            self._plan_new(declared)
        elif isinstance(before, NewSigner):
            self._compare(declared, before)
        else:
            self._plan.note_mistake(declared.place, f"{before}; see 'relaydeck doctor'")

    def _plan_new(self, declared: DeclaredRecord) -> None:
        kind, values = declared.values["type"], declared.values["config"]
        missing = list(missing_in(tuple(values.values())))
        self._plan.mistakes += missing
        if missing:
            return
        config = SHAPES[kind](**values)
        signer = self._signers[declared.name] = NewSigner(declared.name, kind, config)
        self._plan.notes += [f"{declared.place}.{hint}" for hint in hints(config)]
        self._plan.steps.append(Create("signers", declared.name, signer, tuple(signer_fields(None, signer))))

    def _compare(self, declared: DeclaredRecord, before: NewSigner) -> None:
        self._signers[declared.name] = before
        if declared.values["type"] != before.type:
            self._plan.note_mistake(
                f"{declared.place}.type", f"the stored signer is of type {before.type}; {_NEVER_IN_PLACE}"
            )
            return
        for name in before.config.__struct_fields__:
            wanted = declared.values["config"].get(name, msgspec.UNSET)
            if isinstance(wanted, Missing):
                self._plan.notes.append(f"{wanted.place}: {wanted.why}; the stored value is kept")
            elif _plain(wanted) != _plain(getattr(before.config, name)):
                self._plan.note_mistake(
                    f"{declared.place}.config.{name}", f"differs from the stored one; {_NEVER_IN_PLACE}"
                )

    def needs_driver(self, signer_id: str) -> bool:
        """Whether only the key system of a stored signer knows its address."""
        signer = self._stored.signer(signer_id)
        return isinstance(signer, NewSigner) and signer.type in self._addresses.asked_types

    def address_of(self, signer_id: str) -> KeyAnswer | None:
        """None when the signer has a mistake, which is noted already."""
        if signer_id not in self._answers:
            self._answers[signer_id] = self._find_address(signer_id)
        return self._answers[signer_id]

    def _find_address(self, signer_id: str) -> KeyAnswer | None:
        if signer_id in self._signers:
            return self._addresses.find(self._signers[signer_id])
        if signer_id in self._declared.places["signers"]:
            return None
        signer = self._stored.signer(signer_id)
        if signer is None:
            return None
        return self._addresses.find(signer) if isinstance(signer, NewSigner) else KeyAnswer()


def _plain(value: Any) -> Any:
    """JSON objects are compared by meaning, not by spelling."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
