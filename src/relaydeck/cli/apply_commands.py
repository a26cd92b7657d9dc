"""`relaydeck apply` and `relaydeck export`."""

import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.api.records import ApplyReport
from relaydeck.cli.options import anywhere, as_json, asks_first, confirm, require_terminal
from relaydeck.cli.output import (
    Shape,
    about,
    print_json,
    print_note,
    print_notes,
    print_outcome,
    print_steps,
    step_name,
)
from relaydeck.cli.reply import UNCHANGED, Json, OutdatedPlan, Proposed, Refused
from relaydeck.cli.target import target
from relaydeck.errors import OperatorError
from relaydeck.provisioning.mistakes import Mistake, MistakenFile, parse_toml
from relaydeck.provisioning.references import LABELS, Reference, Resolver, as_reference, reference_problem
from relaydeck.quantities import counted, first_few, parse_span, span_problem
from relaydeck.secret import Secret

_MOST_NAMED = 20  # in a question
_REVISION = re.compile(r"[0-9]{1,18}-([0-9a-f]{16}|[0-9a-f]{96})")
CHANGES = 2  # the exit code of a plan that contains changes, with --detailed-exitcode
_DONE = {"create": "created", "change": "changed", "remove": "removed"}


class ApplyFile(Shape, frozen=True):
    """The tables of an apply file (docs/apply-file.md) as JSON. A key without records is absent."""

    networks: Annotated[dict[str, dict[str, Any]] | UnsetType, about("Networks by name.")] = UNSET
    signers: Annotated[list[dict[str, Any]] | UnsetType, about("Signers.")] = UNSET
    notifications: Annotated[list[dict[str, Any]] | UnsetType, about("Notifications.")] = UNSET
    relayers: Annotated[list[dict[str, Any]] | UnsetType, about("Relayers.")] = UNSET


class _Apply(click.Command):
    """With --detailed-exitcode, an exit code of 2 means changes: a wrong usage exits with 1 too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        self._detailed = "--detailed-exitcode" in args
        with self._errors_exit_1():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with self._errors_exit_1():
            return super().invoke(ctx)

    @contextmanager
    def _errors_exit_1(self) -> Iterator[None]:
        try:
            yield
        except click.UsageError as error:
            if not self._detailed:
                raise
            error.show()
            sys.exit(1)


def _read_span(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    if problem := span_problem(text):
        raise click.UsageError(f"--wait: {problem}")
    return parse_span(text)


@click.command(
    cls=_Apply,
    epilog="\b\nExamples:\n  relaydeck apply examples/demo.toml --plan\n  relaydeck export | relaydeck apply - --plan",
)
@click.argument("file")
@click.option("--plan", is_flag=True, help="Print what would change, and change nothing.")
@click.option(
    "--prune", is_flag=True, help="Also delete records that an earlier apply, of any file, created and FILE omits."
)
@click.option("--revision", default="", help="Apply only the plan that --plan printed with this revision.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="With --plan: exit 0 without changes, 2 with changes, 1 on errors."
)
@click.option("--reason", default="", help="Why you make the change, for those who approve it.")
@click.option(
    "--wait",
    callback=_read_span,
    metavar="SPAN",
    help="Wait this long for an approval, if one is needed: 45m, 4h. Exits with 3 if none has come, with 4 if the"
    " changes were rejected or withdrawn, or have expired.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors; notes are left out too.")
@asks_first("With --prune: do not ask before deleting. Required for --prune where there is no terminal.")
@as_json(ApplyReport)
@anywhere
def apply(
    file: str,
    plan: bool,
    prune: bool,
    revision: str,
    detailed_exitcode: bool,
    reason: str,
    wait: int,
    quiet: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create and change networks, signers, notifications and relayers as FILE describes them.

    FILE is TOML; - reads standard input. All changes are made, or none. Records that FILE does not mention stay as
    they are. A secret is a string, { env = "NAME" } or { file = "path" }, which the command resolves where it runs.
    """
    if plan and revision:
        raise click.UsageError("--revision applies a plan: leave --plan out")
    if detailed_exitcode and not plan:
        raise click.UsageError("--detailed-exitcode requires --plan")
    if quiet and (as_json or (plan and not detailed_exitcode)):
        raise click.UsageError("--quiet prints nothing: leave --json out, and use --plan with --detailed-exitcode")
    if revision and not _REVISION.fullmatch(revision):
        raise OperatorError("--revision must be the revision that --plan printed", "Nothing was changed.")
    name = "standard input" if file == "-" else file
    document = _document(file, name, "" if plan else UNCHANGED) | {"prune": prune}
    if prune and not yes and not plan:
        revision = _confirmed_revision(document, name, revision)
    try:
        if plan:
            report = _plan(document, name)
        else:
            with _refused_in_words(name, UNCHANGED):
                report = target().apply(document, revision=revision, reason=reason)
    except Proposed as proposed:
        if not wait:
            raise
        from relaydeck.cli.proposal_commands import awaited

        print_note(f"waiting for the approval of proposal {proposed.id}")
        report = awaited(proposed, wait)
    if not quiet:
        _print_report(report, as_json, plan=plan)
    if report["steps"] and detailed_exitcode:
        sys.exit(CHANGES)


