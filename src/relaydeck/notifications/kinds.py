"""The kinds of events, each declared once.

Recording an event, the OpenAPI document of the admin API and the table in `docs/events.md` follow this declaration.
"""

from enum import StrEnum

_RUNWAY_DETAILS = (
    "balance",
    "min_balance",
    "spent_per_hour",
    "seconds_until_minimum",
    "seconds_until_zero",
    "warn_hours",
)


class EventKind(StrEnum):
    """`NAME = type, when it happens, names of its details…`"""

    RELAYER_PAUSED = "relayer.paused", "an operator paused the relayer"
    RELAYER_RESUMED = "relayer.resumed", "an operator resumed the relayer"
    RELAYER_DISABLED = (
        "relayer.disabled",
        "the monitor disabled the relayer because none of its nodes returned the nonce of its address",
    )
    RELAYER_ENABLED = "relayer.enabled", "the monitor enabled the relayer again"
    RELAYER_LOW_BALANCE = (
        "relayer.low_balance",
        "the balance of the relayer fell below `min_balance`; sent once, and again only after the balance has"
        " recovered",
        "balance",
        "min_balance",
    )
    RELAYER_RUNWAY_LOW = (
        "relayer.runway_low",
        "the balance is expected to reach `min_balance` within `runway_warn_hours`; sent once, and again only after"
        " `relayer.runway_recovered`",
        *_RUNWAY_DETAILS,
    )
    RELAYER_RUNWAY_RECOVERED = (
        "relayer.runway_recovered",
        "the balance is expected to last for at least 1.5 times `runway_warn_hours`, or nothing is spent",
        *_RUNWAY_DETAILS,
    )
    SIGNER_UNREACHABLE = (
        "signer.unreachable",
        "a check of the relayer's signer got no valid signature from its key, for the reason in `outcome`;"
        " sent when this begins, not at each check",
        "signer_id",
        "outcome",
        "explanation",
    )
    SIGNER_MISMATCH = (
        "signer.mismatch",
        "the key of the relayer's signer has a different address from the relayer; sent when this begins, not"
        " at each check",
        "signer_id",
        "outcome",
        "explanation",
    )
    SIGNER_RECOVERED = (
        "signer.recovered",
        "the problem that `signer.unreachable` or `signer.mismatch` reported is over",
        "signer_id",
        "outcome",
        "explanation",
    )
    DATABASE_CHANGED = (
        "database.changed",
        "the database failed over or was rolled back: a standby was promoted, or a backup restored; recent changes and"
        " events may be lost; sent to every notification, or to the 1,000 oldest if there are more",
        "problem",
    )
    NOTIFICATION_TEST = "notification.test", "an operator sent a test event"

    _value_: str
    description: str
    details: tuple[str, ...]  # the members of `data.details`, amounts in Wei as text

    def __new__(cls, name: str, description: str = "", *details: str) -> "EventKind":
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.description = description
        kind.details = details
        return kind
