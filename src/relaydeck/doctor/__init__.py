"""The checks of `relaydeck doctor`: what is wrong with a home, its database, nodes and signers, and what to do."""

from typing import Annotated, Literal

import msgspec

from relaydeck.fields import own_field as field
from relaydeck.quantities import Whole

CLOCK_SLACK_SECONDS = 120
Result = Literal["ok", "warn", "FAIL"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    result: Annotated[Result, field("How it ended.", example="ok")]
    subject: Annotated[str, field("What was checked.", example="schema")]
    remark: Annotated[str, field("What was found, and what to do about it.", example="version 13")]


class AuditVerification(msgspec.Struct, frozen=True):
    """Either `entries` and `head`, or `problem`, with `broken_at` if it is about an entry."""

    entries: Annotated[Whole | None, field("How many entries were verified; null: there is a problem.", example=7)]
    head: Annotated[str | None, field("The head of the log.", example="7:" + "c0ffee00" * 8)]
    broken_at: Annotated[Whole | None, field("The first broken entry; null: every link holds.", example=None)]
    problem: Annotated[
        str | None, field("What is wrong with it, or with tokens that Relaydeck did not write.", example=None)
    ]
    archived: Annotated[Whole, field("How many entries before those were moved to files.", example=0)]
    archived_until: Annotated[str | None, field("When the last of them was made; null: there are none.", example=None)]
