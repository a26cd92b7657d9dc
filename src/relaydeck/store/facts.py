"""Facts: the fields of a record for the audit log, with secrets replaced by what may be shown."""

import hashlib
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.fields import fields_of

Facts = dict[str, Any]
LONGEST_FACT = 1024  # bytes
_encode = msgspec.json.Encoder().encode


class Hidden(NamedTuple):
    """A value that is compared but not recorded; `shown` is recorded in its place."""

    value: Any
    shown: Any


def record_facts(record: msgspec.Struct, identity: str, *, settable_only: bool = False) -> Facts:
    """The facts of a record, from its declared fields. Those of a nested record are named `policies.min_balance`."""
    facts: Facts = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if field.name == identity or value is UNSET or (settable_only and field.traits.read_only):
            continue
        if field.traits.sealed_as:
            facts[field.name] = Hidden(value, msgspec.to_builtins([each.redacted for each in value]))
        elif isinstance(value, msgspec.Struct) and not field.may_be_unset:
            facts |= {f"{field.name}.{name}": each for name, each in record_facts(value, "").items()}
        else:
            facts[field.name] = msgspec.to_builtins(value)
    return facts


def to_json(facts: Facts) -> str:
    """The facts as JSON text."""
    return _encode({name: _shown(value) for name, value in facts.items()}).decode()


def difference(before: Facts, after: Facts) -> tuple[str, str]:
    """The facts that differ, before and after, as JSON. A hidden value that looks the same after is `changed`."""
    old: Facts = {}
    new: Facts = {}
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if was != now:
            old[name], new[name] = _shown(was), _shown(now)
            if old[name] == new[name]:
                new[name] = "changed"
    return _encode(old).decode(), _encode(new).decode()


def secret_fact(sealed: object) -> Hidden:
    """A secret: records only whether it is set. Its sealed form is compared, to notice that it changed."""
    return Hidden(sealed, None if sealed is None else "set")


def _shown(value: Any) -> Any:
    return _brief(value.shown if isinstance(value, Hidden) else value)


def _brief(value: Any) -> Any:
    """A value as it is recorded: a long one as its digest, because entries are kept for ever."""
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass") if len(value) > LONGEST_FACT else b""
    else:
        text = _encode(value) if isinstance(value, list | dict) else b""
    if len(text) <= LONGEST_FACT:
        return value
    return f"sha256:{hashlib.sha256(text).hexdigest()} of {len(text)} bytes"
