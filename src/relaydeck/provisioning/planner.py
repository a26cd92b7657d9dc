"""Compares a file with the database. Every mistake is noted, and planning continues to find the others."""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from relaydeck.identifiers import new_identifier
from relaydeck.provisioning.declared_records import RECORD_TYPES, Declared, DeclaredRecord, Resource
from relaydeck.provisioning.differences import differences
from relaydeck.provisioning.mistakes import TooManyMistakes
from relaydeck.provisioning.plan import UNCHANGED, Change, Create, Pinned, Plan
from relaydeck.provisioning.pruning import plan_removals
from relaydeck.provisioning.reader import Values, may_be, missing_in
from relaydeck.provisioning.signer_planner import SignerPlanner
from relaydeck.provisioning.stored import Stored, StoredRecord
from relaydeck.provisioning.url_rules import NO_RULES, NODE_FIELDS, UrlRules
from relaydeck.quantities import first_few
from relaydeck.signers.known_addresses import KeyAnswer, KnownAddresses, Questions

NewId = Callable[[], str]
_MOST_NAMED = 3


def make_plan(
    declared: Declared,
    stored: Stored,
    addresses: KnownAddresses,
    *,
    prune: bool,
    urls: UrlRules = NO_RULES,
    new_id: NewId = new_identifier,
) -> Plan:
    planner = _Planner(declared, stored, addresses, urls, new_id)
    with suppress(TooManyMistakes):
        planner.plan_all()
        if prune:
            plan_removals(declared, stored, planner.plan, planner.relayer_ids)
    return planner.plan


def key_questions(declared: Declared, stored: Stored, bound_types: frozenset[str]) -> Questions:
    """What drivers have to be asked before the plan can be made, found by a trial plan."""
    addresses = KnownAddresses(bound_types)
    if addresses.asked_types:
        make_plan(declared, stored, addresses, prune=False)
    return addresses.questions


