"""What the audit log may say of a record: its fields, with hidden parts reduced to what may be shown."""

from typing import Any, NamedTuple

import msgspec

Facts = dict[str, Any]


class Hidden(NamedTuple):
    """A value that is compared but not told; `shown` stands for it."""

    value: Any
    shown: Any


def to_json(facts: Facts) -> str:
    """The facts as JSON text."""
    return msgspec.json.encode({name: _shown(value) for name, value in facts.items()}).decode()


def difference(before: Facts, after: Facts) -> tuple[Facts, Facts]:
    """The facts that differ, before and after. A hidden change that shows alike is told as `changed`."""
    old: Facts = {}
    new: Facts = {}
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if was != now:
            old[name], new[name] = _shown(was), _shown(now)
            if old[name] == new[name]:
                new[name] = "changed"
    return old, new


def secret_fact(sealed: object) -> Hidden:
    """A secret: whether there is one, and by its sealed form whether it is another."""
    return Hidden(sealed, None if sealed is None else "set")


def _shown(value: Any) -> Any:
    return value.shown if isinstance(value, Hidden) else value
