"""Compares a file with the database. Every mistake is noted, and planning continues to find the others."""

from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from relaydeck.identifiers import new_identifier
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import EVERY_NODE, NodeRule
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.provisioning.declared_records import RECORD_TYPES, REFERRING, Declared, DeclaredRecord, Resource
from relaydeck.provisioning.mistakes import TooManyMistakes
from relaydeck.provisioning.plan import (
    UNCHANGED,
    FieldChange,
    Pinned,
    Plan,
    Step,
    differences,
    open_fields,
    shown_labels,
)
from relaydeck.provisioning.reader import Missing, Partial, Values, may_be, missing_in
from relaydeck.provisioning.stored import Stored, StoredRecord
from relaydeck.quantities import first_few
from relaydeck.scope import MOST_LABELS, OUTSIDE, SHARED_RECORD, TOO_MANY_LABELS, Scope
from relaydeck.signers.known_addresses import KeyAnswer, KnownAddresses, Questions
from relaydeck.signers.signer_types import SHAPES, NewSigner, hints

NODE_FIELDS = {"networks": "rpc_urls", "relayers": "custom_rpc_urls"}  # the fields with URLs of nodes, by resource


class UrlRules(NamedTuple):
    nodes: NodeRule = EVERY_NODE  # refuses URLs
    marks_nodes: bool = False  # new URLs of nodes as set over HTTP
    webhooks: WebhookRule = WebhookRule()  # gives hints about new URLs
    hints_at_unchanged: bool = False  # and about those that a request repeats


NO_RULES = UrlRules()
_NEVER_IN_PLACE = "key material is never changed in place: declare a new signer under another id"
_REFERRED_TO: tuple[Resource, ...] = ("notifications", "signers", "networks")
_MOST_NAMED = 3


def make_plan(
    declared: Declared,
    stored: Stored,
    addresses: KnownAddresses,
    *,
    prune: bool,
    urls: UrlRules = NO_RULES,
    scope: Scope | None = None,
) -> Plan:
    """`scope`: that of the credential whose file it is, in which `stored` reads."""
    planner = _Planner(declared, stored, addresses, urls, scope)
    with suppress(TooManyMistakes):
        planner.plan_all()
        if prune:
            planner.plan_removals()
        if scope is not None:
            planner.check_scope(scope)
    return planner.plan


def key_questions(declared: Declared, stored: Stored, bound_types: frozenset[str]) -> Questions:
    """What drivers have to be asked before the plan can be made, found by a trial plan."""
    addresses = KnownAddresses(bound_types)
    if addresses.asked_types:
        make_plan(declared, stored, addresses, prune=False)
    return addresses.questions


