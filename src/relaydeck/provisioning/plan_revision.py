"""Identifies a plan, so that what was reviewed is what is applied.

A revision is the position of the audit log when the plan was made, and a digest of what the plan shows. Applying with a
revision plans again and compares in the transaction of the changes. The plan is not applied if its digest is another
one, or if one of its records has changed since, perhaps in a part that a plan does not show. Changes of other records
do not matter. Nothing of a secret is in the digest, which appears in the logs of pipelines.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from relaydeck.errors import PlanChanged
from relaydeck.fields import fields_of
from relaydeck.provisioning.declared_records import RESOURCES
from relaydeck.provisioning.differences import shown
from relaydeck.provisioning.plan import Change, Create, Plan, Step
from relaydeck.secret import Secret
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc

_MOST_LISTED = 50
_REVISION = re.compile(r"([0-9]{1,18})-([0-9a-f]{16})")
RECORD_CHANGES = ("created", "updated", "deleted")  # not those of a state, which a file does not declare
_ACTIONS = ", ".join(f"'{resource[:-1]}.{change}'" for resource in RESOURCES for change in RECORD_CHANGES)


class RecordChange(NamedTuple):
    """A change of a record, from the audit log."""

    at: str
    actor: str
    action: str
    record: str


def plan_revision(plan: Plan, read: ReadRows) -> str:
    newest = read("SELECT seq FROM audit ORDER BY seq DESC LIMIT 1", {})
    content = msgspec.json.encode([_described(step, plan.generated_ids) for step in plan.steps])
    return f"{newest[0].seq if newest else 0}-{hashlib.sha256(content).hexdigest()[:16]}"


def _differs(plan: Plan, expected: str, changes: list[RecordChange]) -> bool:
    """Whether this is not the plan with the expected revision; `changes` are those since."""
    (newest, _, digest), (reviewed, _, reviewed_digest) = plan.revision.partition("-"), expected.partition("-")
    if digest != reviewed_digest or int(newest) < int(reviewed):  # a log that is shorter now is another one
        return True
    planned = {(step.resource[:-1], step.name) for step in plan.steps}
    return any((each.action.partition(".")[0], each.record) in planned for each in changes)


def require_same(plan: Plan, expected: str, read: ReadRows) -> None:
    """Raises PlanChanged when this is not the plan with the expected revision. Empty: any plan will do."""
    if not expected:
        return
    changes = _changes_since(expected, read)
    if _differs(plan, expected, changes):
        raise PlanChanged([each._asdict() for each in changes[:_MOST_LISTED]])


def is_revision(text: str) -> bool:
    return _REVISION.fullmatch(text) is not None


def _changes_since(revision: str, read: ReadRows) -> list[RecordChange]:
    """The changes of records after a plan was made, oldest first."""
    sql = f"SELECT moment, actor, action, record FROM audit WHERE seq > :seq AND action IN ({_ACTIONS}) ORDER BY seq"
    rows = read(sql, {"seq": int(revision.partition("-")[0])})
    return [RecordChange(str(utc(row.moment)), row.actor, row.action, row.record) for row in rows]


def _described(step: Step, generated: set[str]) -> list[Any]:
    fields = list(step.fields) if isinstance(step, Change) else list(_fields(step)) if isinstance(step, Create) else []
    name = "" if step.name in generated else step.name
    return [type(step).__name__, step.resource, name, [each for each in fields if each[1] not in generated]]


def _fields(step: Create) -> Iterator[tuple[str, str]]:
    if step.resource == "signers":
        return  # key material
    for field in fields_of(type(step.record)):
        if field.type is not Secret:
            yield field.name, shown(field, getattr(step.record, field.name))
