"""`relaydeck apply` and `relaydeck export`."""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from relaydeck.cli.backend import ApplyFile, Json
from relaydeck.cli.confirmation import confirm, require_terminal
from relaydeck.cli.output import print_json, print_notes, print_outcome, print_styled
from relaydeck.cli.target import backend
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted, first_few

_MOST_NAMED = 20  # in a question
_REVISION = re.compile(r"[0-9]{1,18}-([0-9a-f]{16}|[0-9a-f]{96})")
CHANGES = 2  # the exit code of a plan that contains changes, with --detailed-exitcode
_STYLES = {"create": ("+", "green"), "change": ("~", "yellow"), "remove": ("-", "red")}
_DONE = {"create": "created", "change": "changed", "remove": "removed"}


def apply_file(file: str, *, prune: bool, revision: str, yes: bool, as_json: bool) -> None:
    if revision and not _REVISION.fullmatch(revision):
        raise OperatorError("--revision must be the revision that --plan printed", "Nothing was changed.")
    content = _read(file)
    if prune and not yes:
        revision = _confirmed_revision(content, revision)
    report = backend().provisioning.apply(content, prune=prune, revision=revision)
    print_notes(report["notes"])
    print_outcome(report, as_json, *_summary(report))


def _confirmed_revision(file: ApplyFile, revision: str) -> str:
    """Ask about the records that --prune deletes. The revision of the plan that was shown: nothing else is deleted."""
    require_terminal(f"delete the records that are not in {file.name}")
    plan = backend().provisioning.plan(file, prune=True)
    removed = [_named(step) for step in plan["steps"] if step["action"] == "remove"]
    if not removed:
        return revision
    confirm(f"delete {first_few(removed, _MOST_NAMED)}", yes=False)
    return revision or str(plan["revision"])


def plan_file(file: str, *, prune: bool, detailed_exitcode: bool, as_json: bool) -> None:
    report = backend().provisioning.plan(_read(file), prune=prune)
    print_notes(report["notes"])
    if not as_json:
        _print_steps(report)
    revision = [f"revision: {report['revision']}"] if report["steps"] and report["revision"] else []
    print_outcome(report, as_json, *_summary(report), *revision)
    if report["steps"] and detailed_exitcode:
        sys.exit(CHANGES)


def export_state(as_json: bool) -> None:
    pieces = backend().provisioning.export()
    if as_json:
        print_json(tomllib.loads("".join(pieces)))
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode())  # TOML is UTF-8 whatever the locale


def _read(file: str) -> ApplyFile:
    if file == "-":
        if sys.stdin is None:
            raise OperatorError("standard input is closed")
        return ApplyFile("standard input", sys.stdin.buffer.read(), Path())
    try:
        return ApplyFile(file, Path(file).read_bytes(), Path(file).parent)
    except OSError as error:
        raise OperatorError(f"the file {file} cannot be read: {error.strerror}") from None


def _print_steps(report: Json) -> None:
    for step in report["steps"]:
        mark, colour = _STYLES[step["action"]]
        print_styled((f"{mark} {_named(step)}", colour))
        for change in step["fields"]:
            print_styled((f"    {change['name']}: {_described(change)}", colour))


def _named(step: Json) -> str:
    title = f" ({step['title']})" if step.get("title", step["name"]) != step["name"] else ""
    return f"{step['kind']} {step['name']}{title}"


def _described(change: Json) -> str:
    """Nothing of a secret is shown."""
    return " -> ".join(filter(None, (change["before"], change["after"]))) or "(changed)"


def _summary(report: Json) -> Iterator[str]:
    if not report["steps"]:
        yield "nothing to change: the stored records match the file"
    for action, past in _DONE.items():
        count = Counter(step["kind"] for step in report["steps"] if step["action"] == action)
        if count:
            records = ", ".join(counted(number, kind) for kind, number in count.items())
            yield f"{past if report['applied'] else f'to {action}'}: {records}"