class _Planner:
    def __init__(
        self, declared: Declared, stored: Stored, addresses: KnownAddresses, urls: UrlRules, scope: Scope | None
    ) -> None:
        self.plan = Plan()
        self._declared = declared
        self._stored = stored
        self._addresses = addresses
        self._urls = urls
        self._scope = scope
        self._relayer_ids: set[str] = set()
        self._relayers: dict[str, tuple[str, Any]] = {}  # with a scope: by id, the place and the record as it will be
        self._signers: dict[str, NewSigner] = {}  # of the file, once they are complete
        self._answers: dict[str, KeyAnswer | None] = {}  # by signer

    def plan_all(self) -> None:
        """A file declares records in the order in which they can refer to each other."""
        self._check_mentions()
        for record in self._declared.records:
            if record.resource == "signers":
                self._plan_signer(record)
            elif record.resource == "relayers":
                self._plan_relayer(record)
            else:
                self._plan_record(record, record.name, record.values)

    def _check_mentions(self) -> None:
        for place, resource, record in self._declared.mentions:
            if record not in self._declared.places[resource] and not self._stored.exists(resource, record):
                self.plan.note_mistake(place, f"there is no such {resource[:-1]}, in this file or stored")

    def _plan_record(self, declared: DeclaredRecord, name: str, values: Values) -> None:
        resource = declared.resource
        found = self._stored.find(resource, name)
        values = self._claimed(declared.place, values, found and found.record)
        complete = self._complete(values, found)
        if complete is None:
            return
        after = self._with_nodes(declared, RECORD_TYPES[resource](**complete), found)
        self._check_webhook(declared, after, found)
        if self._scope is not None and resource == "relayers":
            self._relayers[name] = declared.place, after
        changes = tuple(differences(found.record, after, damaged=found.damaged)) if found else ()
        if found is not None:
            self._note_state(declared, found)
        if changes or found is None:
            title = values["name"] if resource == "relayers" else ""
            self.plan.steps.append(Step("change" if found else "create", resource, name, after, changes, title))
        if found is None and values.get("paused"):
            fields = (FieldChange("paused", "", "true"),)
            after = replace(after, paused=False)  # that it is paused is a change of its own, which others are told
            self.plan.steps[-1] = self.plan.steps[-1]._replace(record=after, fields=fields, is_paused=True)
        self._pin(resource, name, values, found if changes or not found else UNCHANGED)

    def _note_state(self, declared: DeclaredRecord, found: StoredRecord) -> None:
        """Commands and buttons pause and resume a stored relayer, not a file."""
        given = declared.values.get("paused")
        if given is not None and given != getattr(found.record, "paused", None):
            word = "active" if given else "paused"
            self.plan.notes.append(f"{declared.place}.paused counts only for a new relayer: this one stays {word}")

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
        relayer_id = known or new_identifier()
        if not known:
            self.plan.generated_ids.add(relayer_id)
        self._relayer_ids.add(relayer_id)
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
        answer = self._address_of(declared.values["signer_id"])
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
        if found is None or not self._needs_driver(declared.values["signer_id"]):
            return ""
        stored: Any = found.record
        unchanged = stored.signer_id == declared.values["signer_id"] and given in ("", stored.address)
        return str(stored.address) if unchanged else ""

    # Signers. Key material is never changed in place

    def _plan_signer(self, declared: DeclaredRecord) -> None:
        before = self._stored.signer(declared.name)
        declared = declared._replace(values=self._claimed(declared.place, declared.values, before))
        self.plan.pinned.append(Pinned("signers", declared.name, declared.values, before))
        if before is None:
            self._plan_new_signer(declared)
        elif isinstance(before, NewSigner):
            self._compare_signer(declared, before)
        else:
            self.plan.note_mistake(declared.place, f"{before}; see 'relaydeck doctor'")

    def _plan_new_signer(self, declared: DeclaredRecord) -> None:
        kind, values = declared.values["type"], declared.values["config"]
        missing = list(missing_in(tuple(values.values())))
        self.plan.mistakes += missing
        if missing:
            return
        config = SHAPES[kind](**values)
        signer = self._signers[declared.name] = NewSigner(
            declared.name, kind, config, declared.values.get("labels", msgspec.UNSET)
        )
        self.plan.notes += [f"{declared.place}.{hint}" for hint in hints(config)]
        fields = tuple(FieldChange(name, "", value) for name, value in open_fields(signer).items())
        self.plan.steps.append(Step("create", "signers", declared.name, signer, fields))

    def _compare_signer(self, declared: DeclaredRecord, before: NewSigner) -> None:
        self._signers[declared.name] = before
        if declared.values["type"] != before.type:
            problem = f"the stored signer is of type {before.type}; {_NEVER_IN_PLACE}"
            self.plan.note_mistake(f"{declared.place}.type", problem)
            return
        for name in before.config.__struct_fields__:
            wanted = declared.values["config"].get(name, msgspec.UNSET)
            if isinstance(wanted, Missing):
                self.plan.notes.append(f"{wanted}; the stored value is kept")
            elif _plain(wanted) != _plain(getattr(before.config, name)):
                place, problem = f"{declared.place}.config.{name}", f"differs from the stored one; {_NEVER_IN_PLACE}"
                self.plan.note_mistake(place, problem)
        labels = declared.values.get("labels", msgspec.UNSET)
        if labels != before.labels:
            changed = FieldChange("labels", *(shown_labels(each) for each in (before.labels, labels)))
            after = msgspec.structs.replace(before, labels=labels)
            self.plan.steps.append(Step("change", "signers", declared.name, after, (changed,)))

    def _needs_driver(self, signer_id: str) -> bool:
        """Whether only the key system of a stored signer knows its address."""
        signer = self._stored.signer(signer_id)
        return isinstance(signer, NewSigner) and signer.type in self._addresses.asked_types

    def _address_of(self, signer_id: str) -> KeyAnswer | None:
        """None when the signer has a mistake, which is noted already."""
        if signer_id not in self._answers:
            self._answers[signer_id] = self._find_address(signer_id)
        return self._answers[signer_id]

    def _find_address(self, signer_id: str) -> KeyAnswer | None:
        if signer_id in self._signers:
            return self._addresses.find(self._signers[signer_id])
        signer = None if signer_id in self._declared.places["signers"] else self._stored.signer(signer_id)
        if signer is None:
            return None
        return self._addresses.find(signer) if isinstance(signer, NewSigner) else KeyAnswer()

    # Pruning removes records that an apply created, the file no longer declares and nothing refers to

    def plan_removals(self) -> None:
        named = self._relayer_ids | set(self._declared.places["relayers"])
        applied = self._stored.applied_relayers
        relayers = [each for each in applied if each not in named]
        for each in relayers:
            self._remove(Step("remove", "relayers", each, title=applied[each]))
        # What a declared relayer refers to is in the file; what it refers to now does not matter.
        settled = named | set(relayers)
        mentioned = {(each.resource, each.record): each.place for each in reversed(self._declared.mentions)}
        for resource in _REFERRED_TO:
            for record, labels in self._stored.applied(resource).items():
                if record not in self._declared.places[resource] and self._owns(resource, record, labels):
                    user = mentioned.get((resource, record)) or self._remaining_user(resource, record, settled)
                    self._plan_removal(resource, record, user)

    def _plan_removal(self, resource: Resource, record: str, user: str) -> None:
        if user:
            problem = f"the {resource[:-1]} {record!r} cannot be removed: {user} refers to it"
            self.plan.note_mistake("--prune", problem)
            return
        signer = self._stored.signer(record) if resource == "signers" else None
        shown = open_fields(signer) if isinstance(signer, NewSigner) else {}
        fields = tuple(FieldChange(name, value, "") for name, value in shown.items())
        self._remove(Step("remove", resource, record, fields=fields))

    def _remove(self, step: Step) -> None:
        """The audit log shows whether the record changes after this."""
        self.plan.pinned.append(Pinned(step.resource, step.name, None, step.title))
        self.plan.steps.append(step)

    def _remaining_user(self, resource: Resource, record: str, settled: set[str]) -> str:
        users = self._stored.referring(resource, record)
        remaining = next((f"the relayer {each!r}" for each in users if each not in settled), "")
        if remaining or self._scope is None:
            return remaining
        return "another relayer" if self._stored.count_referring(resource, record) > len(users) else ""

    # The scope of a credential. Whether a record is inside is decided as of the end of the plan

    def _claimed(self, place: str, values: Values, before: Any) -> Values:
        """With the labels of the scope: a new record gets them, and one that carries them keeps them."""
        scoped = {} if self._scope is None else self._scope.labels
        stored = scoped if before is None else getattr(before, "labels", msgspec.UNSET) or {}
        kept = {name: value for name, value in scoped.items() if stored.get(name) == value}
        if not kept:
            return values
        labels = kept | values.get("labels", {})
        if len(labels) > MOST_LABELS:
            self.plan.note_mistake(f"{place}.labels", TOO_MANY_LABELS)
        return values | {"labels": labels}

    def _owns(self, resource: Resource, record: str, labels: dict[str, str]) -> bool:
        """Whether pruning may remove a record, which may only be used by what is inside."""
        return self._scope is None or self._scope.may_change(resource[:-1], record, labels)

    def check_scope(self, scope: Scope) -> None:
        for name, (place, each) in self._relayers.items():
            if not scope.has_relayer(name, each.network, each.labels):
                self.plan.note_mistake(place, OUTSIDE)
        used = {(kind, getattr(each, REFERRING[kind])) for kind in _REFERRED_TO for _, each in self._relayers.values()}
        removed = {step.name for step in self.plan.steps if step.action == "remove" and step.resource == "relayers"}
        for step in self.plan.steps:
            kind, name = step.resource, step.name
            if kind == "relayers" or step.action == "remove":
                continue
            place, after = self._declared.places[kind][name], step.subject
            others = {*self._stored.referring(kind, name)} - removed - {*self._relayers}
            listed = kind == "networks" and name in scope.networks
            if not (listed or others or (kind, name) in used or scope.carried_by(after.labels)):
                self.plan.note_mistake(place, OUTSIDE)
            elif step.action == "change" and not scope.may_change(kind[:-1], name, self._stored.labels(kind, name)):
                self.plan.note_mistake(place, SHARED_RECORD)


