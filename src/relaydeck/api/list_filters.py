"""The query parameters of operations, and the filters of each list, declared once.

The admin API, its OpenAPI document and the options of `relaydeck … list` are derived from these declarations. This
module imports nothing heavy, because `relaydeck --help` needs it.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from relaydeck.roles import Role
from relaydeck.scope import MOST_LABELS, label_pair, label_problem
from relaydeck.timestamps import parse_utc

_GREATEST = 10**18 - 1  # a whole number in a query fits a column of 64 bits
# In an index, which has the beginning: an entry of PostgreSQL's must be short. The second part is true of all.
_START = "substr(labels, 1, 400)"
_HAS_LABEL = (
    f"labels IS NOT NULL AND {_START} >= ''"
    f" AND (instr({_START}, {{0}}) > 0 OR length({_START}) = 400 AND instr(labels, {{0}}) > 0)"
)


class Parameter(NamedTuple):
    """A query parameter. That of a filter has an SQL condition, which refers to its value as `:name`, and to `:now`."""

    name: str
    description: str
    condition: str = ""
    choices: Mapping[str, str] = MappingProxyType({})  # the allowed values, each with its condition
    others: Mapping[str, str] = MappingProxyType({})  # of a choice that most records meet: which ones do not
    folded: bool = False  # whether upper and lower case of ASCII letters are the same
    is_integer: bool = False
    is_labels: bool = False  # `team=payments,env=prod`
    is_moment: bool = False  # `2026-03-01T12:00:00Z` or `2026-03-01`; the value is in seconds
    example: str = ""
    schema: Mapping[str, str | int] = MappingProxyType({})  # more keywords of its JSON schema

    def condition_for(self, value: str) -> str:
        if self.is_labels:
            return " AND ".join(_HAS_LABEL.format(f":label{number}") for number, _ in enumerate(value.split(",")))
        return self.choices[value] if self.choices else self.condition

    def requirement(self, value: str) -> str:
        """What a value must be; empty when it is that."""
        if self.choices and value not in self.choices:
            return " or ".join(self.choices) if len(self.choices) == 2 else f"one of {', '.join(self.choices)}"
        if self.is_labels:
            pairs = [each.partition("=") for each in value.split(",")]
            is_valid = len(pairs) <= MOST_LABELS and not any(
                label_problem(text) for pair in pairs for text in pair[::2]
            )
            return "" if is_valid else "labels such as team=payments,env=prod"
        if self.is_moment:
            return "" if _moment(self.name, value) is not None else "a moment such as 2026-03-01T12:00:00Z, or a day"
        if not self.is_integer:
            return ""
        least, most = int(self.schema.get("minimum", 0)), int(self.schema.get("maximum", _GREATEST))
        if value.isascii() and value.isdigit() and len(value) <= len(str(_GREATEST)) and least <= int(value) <= most:
            return ""
        return f"a whole number from {least} to {most}" if most < _GREATEST else f"a whole number of at least {least}"


def _moment(name: str, text: str) -> int | None:
    """In seconds. The day of `to` is included."""
    is_day = len(text) == 10
    found = parse_utc(f"{text}T00:00:00Z" if is_day else text)
    return None if found is None else found + 86_400 * (is_day and name == "to")


def _contains(name: str) -> Parameter:
    description = f"Only those with this text in their {name}, in upper or lower case."
    return Parameter(name, description, f"instr(lower({name}), :{name}) > 0", folded=True)


def _equals(name: str, description: str) -> Parameter:
    return Parameter(name, description, f"{name} = :{name}")


def _by(name: str, description: str) -> Parameter:
    """An actor: a person, whatever token they used; a token, whoever made it."""
    first = f"substr({name}, 1, length(:{name}) + 11) = :{name} || ' via token:'"
    last = f"substr({name}, length({name}) - length(:{name}) - 4) = ' via ' || :{name}"
    # Most have no maker: for these one comparison is enough.
    return Parameter(name, description, f"{name} = :{name} OR instr({name}, ' via ') > 0 AND ({first} OR {last})")


_LABEL = Parameter("label", "Only those with each of these labels.", is_labels=True, example="team=payments,env=prod")
_AFTER = Parameter("after", "Only those after this sequence number.", "seq > :after", is_integer=True)
_EXPIRED = "expires_at IS NOT NULL AND expires_at <= :now"

# The index of the checks that failed has those that alarm, because each of them failed. The first part is true of every
# outcome: SQLite then uses the index.
ALARMED = "outcome > '' AND outcome <> 'ok' AND alarm <> ''"
# By problem: a column of relayers, and rows of another table, by their column, about those with the problem.
_ROWS = {
    "failing": ("id", "troubles", "relayer_id", "failed_rounds > 0"),
    "signer_unreachable": ("signer_id", "signer_checks", "signer_id", f"{ALARMED} AND alarm = 'unreachable'"),
    "signer_mismatch": ("signer_id", "signer_checks", "signer_id", f"{ALARMED} AND alarm = 'mismatch'"),
    "low_balance": ("id", "troubles", "relayer_id", "low_since IS NOT NULL"),
    "low_runway": ("seq", "runways", "relayer_seq", "low_since IS NOT NULL"),
}
_NAMES_IT = """instr(result, '"' || replace(replace(relayers.id, '\\', '\\\\'), '"', '\\"') || '"') > 0"""


def _among(column: str, table: str, key: str, condition: str) -> str:
    """To find them: few relayers have a problem, and an index finds their rows."""
    return f"{column} IN (SELECT {key} FROM {table} WHERE {condition})"


def _has(column: str, table: str, key: str, condition: str) -> str:
    """Of a relayer that was found: without reading the rows of the others."""
    return f"EXISTS (SELECT 1 FROM {table} WHERE {table}.{key} = relayers.{column} AND {condition})"


# The problems of a relayer, the worst first, each with the condition on its row.
_HAS = {"disabled": "system_disabled"} | {name: _has(*rows) for name, rows in _ROWS.items()}
_column, _table, _key, _mismatch = _ROWS["signer_mismatch"]
_HAS["signer_mismatch"] = _has(_column, _table, _key, f"{_mismatch} AND {_NAMES_IT}")
PROBLEMS = {"disabled": "system_disabled"} | {name: _among(*rows) for name, rows in _ROWS.items()}
PROBLEMS["failing"] += " AND NOT system_disabled"
PROBLEMS["signer_mismatch"] += f" AND {_HAS['signer_mismatch']}"
_ANY_PROBLEM = (  # a set that costs an entry of an index for each
    "seq IN (SELECT seq FROM relayers WHERE system_disabled UNION SELECT seq FROM relayers WHERE id IN"
    " (SELECT relayer_id FROM troubles WHERE failed_rounds > 0 OR low_since IS NOT NULL)"
    f" UNION SELECT seq FROM relayers WHERE {PROBLEMS['signer_unreachable']}"
    f" UNION SELECT seq FROM relayers WHERE {PROBLEMS['signer_mismatch']}"
    " UNION SELECT relayer_seq FROM runways WHERE low_since IS NOT NULL)"
)
# Of each there is an index.
_IS_STOPPED = "seq IN (SELECT seq FROM relayers WHERE paused UNION SELECT seq FROM relayers WHERE system_disabled)"
WORST_PROBLEM = f"CASE {' '.join(f'WHEN {has} THEN {rank}' for rank, has in enumerate(_HAS.values()))} END"

# A network fails while none of its nodes answers the monitor for a relayer that uses them.
_USES_IT = "r.network = networks.name AND r.sealed_rpc_urls IS NULL AND NOT r.paused"
NETWORK_FAILS = (
    f"EXISTS (SELECT 1 FROM relayers r WHERE {_USES_IT} AND r.system_disabled) OR EXISTS (SELECT 1 FROM troubles t"
    f" CROSS JOIN relayers r WHERE t.failed_rounds > 0 AND r.id = t.relayer_id AND {_USES_IT})"
)
# A receiver fails while nothing has arrived since an attempt failed, of a delivery that waits or of the last dead one.
_MINE, _NEXT = "SELECT seq FROM deliveries WHERE notification_id = notifications.id", "coalesce(claimed_until, due_at)"
_FAILED = (
    f"SELECT seq FROM ({_MINE} AND due_at IS NOT NULL AND due_at > 0 AND {_NEXT} > 0 ORDER BY {_NEXT}, seq LIMIT 1000)"
    f" AS waiting UNION ALL SELECT seq FROM ({_MINE} AND state = 'dead' AND finished_at IS NOT NULL"
    " ORDER BY finished_at DESC LIMIT 1) AS dead"
)
_RECEIVER_FAILS = (
    f"coalesce((SELECT max(started_at) FROM attempts WHERE delivery IN ({_FAILED})), 0)"
    " > coalesce((SELECT max(finished_at) FROM deliveries WHERE notification_id = notifications.id"
    " AND state = 'delivered' AND finished_at IS NOT NULL), 0)"
)


def _fails(what: str, condition: str) -> Parameter:
    choices = {"any": condition, "none": f"NOT ({condition})"}
    return Parameter("problem", f"`any`: only those that fail, {what}; `none`: only the others.", choices=choices)


MOST_SORTED = 20_000


class Part(NamedTuple):
    """A part of a list in some order."""

    by: str = "seq"  # an SQL expression
    condition: str = "1 = 1"  # of the rows in this part
    rows: str = "relayers"  # the table, with those that its order needs


class Ordering(NamedTuple):
    """An order of a list. `by`: an SQL expression for few records; more are read part by part, with indexes."""

    by: str
    parts: tuple[Part, ...] = ()  # empty: only few records can be in this order
    few: int = MOST_SORTED


_LATEST = "FROM balances b WHERE b.relayer_seq = relayers.seq ORDER BY since DESC LIMIT 1"
_HAS_FORECAST = "EXISTS (SELECT 1 FROM runways w WHERE w.relayer_seq = relayers.seq AND w.minimum_at IS NOT NULL)"
_FORECAST = "SELECT minimum_at FROM runways w WHERE w.relayer_seq = relayers.seq"
_NOT_WORSE = [[f"NOT ({has})" for has in [*_HAS.values()][:rank]] for rank, _ in enumerate(_HAS)]
# In which order a list can be, besides that of creation.
ORDERINGS = {
    "relayers": {
        "name": Ordering("lower(name)", (Part("lower(name), seq"),)),
        "problem": Ordering(
            f"coalesce({WORST_PROBLEM}, {len(_HAS)})",
            (
                *(
                    Part(
                        condition=" AND ".join(["relayers.seq = found", *worse]),
                        rows=f"(SELECT seq AS found FROM relayers WHERE {each}) AS troubled CROSS JOIN relayers",
                    )
                    for each, worse in zip(PROBLEMS.values(), _NOT_WORSE, strict=True)
                ),
                Part(condition=f"NOT ({_ANY_PROBLEM})"),
            ),
            few=5_000,
        ),
        "runway": Ordering(
            f"coalesce(({_FORECAST}), {_GREATEST})",
            (
                Part(
                    "minimum_at, seq",
                    "relayers.seq = runways.relayer_seq AND minimum_at IS NOT NULL",
                    "runways CROSS JOIN relayers",  # SQLite then reads the index of forecasts, in its order
                ),
                Part(condition=f"NOT {_HAS_FORECAST}"),
            ),
        ),
        # Amounts are digits: of two that are as long, the lesser text is the lesser amount.
        "balance": Ordering(f"coalesce((SELECT length(balance) {_LATEST}), {_GREATEST}), (SELECT balance {_LATEST})"),
    }
}
_ORDERS = {
    "name": "by name",
    "problem": "the worst problem first",
    "runway": "what runs out first",
    "balance": f"the lowest balance first, of at most {MOST_SORTED:,} relayers",
}


def order_of(path: str) -> Parameter:
    more = ORDERINGS.get(path, {})
    words = "; ".join(["`newest`: newest first", *(f"`{name}`: {_ORDERS[name]}" for name in more)])
    return Parameter("order", f"{words}.", choices=dict.fromkeys(["oldest", "newest", *more], ""))


FILTERS: dict[str, tuple[Parameter, ...]] = {
    "networks": (
        _contains("name"),
        _fails("because no node of them answers the monitor for a relayer that uses them", NETWORK_FAILS),
        _LABEL,
    ),
    "signers": (
        _contains("id"),
        Parameter("type", "Only those of this type.", "type = CASE :type WHEN 'local' THEN 'plain' ELSE :type END"),
        Parameter(
            "check",
            "Only those with this latest check.",
            choices={
                "ok": "id IN (SELECT signer_id FROM signer_checks WHERE outcome = 'ok')",
                "failing": "id IN (SELECT signer_id FROM signer_checks WHERE outcome <> 'ok')",
                "none": "id NOT IN (SELECT signer_id FROM signer_checks)",
            },
        ),
        _LABEL,
    ),
    "notifications": (
        _contains("id"),
        _fails("because nothing has arrived since an attempt failed", _RECEIVER_FAILS),
        _LABEL,
    ),
    "relayers": (
        # The first part is true of every name: SQLite then reads the names in their index.
        _contains("name")._replace(condition="lower(name) >= '' AND instr(lower(name), :name) > 0"),
        _equals("network", "Only those on this network."),
        Parameter(
            "state",
            "Only those in this state.",
            choices={"active": f"NOT ({_IS_STOPPED})", "paused": "paused", "disabled": "system_disabled"},
            others={"active": _IS_STOPPED},
        ),
        Parameter(
            "problem",
            "Only those with this problem; `any`: with at least one; `none`: without one.",
            choices={**PROBLEMS, "any": _ANY_PROBLEM, "none": f"NOT ({_ANY_PROBLEM})"},
            others={"none": _ANY_PROBLEM},
        ),
        _equals("signer_id", "Only those that use this signer."),
        _equals("notification_id", "Only those with events for this notification."),
        _LABEL,
    ),
    "tokens": (
        _contains("name"),
        Parameter(
            "kind",
            "Only those of this kind.",
            choices={
                each.value: f"kind = '{each.value}' OR substr(kind, 1, {len(each.value) + 1}) = '{each.value} '"
                for each in Role
            },
        ),
        Parameter(
            "state",
            "Only those in this state.",
            choices={
                "live": f"revoked_at IS NULL AND NOT ({_EXPIRED})",
                "expired": f"revoked_at IS NULL AND {_EXPIRED}",
                "revoked": "revoked_at IS NOT NULL",
            },
        ),
    ),
    "events": (
        _AFTER,
        Parameter("before", "Only those before this sequence number.", "e.seq < :before", is_integer=True),
        Parameter("relayer_id", "Only those about this relayer.", "e.relayer_id = :relayer_id"),
    ),
    "deliveries": (
        _AFTER,
        Parameter("before", "Only those before this sequence number.", "d.seq < :before", is_integer=True),
        Parameter(
            "state",
            "Only those in this state.",
            choices={state: f"d.state = '{state}'" for state in ("pending", "delivered", "dead")},
        ),
        Parameter("notification_id", "Only those to this notification.", "d.notification_id = :notification_id"),
        Parameter("relayer_id", "Only those about this relayer.", "d.relayer_id = :relayer_id"),
    ),
    "protections": (_contains("name"),),
    "proposals": (
        Parameter(
            "state",
            "Only those in this state.",
            choices={
                "open": "state = 'open' AND expires_at > :now",
                **{each: f"state = '{each}'" for each in ("applied", "forced", "rejected", "withdrawn")},
                "expired": "state = 'open' AND expires_at <= :now",
            },
        ),
        _by("author", "Only those of this author: a person also finds what their tokens proposed."),
    ),
    "audit": (
        _by("actor", "Only changes by this actor: a person also finds what their tokens did."),
        Parameter(
            "action",
            "Only this action, or all about this kind of record: `relayer`.",
            "action = :action OR substr(action, 1, length(:action) + 1) = :action || '.'",
            example="relayer.paused",
        ),
        _equals("record", "Only changes of this record."),
        Parameter(
            "by",
            "Only changes by people and their tokens, without sign-ins; or only those by the service itself.",
            choices={
                "people": "actor <> 'monitor' AND substr(action, 1, 8) <> 'session.'",
                "service": "actor = 'monitor'",
            },
        ),
        Parameter("from", "Only changes from this moment or day (UTC) on.", "moment >= :from", is_moment=True),
        Parameter(
            "to", "Only changes before this moment, or until the end of this day (UTC).", "moment < :to", is_moment=True
        ),
        _AFTER,
    ),
}


def conditions(filters: tuple[Parameter, ...], query: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The SQL condition of the filters that a query uses, and its values."""
    used = [each for each in filters if query.get(each.name)]
    values = {name: value for each in used for name, value in _filter_values(each, query[each.name])}
    return " AND ".join(["1 = 1", *(f"({each.condition_for(query[each.name])})" for each in used)]), values


def without_others(filters: tuple[Parameter, ...], query: Mapping[str, str]) -> tuple[str, str] | None:
    """Two conditions: as many records meet `conditions` as meet the first one without those that meet the second, too.

    None: no index finds the records that a filter leaves out.
    """
    used = next((each for each in filters if query.get(each.name, "") in each.others), None)
    if used is None:
        return None
    where, _ = conditions(filters, {name: value for name, value in query.items() if name != used.name})
    return where, f"{where} AND ({used.others[query[used.name]]})"


def _filter_values(used: Parameter, text: str) -> Iterator[tuple[str, str | int]]:
    if used.is_labels:
        pairs = (each.partition("=") for each in text.split(","))
        yield from ((f"label{number}", label_pair(key, value)) for number, (key, _, value) in enumerate(pairs))
    elif used.is_moment:
        yield used.name, _moment(used.name, text) or 0
    elif used.is_integer:
        yield used.name, int(text)
    else:
        # Both databases fold the letters of ASCII alone.
        yield used.name, text.encode().lower().decode() if used.folded else text
