"""The statements of a scoped credential, which see what is inside its scope and nothing else.

A SELECT gets a common table expression of the same name for each table that it names, so that no query of a handler has
to think of scopes. A statement that begins with EVERYTHING is left as it is, and so is one that changes something: it
acts on rows that a SELECT found. `scope.py` says what is inside.

While records are closed, a session of the role `readonly` sees what no closed protection covers (OpenRecords). It
changes nothing. A network stays visible as long as a relayer that is open works on it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from relaydeck.scope import OpenRecords, Scope, Visible, label_pair

EVERYTHING = "/* inside or outside of a scope */ "
# Entries of the audit log about a signer that name relayers which use it.
_NAMING_RELAYERS = "('signer.mismatch', 'signer.recovered')"
_WITH = "WITH "


class _Criteria:
    """Which rows are inside one scope. `number`: of the scope, so that the names of its values are its own."""

    def __init__(self, scope: Scope, schema: str, number: str = "") -> None:
        self.scope, self._schema, self._prefix = scope, schema, f"scope{number}_"
        self.values: dict[str, Any] = dict(self._named_values())

    def _named_values(self) -> Iterator[tuple[str, str]]:
        for kind, names in (("relayer", self.scope.relayers), ("network", self.scope.networks)):
            yield from ((f"{self._prefix}{kind}{number}", each) for number, each in enumerate(names))
        yield from (
            (f"{self._prefix}label{number}", label_pair(*each)) for number, each in enumerate(self.scope.labels.items())
        )

    def _named(self, kind: str) -> list[str]:
        return [f":{name}" for name in self.values if name.startswith(f"{self._prefix}{kind}")]

    def _carried(self, alias: str) -> str:
        return " AND ".join(f"instr({alias}.labels, {name}) > 0" for name in self._named("label")) or "1 = 0"

    def relayer(self, alias: str) -> str:
        scope = self.scope
        criteria = [f"{alias}.id IN ({', '.join(self._named('relayer'))})"] if scope.relayers else []
        criteria += [f"{alias}.network IN ({', '.join(self._named('network'))})"] if scope.networks else []
        criteria += [self._carried(alias)] if scope.labels else []
        return " AND ".join(criteria) or "1 = 0"

    def record(self, table: str, alias: str) -> str:
        if table == "relayers":
            return self.relayer(alias)
        referring, identity = _REFERRING[table]
        using = f"inside.{referring} = {alias}.{identity} AND {self.relayer('inside')}"
        used = f"EXISTS (SELECT 1 FROM {self._schema}relayers inside WHERE {using})"
        is_listing = table == "networks" and self.scope.networks
        listed = f"{alias}.name IN ({', '.join(self._named('network'))}) OR " if is_listing else ""
        return f"{listed}({self._carried(alias)}) OR {used}"


# The column of a relayer that names a record of that table, and the column with the name of the record.
_REFERRING = {
    "signers": ("signer_id", "id"),
    "notifications": ("notification_id", "id"),
    "networks": ("network", "name"),
}


class ScopedStatements:
    """`schema`: what precedes the name of a table, where its own name would mean the expression (SQLite)."""

    def __init__(self, visible: Visible, schema: str = "") -> None:
        self._schema = schema
        scope, closed = (visible.scope, visible.closed) if isinstance(visible, OpenRecords) else (visible, ())
        self._scope, self._inside = scope, None if scope is None else _Criteria(scope, schema)
        self._closed = [
            (each, None if each.scope is None else _Criteria(each.scope, schema, str(number)))
            for number, each in enumerate(closed)
        ]
        self.values: dict[str, Any] = {}
        for criteria in (self._inside, *(each for _, each in self._closed)):
            self.values |= {} if criteria is None else criteria.values

    @property
    def scope(self) -> Scope:
        """Of a credential that changes something: none of these sees open records only."""
        assert self._scope is not None
        return self._scope

    def _record(self, table: str, alias: str) -> str:
        """Whether a record is inside."""
        inside = "1 = 1" if self._inside is None else f"({self._inside.record(table, alias)})"
        covering = [each for records, each in self._closed if records.has_kind(table[:-1])]
        covered = ["1 = 1" if each is None else f"coalesce({each.record(table, alias)}, false)" for each in covering]
        if not covered:
            return inside
        is_open = f"NOT ({' OR '.join(covered)})"
        if table == "networks":
            is_open = f"({is_open} OR {self._any_relayer(f'inside.network = {alias}.name')})"
        return f"{inside} AND {is_open}"

    def _relayer(self, alias: str) -> str:
        return self._record("relayers", alias)

    def _any_relayer(self, condition: str) -> str:
        """Whether some relayer `inside` meets a condition."""
        return f"EXISTS (SELECT 1 FROM {self._schema}relayers inside WHERE {condition} AND {self._relayer('inside')})"

    def _event(self, kind: str, moment: str) -> str:
        """Whether an event or its delivery is inside. Changes that need approval are nothing to a scoped credential.

        Nor is what happened before the record was created: an earlier one with its identifier may have been outside.
        """
        named = f"SELECT 1 FROM {self._schema}notifications notification WHERE notification.id = own.notification_id"
        relayer = self._any_relayer("inside.id = own.relayer_id")
        return (
            f"CASE WHEN own.relayer_id IS NOT NULL"
            f" THEN {relayer} AND {self._is_present('relayers', 'id', 'own.relayer_id', moment)}"
            f" ELSE {kind} NOT LIKE 'change.%'"
            f" AND EXISTS ({named} AND ({self._record('notifications', 'notification')}))"
            f" AND {self._is_present('notifications', 'id', 'own.notification_id', moment)} END"
        )

    def _is_present(self, table: str, identity: str, record: str, moment: str) -> str:
        """Whether the record existed at that moment, for one that is inside.

        Not a part of the condition of an EXISTS, of which PostgreSQL could not make a hash table any more.
        """
        created = f"SELECT present.created_at FROM {self._schema}{table} present WHERE present.{identity} = {record}"
        return f"{moment} >= ({created})"

    def _is_shared(self, signer: str) -> str:
        """Whether a relayer that is outside uses the signer."""
        outside = f"NOT coalesce({self._relayer('other')}, false)"
        return f"EXISTS (SELECT 1 FROM {self._schema}relayers other WHERE other.signer_id = {signer} AND {outside})"

    @property
    def _checks(self) -> str:
        """The columns of a check of a signer: with the relayers inside as they are now, and without alarms of others.

        Also where no others use the signer: a difference would tell whether any do.
        """
        escaped = """replace(replace(inside.id, '\\', '\\\\'), '"', '\\"')"""
        named = f"""inside.signer_id = own.signer_id AND instr(own.result, '"' || {escaped} || '"') > 0"""
        is_hidden = f"own.outcome = 'mismatch' AND NOT {self._any_relayer(named)}"
        joined = "group_concat" if self._schema else "string_agg"
        users = (
            f"(SELECT {joined}(inside.address || ' ' || inside.id, '\n') FROM {self._schema}relayers inside"
            f" WHERE inside.signer_id = own.signer_id AND {self._relayer('inside')})"
        )
        return (
            f"own.signer_id, own.checked_at, CASE WHEN {is_hidden} THEN 'ok' ELSE own.outcome END AS outcome,"
            f" CASE WHEN {is_hidden} THEN '' ELSE own.alarm END AS alarm,"
            f" own.result || '\n' || coalesce({users}, '') AS result"
        )

    @cached_property
    def conditions(self) -> Mapping[str, str]:
        """By table: what a row `own` has to meet."""
        about = self._event("own.kind", "own.created_at")
        delivered = f"SELECT 1 FROM {self._schema}events own WHERE own.seq = attempt.delivery AND {about}"
        kind, moment = (
            f"(SELECT event.{each} FROM {self._schema}events event WHERE event.seq = own.seq)"
            for each in ("kind", "created_at")
        )
        numbered = self._any_relayer("inside.seq = own.relayer_seq")
        return {
            "relayers": self._relayer("own"),
            **{table: self._record(table, "own") for table in _REFERRING},
            "events": about,
            "deliveries": self._event(kind, moment),
            "attempts": f"EXISTS ({delivered.replace('attempt.', 'own_attempt.')})",
            "troubles": self._any_relayer("inside.id = own.relayer_id"),
            "runways": numbered,
            "balances": numbered,
            "signer_checks": f"EXISTS (SELECT 1 FROM {self._schema}signers signer WHERE signer.id = own.signer_id"
            f" AND ({self._record('signers', 'signer')}))",
            "audit": self._audit,
            "tokens": "1 = 0",
        }

    @property
    def _audit(self) -> str:
        """An entry follows the record that it is about, as that is now: of one that is gone, nothing is inside.

        Nor if another record has its identifier now. A deletion is about an earlier one even within the same second.
        """
        present = self._is_present("relayers", "id", "own.record", "own.moment")
        relayer = f"{self._any_relayer('inside.id = own.record')} AND {present}"
        branches = [
            "WHEN own.action LIKE '%.deleted' THEN 1 = 0",
            f"WHEN own.action LIKE 'relayer.%' THEN {relayer}",
            f"WHEN own.action IN {_NAMING_RELAYERS} AND {self._is_shared('own.record')} THEN 1 = 0",
        ]
        for table, (_, identity) in _REFERRING.items():
            kind = table[:-1]
            named = f"SELECT 1 FROM {self._schema}{table} {kind} WHERE {kind}.{identity} = own.record"
            present = self._is_present(table, identity, "own.record", "own.moment")
            inside = f"EXISTS ({named} AND ({self._record(table, kind)}))"
            branches.append(f"WHEN own.action LIKE '{kind}.%' THEN {inside} AND {present}")
        return f"CASE {' '.join(branches)} ELSE 1 = 0 END"

    def scoped(self, sql: str) -> str:
        if not sql.startswith(("SELECT", _WITH)):
            return sql
        names = [each for each in self.conditions if re.search(rf"\b{each}\b", sql)]
        if not names:
            return sql
        expressions = ", ".join(
            f"{each} AS NOT MATERIALIZED (SELECT {self._checks if each == 'signer_checks' else '*'}"
            f" FROM {self._schema}{each} own"
            f"{'_attempt' if each == 'attempts' else ''} WHERE {self.conditions[each]})"
            for each in names
        )
        return f"{_WITH}{expressions}{', ' + sql.removeprefix(_WITH) if sql.startswith(_WITH) else ' ' + sql}"
