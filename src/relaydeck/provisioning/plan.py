"""The difference between declared and stored records: steps in their order, with the fields that differ.

A plan shows nothing of a secret.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import Resource, settable_fields
from relaydeck.provisioning.mistakes import Mistake, Mistakes
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import NewSigner, secret_fields
from relaydeck.web_addresses import shown_address


class FieldChange(NamedTuple):
    """A field with its values before and after, as far as they may be shown; both are empty if they may not.

    One of them is empty if the record is created or removed.
    """

    name: str
    before: str = ""
    after: str = ""


class Step(NamedTuple):
    action: Literal["create", "change", "remove"]
    resource: Resource
    name: str
    record: msgspec.Struct | None = None  # None: it is removed
    fields: tuple[FieldChange, ...] = ()  # that change; of a new or removed signer, those that are not secret
    title: str = ""  # the name of a relayer, which `name` identifies by its id
    is_paused: bool = False  # a relayer that is paused when it is created

    @property
    def subject(self) -> Any:
        """What functions that take the step are called with: the record, or the name of one to remove."""
        return self.name if self.record is None else self.record


class Pinned(NamedTuple):
    """A record that the file declares or the plan removes: what a revision pins."""

    resource: Resource
    name: str
    declared: Any  # secrets included; None: it is removed
    stored: Any  # what is replaced; None: nothing


UNCHANGED = "unchanged"  # stored as declared: nothing is replaced


@dataclass
class Plan:
    """`revision` identifies the plan: see `plan_revision`."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=Mistakes)
    generated_ids: set[str] = field(default_factory=set)  # of new relayers that the file gives no id
    pinned: list[Pinned] = field(default_factory=list)
    revision: str = ""

    def note_mistake(self, place: str, problem: str) -> None:
        self.mistakes.append(Mistake(place, problem))


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, damaged: Collection[str] = (), prefix: str = ""
) -> Iterator[FieldChange]:
    """`damaged`: the fields whose stored value does not open, so that it differs from every other."""
    for each in settable_fields(type(after)):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if _stays(each, old, new) and (each.name not in damaged or new is UNSET):
            continue
        name = prefix + each.name
        if each.name in damaged or each.type is Secret:
            yield FieldChange(name)
        else:
            yield from _changes(each, name, old, new)


def _stays(field: Field, old: Any, new: Any) -> bool:
    if field.type is Secret:
        # A key that is not declared stays as it is; an empty one means that there is no key.
        return new in (UNSET, old) or (old is UNSET and new == Secret(""))
    return bool(old == new)


def _changes(field: Field, name: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if field.traits.keyed_by:
        yield from _keyed_changes(field, name, old, new)
    elif isinstance(old, msgspec.Struct) and type(old) is type(new):
        yield from differences(old, new, prefix=f"{name}.")
    else:
        # Values that are shown alike differ in a part that may hold a secret.
        before, after = shown(field, old), shown(field, new)
        yield FieldChange(name) if before == after else FieldChange(name, before, after)


def _keyed_changes(field: Field, name: str, before: Any, after: Any) -> Iterator[FieldChange]:
    old, new = ({getattr(each, field.traits.keyed_by): each for each in records} for records in (before, after))
    if old == new:
        yield FieldChange(name, f"[{', '.join(old)}]", f"[{', '.join(new)}]")
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key, UNSET), new.get(key, UNSET)
        if was != now:
            yield FieldChange(f"{name}.{key}", _as_json(was), _as_json(now))


def _as_json(record: Any) -> str:
    return "unset" if record is UNSET else msgspec.json.encode(record).decode()


def shown(field: Field, value: Any) -> str:
    """A value as a plan may show it."""
    if value is UNSET:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return shown_labels(value)
    if isinstance(value, tuple):
        return f"[{', '.join(shown(field.item, each) for each in value)}]"
    if isinstance(value, msgspec.Struct):
        return _shown_record(value)
    return field.form.show(value) if field.form else str(value)


def shown_labels(labels: dict[str, str] | msgspec.UnsetType) -> str:
    return "unset" if labels is UNSET else ", ".join(f"{key}={value}" for key, value in labels.items())


def open_fields(signer: NewSigner) -> dict[str, str]:
    """The type and the fields that are not secret."""
    names = [each for each in signer.config.__struct_fields__ if each not in secret_fields(type(signer.config))]
    values = {name: getattr(signer.config, name) for name in names}
    labels = {} if signer.labels is UNSET else {"labels": shown_labels(signer.labels)}
    config = {f"config.{name}": _text(each) for name, each in values.items() if each is not UNSET}
    return {"type": signer.type} | labels | config


def _text(value: str) -> str:
    """An address with a user part or a query may contain a password."""
    return shown_address(value) if "://" in value and any(mark in value for mark in "@?#") else value


def _shown_record(record: msgspec.Struct) -> str:
    given = [each for each in fields_of(type(record)) if getattr(record, each.name) is not UNSET]
    first, *rest = [
        (each.name, shown(each, getattr(record, each.name))) for each in given if not each.traits.write_only
    ]
    return " ".join([first[1], *(f"{name} {value}" for name, value in rest)])
