"""Identifies a plan, so that what was reviewed is what is applied.

A revision is the position of the audit log when the plan was made, and a fingerprint: a keyed digest of everything that
decides what the plan does, and two sums for each kind of record. Digest and sums cover the records as the file declares
them and as they are stored, secrets included, and the key is derived from the master key: the revision appears in the
logs of pipelines, where a digest without a key would let a weak secret be guessed.

Applying with a revision plans again and compares in the transaction of the changes. The plan is not applied if its
digest is another one, or if one of its records has changed since. Changes of other records do not matter.

The sums name the record that differs. For each record let c be the digest of its content and n that of its name. The
first sum adds c, the second c * n. If one record of a kind differs, both sums differ by a multiple of the same
number, and their quotient is n. The sums decide nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from hashlib import blake2b
from hmac import compare_digest
from operator import attrgetter
from typing import Any

import msgspec

from relaydeck.errors import PlanChanged
from relaydeck.provisioning.declared_records import IDENTITY, RESOURCES, Resource, settable_fields
from relaydeck.provisioning.plan import Pinned, Plan
from relaydeck.provisioning.stored import StoredRecord
from relaydeck.secret import Secret
from relaydeck.store.changes import Record
from relaydeck.store.database import ReadRows
from relaydeck.store.scoped import EVERYTHING
from relaydeck.timestamps import utc

MOST_LISTED = 50
_MOST_SEARCHED = 100_000  # stored names, for one that the file no longer contains
_REVISION = re.compile(r"[0-9]{1,18}-([0-9a-f]{16}|[0-9a-f]{96})")  # the short ones are those of earlier versions
_DIGEST_DIGITS, _SUM_DIGITS = 31, 8
_PRIME = 2**31 - 1
RECORD_CHANGES = ("created", "updated", "deleted")  # not those of a state, which a file does not declare
_ACTIONS = ", ".join(f"'{resource[:-1]}.{change}'" for resource in RESOURCES for change in RECORD_CHANGES)


def plan_revision(plan: Plan, read: ReadRows, key: bytes, *, prune: bool) -> str:
    newest = read(f"{EVERYTHING}SELECT seq FROM audit ORDER BY seq DESC LIMIT 1", {})
    return f"{newest[0].seq if newest else 0}-{_fingerprint(plan.pinned, key, prune)}"


def require_same(plan: Plan, expected: str, read: ReadRows, key: bytes) -> None:
    """Raises PlanChanged when this is not the plan with the expected revision. Empty: any plan will do."""
    if not expected:
        return
    changes = changes_since(expected, read)
    if not _is_same(plan.revision, _planned(plan), expected, changes) or _is_archived(expected, read):
        raise PlanChanged(changes[:MOST_LISTED], list(_differing(plan, expected.partition("-")[2], read, key)))


def is_revision(text: str) -> bool:
    return _REVISION.fullmatch(text) is not None


def is_same_plan(revision: str, planned: set[Record], expected: str, read: ReadRows) -> bool:
    """Whether a plan with this revision, which changes these records, is the one that was expected."""
    return _is_same(revision, planned, expected, changes_since(expected, read)) and not _is_archived(expected, read)


def _planned(plan: Plan) -> set[Record]:
    return {(step.resource[:-1], step.name) for step in plan.steps}


def _is_same(revision: str, planned: set[Record], expected: str, changes: list[dict[str, str]]) -> bool:
    """`changes` are those since the expected one."""
    (newest, _, found), (reviewed, _, fingerprint) = revision.partition("-"), expected.partition("-")
    is_shorter = int(newest) < int(reviewed)  # then it is another log
    if is_shorter or not compare_digest(found, fingerprint):
        return False
    return not any((each["action"].partition(".")[0], each["record"]) in planned for each in changes)


def _is_archived(revision: str, read: ReadRows) -> bool:
    """Whether the log lacks entries since: there may have been changes among them."""
    seq = int(revision.partition("-")[0])
    sql = f"{EVERYTHING}SELECT count(*) AS found, coalesce(max(seq), :seq) - :seq AS made FROM audit WHERE seq > :seq"
    since = read(sql, {"seq": seq})[0]
    return bool(since.found < since.made)


def changes_since(revision: str, read: ReadRows) -> list[dict[str, str]]:
    """The changes of records after a plan was made, oldest first."""
    sql = f"SELECT moment, actor, action, record FROM audit WHERE seq > :seq AND action IN ({_ACTIONS}) ORDER BY seq"
    rows = read(sql, {"seq": int(revision.partition("-")[0])})
    names = ("actor", "action", "record")
    return [{"at": str(utc(row.moment)), **{name: getattr(row, name) for name in names}} for row in rows]


def _fingerprint(records: Iterable[Pinned], key: bytes, prune: bool) -> str:
    """One digit for `prune`, the digest, and the sums of each kind."""
    whole = blake2b(b"prune" if prune else b"keep", key=key)
    sums = {resource: [0, 0] for resource in RESOURCES}
    for record in records:
        digest = blake2b(_content(record), key=key, digest_size=16).digest()
        whole.update(digest)
        content, both = int.from_bytes(digest[:8], "big") % _PRIME, sums[record.resource]
        both[0] += content
        both[1] += content * _number(record.resource, key, record.name)
    written = [f"{each % _PRIME:0{_SUM_DIGITS}x}" for both in sums.values() for each in both]
    return "".join([f"{prune:d}", whole.hexdigest()[:_DIGEST_DIGITS], *written])


def _content(record: Pinned) -> bytes:
    stored = _stored(record.stored) if isinstance(record.stored, StoredRecord) else record.stored
    return _encode((record.resource, record.name, record.declared, stored))


def _stored(found: StoredRecord) -> Any:
    """What a file can declare: a state that changes by itself is not pinned."""
    return _declarable(type(found.record))(found.record), sorted(found.damaged)


@cache
def _declarable(record: type[msgspec.Struct]) -> Callable[[msgspec.Struct], tuple[Any, ...]]:
    return attrgetter(*(each.name for each in settable_fields(record)))


def _revealed(value: Any) -> str:
    """Only for the keyed digest. Besides secrets there are values that are not set, and types of incomplete records."""
    return value.reveal() if isinstance(value, Secret) else repr(value)


_encode = msgspec.json.Encoder(enc_hook=_revealed).encode


def _number(resource: Resource, key: bytes, name: str) -> int:
    """The digest of a name."""
    digest = blake2b(name.encode(), key=key, digest_size=8, person=resource.encode()).digest()
    return int.from_bytes(digest, "big") % _PRIME


def _differing(plan: Plan, reviewed: str, read: ReadRows, key: bytes) -> Iterator[dict[str, str]]:
    """The records that differ from the reviewed ones; without a name, if several of a kind do or none has it."""
    found = plan.revision.partition("-")[2]
    if len(found) != len(reviewed):
        return
    if found[0] != reviewed[0]:
        yield {"kind": "option", "name": "prune"}
    for place, resource in enumerate(RESOURCES):
        (now, weighted_now), (then, weighted_then) = _sums(found, place), _sums(reviewed, place)
        if (content := (now - then) % _PRIME) or weighted_now != weighted_then:
            number = (weighted_now - weighted_then) * (pow(content, -1, _PRIME) if content else 0) % _PRIME
            yield {"kind": resource[:-1], "name": _name_with(number, resource, plan, read, key)}


def _sums(fingerprint: str, place: int) -> tuple[int, int]:
    start = 1 + _DIGEST_DIGITS + 2 * _SUM_DIGITS * place
    middle, end = start + _SUM_DIGITS, start + 2 * _SUM_DIGITS
    return int(fingerprint[start:middle], 16), int(fingerprint[middle:end], 16)


def _name_with(number: int, resource: Resource, plan: Plan, read: ReadRows, key: bytes) -> str:
    number_of = partial(_number, resource, key)
    for record in plan.pinned:
        if record.resource == resource and number_of(record.name) == number:
            return record.name
    sql = f"SELECT {IDENTITY[resource]} AS name FROM {resource} ORDER BY seq LIMIT {_MOST_SEARCHED}"
    return next((row.name for row in read(sql, {}) if number_of(row.name) == number), "")