class _Planner:
    def __init__(
        self, declared: Declared, stored: Stored, addresses: KnownAddresses, urls: UrlRules, new_id: NewId
    ) -> None:
        self.plan = Plan()
        self.relayer_ids: set[str] = set()
        self._declared = declared
        self._stored = stored
        self._urls = urls
        self._new_id = new_id
        self._signers = SignerPlanner(declared, stored, addresses, self.plan)

    def plan_all(self) -> None:
        """A file declares records in the order in which they can refer to each other."""
        self._check_mentions()
        for record in self._declared.records:
            if record.resource == "signers":
                self._signers.plan_signer(record)
            elif record.resource == "relayers":
                self._plan_relayer(record)
            else:
                self._plan_record(record, record.name, record.values)

    def _check_mentions(self) -> None:
        for place, resource, record in self._declared.mentions:
            if record not in self._declared.places[resource] and not self._stored.exists(resource, record):
                self.plan.note_mistake(place, f"there is no such {resource[:-1]}, in this file or stored")

    def _plan_record(self, declared: DeclaredRecord, name: str, values: Values) -> None:
        found = self._stored.find(declared.resource, name)
        complete = self._complete(values, found)
        if complete is None:
            return
        after = self._with_nodes(declared, RECORD_TYPES[declared.resource](**complete), found)
        self._check_webhook(declared, after, found)
        changes = tuple(differences(found.record, after, damaged=found.damaged)) if found else ()
        if found is None:
            self.plan.steps.append(Create(declared.resource, name, after))
        elif changes:
            self.plan.steps.append(Change(declared.resource, name, after, changes))
        self._pin(declared.resource, name, values, found if changes or not found else UNCHANGED)

    def _pin(self, resource: Resource, name: str, values: Values, stored: Any) -> None:
        """A generated id is another one in each plan."""
        if name in self.plan.generated_ids:
            name, values = values["name"], values | {"id": ""}
        self.plan.pinned.append(Pinned(resource, name, values, stored))

    def _with_nodes(
        self, declared: DeclaredRecord, after: msgspec.Struct, found: StoredRecord | None
    ) -> msgspec.Struct:
        """Check and mark the URLs of nodes. One that is stored stays as it is, unless a command sets it again."""
        field = NODE_FIELDS.get(declared.resource, "")
        nodes = getattr(after, field, ())
        stored = {each.url: each.set_over_http for each in getattr(found.record, field, ())} if found else {}
        for number, each in enumerate(nodes):
            if each.url not in stored and (problem := self._urls.nodes.problem(each.url)):
                self.plan.note_mistake(f"{declared.place}.{field}[{number}].url", problem)
        if not nodes or not self._urls.marks_nodes:
            return after
        marked = tuple(replace(each, set_over_http=stored.get(each.url, True)) for each in nodes)
        return replace(after, **{field: marked})

    def _check_webhook(self, declared: DeclaredRecord, after: msgspec.Struct, found: StoredRecord | None) -> None:
        url: str | None = getattr(after, "url", None) if declared.resource == "notifications" else None
        is_unchanged = found is not None and url == getattr(found.record, "url", None)
        if url is None or (is_unchanged and not self._urls.hints_at_unchanged):
            return
        if hint := self._urls.webhooks.hint(url):
            self.plan.notes.append(f"{declared.place}.url {hint}")

    def _complete(self, values: Values, found: StoredRecord | None) -> Values | None:
        """The values without references that lead nowhere; None when one of them has no stored value to keep."""
        complete, unknown = dict(values), False
        for name, value in values.items():
            missing = list(missing_in(value))
            kept = _kept(name, value, found) if missing else None
            if kept is not None:
                complete[name] = kept
                self.plan.notes += [f"{each}; the stored value is kept" for each in missing]
            elif missing:
                unknown = True
                self.plan.mistakes += missing
        return None if unknown else complete

    def _plan_relayer(self, declared: DeclaredRecord) -> None:
        known = declared.name or self._known_id(declared)
        if known is None:
            return
        address = self._address(declared, known)
        if address is None:
            self._complete(declared.values, self._stored.find("relayers", known) if known else None)
            return
        relayer_id = known or self._new_id()
        if not known:
            self.plan.generated_ids.add(relayer_id)
        self.relayer_ids.add(relayer_id)
        self._plan_record(declared, relayer_id, declared.values | {"id": relayer_id, "address": address})

    def _known_id(self, declared: DeclaredRecord) -> str | None:
        """The id of the applied relayer of this name; empty when there is none, None when there are several."""
        named = self._declared.places["relayers"]
        applied = self._stored.applied_relayers_named(declared.values["name"])
        known = [each for each in applied if each not in named]
        if len(known) > 1:
            stored = f"{len(known)} stored relayers have this name"
            problem = f"is missing, and {stored}; add the id that is meant: {first_few(known, _MOST_NAMED)}"
            self.plan.note_mistake(f"{declared.place}.id", problem)
            return None
        if not known:
            self._note_others(declared)
        return known[0] if known else ""

    def _note_others(self, declared: DeclaredRecord) -> None:
        others = self._others_by_name.get(declared.values["name"], ())
        if ids := [each for each in others if each not in self._declared.places["relayers"]]:
            self.plan.notes.append(
                f"{declared.place}: this relayer is created beside others of the same name that no apply created:"
                f" {first_few(ids, _MOST_NAMED)}. To change one of those instead, add its id to the file."
            )

    @cached_property
    def _others_by_name(self) -> dict[str, list[str]]:
        """The relayers that no apply created and that have a name of a declared one without an id."""
        names = {each.values["name"] for each in self._declared.of("relayers") if not each.name}
        return self._stored.other_relayers_named(sorted(names))

    def _address(self, declared: DeclaredRecord, known: str) -> str | None:
        """None when it is not known. That is noted here, unless the mistake is in the signer."""
        given: str = declared.values.get("address", "")
        if settled := self._settled_address(declared, known, given):
            return settled
        answer = self._signers.address_of(declared.values["signer_id"])
        if answer is None:
            return None
        if problem := _address_problem(given, answer):
            self.plan.note_mistake(f"{declared.place}.address", problem)
            return None
        if answer.problem:
            self.plan.notes.append(f"{declared.place}.address: is stored without verification: {answer.problem}")
        return answer.address or given

    def _settled_address(self, declared: DeclaredRecord, known: str, given: str) -> str:
        """The stored address, when nothing about the key changes and only a driver could tell it again."""
        found = self._stored.find("relayers", known) if known else None
        if found is None or not self._signers.needs_driver(declared.values["signer_id"]):
            return ""
        stored: Any = found.record
        unchanged = stored.signer_id == declared.values["signer_id"] and given in ("", stored.address)
        return str(stored.address) if unchanged else ""


def _address_problem(given: str, answer: KeyAnswer) -> str:
    if answer.address and given not in ("", answer.address):
        return f"{given} is not the address of this signer, which is {answer.address}"
    if given or answer.address:
        return ""
    return f"is missing, and {answer.problem or 'cannot be derived from this signer'}"


def _kept(name: str, value: Any, found: StoredRecord | None) -> Any:
    """The stored value of a field, if it can only be the one that a reference in `value` used to lead to."""
    if found is None or name in found.damaged:
        return None
    stored = getattr(found.record, name)
    return stored if may_be(value, stored) else None
