"""`relaydeck apply` and `relaydeck export`."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from relaydeck.cli.local_changes import actor
from relaydeck.errors import OperatorError
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.making import Provisioner
from relaydeck.provisioning.plan import Change, Create, FieldChange, Plan, Remove, Step
from relaydeck.provisioning.read_file import read_file
from relaydeck.provisioning.references import Resolver
from relaydeck.settings import read_settings
from relaydeck.store.open_store import open_store

_LONG = 1000  # steps, from which on a progress bar is worth showing
_MARKS: dict[type[Step], tuple[str, str]] = {
    Create: ("+", "green"),
    Change: ("~", "yellow"),
    Remove: ("-", "red"),
}
_VERBS: dict[type[Step], tuple[str, str]] = {
    Create: ("create", "created"),
    Change: ("change", "changed"),
    Remove: ("remove", "removed"),
}


def apply_file(file: str, *, plan_only: bool, prune: bool) -> None:
    name, content, folder = _read(file)
    declared = read_file(content, Resolver(os.environ, folder))
    with closing(open_store(read_settings())) as store:
        provisioner = Provisioner(store, declared, file_name=name, prune=prune)
        plan = provisioner.plan() if plan_only else _make_so(provisioner)
    for note in plan.notes:
        sys.stderr.write(f"note: {note}\n")
    if plan_only:
        _show(plan)
    else:
        sys.stdout.write(_summary(plan, done=True))


def _make_so(provisioner: Provisioner) -> Plan:
    return provisioner.make_so(now=int(time.time()), actor=actor(), progress=_progress)


def export_state() -> None:
    with closing(open_store(read_settings())) as store, closing(exported(store)) as pieces:
        for piece in pieces:
            sys.stdout.buffer.write(piece.encode())  # TOML is UTF-8 whatever the locale


def _read(file: str) -> tuple[str, bytes, Path]:
    """What to call the file, its content, and the folder its relative paths start from."""
    if file == "-":
        return "standard input", sys.stdin.buffer.read(), Path()
    try:
        return file, Path(file).read_bytes(), Path(file).parent
    except OSError as error:
        raise OperatorError(f"the file {file} cannot be read: {error.strerror}") from None


def _progress(steps: list[Step]) -> Iterable[Step]:
    if len(steps) < _LONG or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, "applying", console=Console(stderr=True))


def _show(plan: Plan) -> None:
    """Colour on a terminal, or where FORCE_COLOR asks for it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for step in plan.steps:
        mark, colour = _MARKS[type(step)]
        console.print(Text(f"{mark} {step.resource[:-1]} {step.name}", colour))
        for change in step.fields if isinstance(step, Change) else ():
            console.print(Text(f"    {_shown_change(change)}", colour))
    console.print(Text(_summary(plan, done=False)), end="")


def _shown_change(change: FieldChange) -> str:
    if change.before == change.after:
        return f"{change.name}: changed"
    return f"{change.name}: {change.before} -> {change.after}"


def _summary(plan: Plan, *, done: bool) -> str:
    if not plan.steps:
        return "nothing to change: everything is as the file says\n"
    lines = []
    for kind, verbs in _VERBS.items():
        counted = Counter(step.resource for step in plan.steps if isinstance(step, kind))
        if counted:
            records = ", ".join(_counted(resource, count) for resource, count in counted.items())
            lines.append(f"{verbs[1] if done else f'to {verbs[0]}'}: {records}\n")
    return "".join(lines)


def _counted(resource: str, count: int) -> str:
    return f"{count} {resource[:-1] if count == 1 else resource}"
