"""The statements of a scoped credential, which see what is inside its scope and nothing else.

A SELECT gets a common table expression of the same name for each table that it names, so that no query of a handler has
to think of scopes. A statement that begins with EVERYTHING is left as it is, and so is one that changes something: it
acts on rows that a SELECT found. `scope.py` says what is inside.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from relaydeck.scope import Scope, label_pair

EVERYTHING = "/* inside or outside of a scope */ "
# Entries of the audit log about a signer that name relayers which use it.
_NAMING_RELAYERS = "('signer.mismatch', 'signer.recovered')"
_WITH = "WITH "


class ScopedStatements:
    """`schema`: what precedes the name of a table, where its own name would mean the expression (SQLite)."""

    def __init__(self, scope: Scope, schema: str = "") -> None:
        self.scope = scope
        self._schema = schema
        self.values: dict[str, Any] = dict(self._named_values())

    def _named_values(self) -> Iterator[tuple[str, str]]:
        for kind, names in (("relayer", self.scope.relayers), ("network", self.scope.networks)):
            yield from ((f"scope_{kind}{number}", each) for number, each in enumerate(names))
        yield from (
            (f"scope_label{number}", label_pair(*each)) for number, each in enumerate(self.scope.labels.items())
        )

    def _listed(self, kind: str) -> str:
        return ", ".join(f":{name}" for name in self.values if name.startswith(f"scope_{kind}"))

    def _carried(self, table: str) -> str:
        pairs = (name for name in self.values if name.startswith("scope_label"))
        return " AND ".join(f"instr({table}.labels, :{name}) > 0" for name in pairs) or "1 = 0"

    def _relayer(self, alias: str) -> str:
        """Whether a relayer is inside."""
        scope = self.scope
        criteria = [f"{alias}.id IN ({self._listed('relayer')})"] if scope.relayers else []
        criteria += [f"{alias}.network IN ({self._listed('network')})"] if scope.networks else []
        criteria += [self._carried(alias)] if scope.labels else []
        return " AND ".join(criteria) or "1 = 0"

    def _any_relayer(self, condition: str) -> str:
        """Whether some relayer `inside` meets a condition."""
        return f"EXISTS (SELECT 1 FROM {self._schema}relayers inside WHERE {condition} AND {self._relayer('inside')})"

    def _belongs(self, table: str, referring: str, identity: str = "id") -> str:
        return f"({self._carried(table)}) OR {self._any_relayer(f'inside.{referring} = {table}.{identity}')}"

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
            f" AND EXISTS ({named} AND ({self._belongs('notification', 'notification_id')}))"
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
        listed = f"own.name IN ({self._listed('network')}) OR " if self.scope.networks else ""
        return {
            "relayers": self._relayer("own"),
            "signers": self._belongs("own", "signer_id"),
            "notifications": self._belongs("own", "notification_id"),
            "networks": listed + self._belongs("own", "network", "name"),
            "events": about,
            "deliveries": self._event(kind, moment),
            "attempts": f"EXISTS ({delivered.replace('attempt.', 'own_attempt.')})",
            "troubles": self._any_relayer("inside.id = own.relayer_id"),
            "runways": numbered,
            "balances": numbered,
            "signer_checks": f"EXISTS (SELECT 1 FROM {self._schema}signers signer WHERE signer.id = own.signer_id"
            f" AND ({self._belongs('signer', 'signer_id')}))",
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
        for table, referring, identity in (
            ("signer", "signer_id", "id"),
            ("notification", "notification_id", "id"),
            ("network", "network", "name"),
        ):
            named = f"SELECT 1 FROM {self._schema}{table}s {table} WHERE {table}.{identity} = own.record"
            present = self._is_present(f"{table}s", identity, "own.record", "own.moment")
            listed = (
                f"{table}.name IN ({self._listed('network')}) OR " if table == "network" and self.scope.networks else ""
            )
            inside = f"EXISTS ({named} AND ({listed}{self._belongs(table, referring, identity)}))"
            branches.append(f"WHEN own.action LIKE '{table}.%' THEN {inside} AND {present}")
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
