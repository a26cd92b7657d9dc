"""`relaydeck apply` and `relaydeck export`."""

import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

from relaydeck.cli.json_shapes import AppliedField, AppliedFile, AppliedStep
from relaydeck.cli.local.signer_keys import ask_now
from relaydeck.cli.local.store import actor, existing_store, store_for_apply
from relaydeck.cli.output import counted, print_json, print_line, print_notes, print_styled, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.provisioning.apply import KeySource, Provisioner
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.plan import Change, Create, FieldChange, Plan, Remove, Step
from relaydeck.provisioning.references import Resolver
from relaydeck.settings import read_settings
from relaydeck.signers.key_access import KeyAccess

_MANY_STEPS = 1000  # from which on a progress bar is useful
_STYLES: dict[type[Step], tuple[str, str]] = {
    Create: ("+", "green"),
    Change: ("~", "yellow"),
    Remove: ("-", "red"),
}
_VERBS: dict[type[Step], tuple[Literal["create", "change", "remove"], str]] = {
    Create: ("create", "created"),
    Change: ("change", "changed"),
    Remove: ("remove", "removed"),
}


def apply_file(file: str, *, plan_only: bool, prune: bool, as_json: bool) -> None:
    name, content, folder = _read(file)
    declared = read_file(content, Resolver(os.environ, folder))
    with store_for_apply(may_create=not plan_only) as store:
        settings = read_settings()
        keys = KeySource(KeyAccess(settings).bound_types, partial(ask_now, settings))
        provisioner = Provisioner(store, declared, file_name=name, prune=prune, keys=keys)
        plan = provisioner.plan() if plan_only else _apply(provisioner)
    print_notes(plan.notes)
    if as_json:
        print_json(_applied(plan, done=not plan_only))
        return
    if plan_only:
        _print_steps(plan)
    for line in _summary(plan, done=not plan_only):
        print_line(line)


def _applied(plan: Plan, *, done: bool) -> AppliedFile:
    return AppliedFile(done, [_applied_step(step) for step in plan.steps], list(plan.notes))


def _applied_step(step: Step) -> AppliedStep:
    fields = step.fields if isinstance(step, Change) else ()
    changes = [AppliedField(each.name, each.before, each.after) for each in fields]
    return AppliedStep(_VERBS[type(step)][0], step.resource[:-1], step.name, changes)


def _apply(provisioner: Provisioner) -> Plan:
    return provisioner.apply(now=int(time.time()), actor=actor(), progress=_with_progress)


def export_state(as_json: bool) -> None:
    with existing_store() as store, closing(exported(store)) as pieces:
        if as_json:
            print_json(tomllib.loads("".join(pieces)))
            return
        for piece in pieces:
            sys.stdout.buffer.write(piece.encode())  # TOML is UTF-8 whatever the locale


def _read(file: str) -> tuple[str, bytes, Path]:
    """The name of the file in messages, its content, and the folder that relative paths in it start from."""
    if file == "-":
        return "standard input", sys.stdin.buffer.read(), Path()
    try:
        return file, Path(file).read_bytes(), Path(file).parent
    except OSError as error:
        raise OperatorError(f"the file {file} cannot be read: {error.strerror}") from None


def _with_progress(steps: list[Step]) -> Iterable[Step]:
    with progress_bar("applying", len(steps), at_least=_MANY_STEPS) as advance:
        for step in steps:
            yield step
            advance(1)


def _print_steps(plan: Plan) -> None:
    for step in plan.steps:
        mark, colour = _STYLES[type(step)]
        print_styled((f"{mark} {step.resource[:-1]} {step.name}", colour))
        for change in step.fields if isinstance(step, Change) else ():
            print_styled((f"    {_described(change)}", colour))


def _described(change: FieldChange) -> str:
    if change.before == change.after:
        return f"{change.name}: changed"
    return f"{change.name}: {change.before} -> {change.after}"


def _summary(plan: Plan, *, done: bool) -> Iterator[str]:
    if not plan.steps:
        yield "nothing to change: the stored records match the file"
    for kind, (verb, past) in _VERBS.items():
        count = Counter(step.resource for step in plan.steps if isinstance(step, kind))
        if count:
            records = ", ".join(counted(number, resource[:-1]) for resource, number in count.items())
            yield f"{past if done else f'to {verb}'}: {records}"