def _plain(value: Any) -> Any:
    """JSON objects are compared by meaning, not by spelling."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _address_problem(given: str, answer: KeyAnswer) -> str:
    if answer.address and given not in ("", answer.address):
        return f"{given} is not the address of this signer, which is {answer.address}"
    if given or answer.address:
        return ""
    return f"is missing, and {answer.problem or 'cannot be derived from this signer'}"


def _kept(name: str, value: Any, found: StoredRecord | None) -> Any:
    """The stored value of a field, if it can only be the one that a reference in `value` used to lead to.

    Of nodes that differ from the stored ones, each header is kept for the same URL: no other node may learn it.
    """
    if found is None or name in found.damaged:
        return None
    stored = getattr(found.record, name)
    if may_be(value, stored):
        return stored
    nodes = {each.url: each for each in stored} if name in NODE_FIELDS.values() else {}
    kept = [with_stored_headers(each, nodes) for each in value] if nodes else [None]
    return None if None in kept else tuple(kept)


def with_stored_headers(node: Any, stored: dict[str, RpcUrl]) -> RpcUrl | None:
    """A node with the stored values of the headers for which it has none. None: it lacks another one."""
    if isinstance(node, RpcUrl):
        return node
    before = stored.get(node.values["url"]) if isinstance(node, Partial) and "url" in node.values else None
    if before is None:
        return None
    known = {} if before.headers is msgspec.UNSET else {each.name.lower(): each for each in before.headers}
    headers = [
        known.get(each.values.get("name", "").lower()) if isinstance(each, Partial) else each
        for each in node.values["headers"]
    ]
    return None if None in headers else RpcUrl(**node.values | {"headers": tuple(headers)})
