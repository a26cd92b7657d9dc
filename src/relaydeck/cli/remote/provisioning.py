"""Apply files, on a server. References are resolved here: the server sees their values, never their files."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from relaydeck.cli.backend import ApplyFile, Json, OutdatedPlan
from relaydeck.cli.output import waiting_bar
from relaydeck.cli.remote.connection import UNCHANGED, Connection, Refused
from relaydeck.client.models import ApplyReport, ExportedFile
from relaydeck.provisioning.mistakes import Mistake, MistakenFile
from relaydeck.provisioning.references import Missing, Reference, Resolver, as_reference, reference_problem
from relaydeck.provisioning.toml_document import parse_toml

_MANY_RECORDS = 1000  # from which on a progress bar is useful


class RemoteProvisioning:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def plan(self, file: ApplyFile, *, prune: bool) -> Json:
        return self._send(file, "", {"prune": prune, "plan_only": True})

    def apply(self, file: ApplyFile, *, prune: bool, revision: str) -> Json:
        return self._send(file, UNCHANGED, {"prune": prune, "plan_only": False}, revision)

    def export(self) -> Iterator[str]:
        yield self._connection.get(ExportedFile, "export").data["toml"]

    def _send(self, file: ApplyFile, remedy: str, options: Json, revision: str = "") -> Json:
        document = parse_toml(file.content)
        if isinstance(document, Mistake):
            raise MistakenFile(file.name, [document], remedy)
        references = [_resolved(each, Resolver(os.environ, file.folder)) for each in set(_references(document))]
        body = {"document": document, "references": references, **options}
        try:
            with waiting_bar("the server applies the file", at_least=_MANY_RECORDS, count=_count(document)):
                found: Json = self._connection.request(
                    ApplyReport, "POST", "apply", document=body, if_match=f'"{revision}"' if revision else None
                ).data
        except Refused as refusal:
            raise _words(refusal, file.name, remedy) from None
        return found


def _words(refusal: Refused, file_name: str, remedy: str) -> Exception:
    """What the command on the home would say."""
    problem = refusal.error.problem
    try:
        if "mistakes" in problem:
            mistakes = msgspec.convert(problem["mistakes"], list[dict[str, str]])
            return MistakenFile(file_name, [Mistake(**each) for each in mistakes], remedy)
        lists = problem["changes"], problem.get("records", [])
        return OutdatedPlan(*msgspec.convert(lists, tuple[list[dict[str, str]], list[dict[str, str]]]))
    except (TypeError, KeyError, msgspec.ValidationError):  # without such members, or with others of these names
        return refusal


def _references(value: Any) -> Iterator[Reference]:
    """Those that may be resolved: the server reports a wrong one as a mistake with its place."""
    if reference := as_reference(value):
        if not reference_problem(reference):
            yield reference
    else:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for each in parts:
            yield from _references(each)


def _resolved(reference: Reference, resolver: Resolver) -> Json:
    found = resolver.resolve(reference, "")
    outcome = {"missing": found.why} if isinstance(found, Missing) else {"value": found.reveal()}
    return {"kind": reference.kind, "name": reference.name, **outcome}


def _count(document: Json) -> int:
    return sum(len(each) for each in document.values() if isinstance(each, dict | list))