def _print_report(report: Json, as_json: bool, *, plan: bool) -> None:
    print_notes(report["notes"])
    if plan and not as_json:
        print_steps(report["steps"])
    pinned = [f"revision: {report['revision']}"] if plan and report["steps"] and report["revision"] else []
    print_outcome(report, as_json, *_summary(report), *pinned)


def _plan(document: Json, name: str) -> Json:
    with _refused_in_words(name, ""):
        return target().plan(document)


def _confirmed_revision(document: Json, name: str, revision: str) -> str:
    """Ask about the records that --prune deletes. The revision of the plan that was shown: nothing else is deleted."""
    require_terminal(f"delete the records that are not in {name}")
    plan = _plan(document, name)
    removed = [step_name(step) for step in plan["steps"] if step["action"] == "remove"]
    if not removed:
        return revision
    confirm(f"delete {first_few(removed, _MOST_NAMED)}", yes=False)
    return revision or str(plan["revision"])


def _document(file: str, name: str, remedy: str) -> Json:
    """The body of an apply. References are resolved here: a server sees their values, never their files."""
    document = parse_toml(_read(file))
    if isinstance(document, Mistake):
        raise MistakenFile(name, [document], remedy)
    resolver = Resolver(os.environ, Path() if file == "-" else Path(file).parent)
    found = {reference for record in _records(document) for reference in _references(record)}
    return {"document": document, "references": [_resolved(each, resolver) for each in found]}


def _read(file: str) -> bytes:
    """The file may be a pipe: it is read once."""
    if file == "-":
        if sys.stdin is None:
            raise OperatorError("standard input is closed")
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise OperatorError(f"the file {file} cannot be read: {error.strerror}") from None


def _records(document: Json) -> Iterator[list[Any]]:
    """The values of each record. Its labels contain no references."""
    for records in document.values():
        for each in records.values() if isinstance(records, dict) else records if isinstance(records, list) else ():
            yield [value for name, value in each.items() if name != LABELS] if isinstance(each, dict) else []


def _references(value: dict[str, Any] | list[Any]) -> Iterator[Reference]:
    """Those that may be resolved: a wrong one is reported as a mistake with its place."""
    if reference := as_reference(value):
        if not reference_problem(reference):
            yield reference
    else:
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                yield from _references(each)


def _resolved(reference: Reference, resolver: Resolver) -> Json:
    found = resolver(reference)
    outcome = {"value": found.reveal()} if isinstance(found, Secret) else {"missing": found}
    return {"kind": reference.kind, "name": reference.name, **outcome}


@contextmanager
def _refused_in_words(name: str, remedy: str) -> Iterator[None]:
    """The mistakes in a document as those of the file, and a plan that is outdated with what has changed since."""
    try:
        yield
    except Refused as refusal:
        members = refusal.members
        try:
            if "mistakes" in members:
                mistakes = msgspec.convert(members["mistakes"], list[dict[str, str]])
                raise MistakenFile(name, [Mistake(**each) for each in mistakes], remedy) from None
            lists = members["changes"], members.get("records", [])
            changes, records = msgspec.convert(lists, tuple[list[dict[str, str]], list[dict[str, str]]])
        except (TypeError, KeyError, msgspec.ValidationError):  # without such members, or with others of these names
            raise refusal from None
        raise OutdatedPlan(changes, records) from None


def _summary(report: Json) -> Iterator[str]:
    if not report["steps"]:
        yield "nothing to change: the stored records match the file"
    for action, past in _DONE.items():
        count = Counter(step["kind"] for step in report["steps"] if step["action"] == action)
        if count:
            records = ", ".join(counted(number, kind) for kind, number in count.items())
            yield f"{past if report['applied'] else f'to {action}'}: {records}"


@click.command(epilog="Example:  relaydeck export > relaydeck.toml")
@as_json(ApplyFile)
@anywhere
def export(as_json: bool) -> None:
    """Print the stored records as an apply file. In place of each secret it contains a reference to fill in."""
    pieces = target().export()
    if as_json:
        print_json(tomllib.loads("".join(pieces)))
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode())  # TOML is UTF-8 whatever the locale
