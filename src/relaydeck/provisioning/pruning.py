"""Plans what pruning removes: records that an apply created, the file no longer declares and nothing refers to."""

from relaydeck.provisioning.declared_records import Declared, Resource
from relaydeck.provisioning.differences import signer_fields
from relaydeck.provisioning.plan import FieldChange, Pinned, Plan, Remove
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.signer_types import NewSigner

_REFERRED_TO: tuple[Resource, ...] = ("notifications", "signers", "networks")


def plan_removals(declared: Declared, stored: Stored, plan: Plan, kept: set[str]) -> None:
    """`kept`: the ids of the relayers that the file declares by name only."""
    _Pruning(declared, stored, plan).plan_all(kept | set(declared.places["relayers"]))


class _Pruning:
    def __init__(self, declared: Declared, stored: Stored, plan: Plan) -> None:
        self._declared = declared
        self._stored = stored
        self._plan = plan
        self._mentioned = {(each.resource, each.record): each.place for each in reversed(declared.mentions)}

    def plan_all(self, named: set[str]) -> None:
        applied = self._stored.applied_relayers
        relayers = [each for each in applied if each not in named]
        for each in relayers:
            self._remove(Remove("relayers", each, applied[each]))
        # What a declared relayer refers to is in the file; what it refers to now does not matter.
        settled = named | set(relayers)
        for resource in _REFERRED_TO:
            for record in self._stored.applied(resource):
                if record not in self._declared.places[resource]:
                    self._plan_one(resource, record, settled)

    def _plan_one(self, resource: Resource, record: str, settled: set[str]) -> None:
        user = self._mentioned.get((resource, record)) or self._remaining_user(resource, record, settled)
        if user:
            problem = f"the {resource[:-1]} {record!r} cannot be removed: {user} refers to it"
            self._plan.note_mistake("--prune", problem)
        else:
            self._remove(Remove(resource, record, fields=self._fields(resource, record)))

    def _remove(self, step: Remove) -> None:
        """The audit log shows whether the record changes after this."""
        self._plan.pinned.append(Pinned(step.resource, step.name, None, step.title))
        self._plan.steps.append(step)

    def _fields(self, resource: Resource, record: str) -> tuple[FieldChange, ...]:
        signer = self._stored.signer(record) if resource == "signers" else None
        return tuple(signer_fields(signer, None)) if isinstance(signer, NewSigner) else ()

    def _remaining_user(self, resource: Resource, record: str, settled: set[str]) -> str:
        users = (each for each in self._stored.referring(resource, record) if each not in settled)
        return next((f"the relayer {each!r}" for each in users), "")
