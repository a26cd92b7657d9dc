"""Which declared fields of two records differ, and what a plan may show of them: nothing of a secret."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from relaydeck.fields import Field, fields_of
from relaydeck.provisioning.declared_records import settable_fields
from relaydeck.provisioning.plan import FieldChange
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import NewSigner, secret_fields
from relaydeck.web_addresses import shown_address


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, damaged: Collection[str] = (), prefix: str = ""
) -> Iterator[FieldChange]:
    """`damaged`: the fields whose stored value does not open, so that it differs from every other."""
    for field in settable_fields(type(after)):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if _stays(field, old, new) and (field.name not in damaged or new is UNSET):
            continue
        name = prefix + field.name
        if field.name in damaged or field.type is Secret:
            yield FieldChange(name)
        else:
            yield from _changes(field, name, old, new)


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
    if isinstance(value, tuple):
        return f"[{', '.join(shown(field.item, each) for each in value)}]"
    if isinstance(value, msgspec.Struct):
        return _shown_record(value)
    return field.form.show(value) if field.form else str(value)


def signer_fields(before: NewSigner | None, after: NewSigner | None) -> Iterator[FieldChange]:
    """The type and the fields that are not secret, of a signer that is created or removed."""
    old, new = _open_fields(before), _open_fields(after)
    return (FieldChange(name, old.get(name, ""), new.get(name, "")) for name in old | new)


def _open_fields(signer: NewSigner | None) -> dict[str, str]:
    if signer is None:
        return {}
    names = [each for each in signer.config.__struct_fields__ if each not in secret_fields(type(signer.config))]
    values = {name: getattr(signer.config, name) for name in names}
    return {"type": signer.type} | {f"config.{name}": _text(each) for name, each in values.items() if each is not UNSET}


def _text(value: str) -> str:
    """An address with a user part or a query may contain a password."""
    return shown_address(value) if "://" in value and any(mark in value for mark in "@?#") else value


def _shown_record(record: msgspec.Struct) -> str:
    given = [each for each in fields_of(type(record)) if getattr(record, each.name) is not UNSET]
    first, *rest = [
        (each.name, shown(each, getattr(record, each.name))) for each in given if not each.traits.write_only
    ]
    return " ".join([first[1], *(f"{name} {value}" for name, value in rest)])
