"""Apply files, on the home."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial

from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.views import json_values
from relaydeck.cli.backend import ApplyFile, Json, OutdatedPlan
from relaydeck.cli.local.home import has_data, require_data
from relaydeck.cli.local.signer_addresses import asking_once, key_source
from relaydeck.cli.local.store import actor, existing_store, store_for_apply
from relaydeck.cli.local.url_rules import url_rules
from relaydeck.cli.output import print_note, progress_bar
from relaydeck.errors import PlanChanged
from relaydeck.provisioning.apply import Provisioner
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.references import Resolver
from relaydeck.settings import read_settings
from relaydeck.store.open_store import Store

_MANY_STEPS = 1000  # from which on a progress bar is useful
_PLANNED_FROM_NOTHING = "0-"  # the start of such a revision


class LocalProvisioning:
    def plan(self, file: ApplyFile, *, prune: bool) -> Json:
        settings = read_settings()
        has_key = settings.master_key_path.exists()
        if not has_data(settings):
            unpinned = "" if has_key else ", and has no revision before there is a master key"
            print_note(
                f"note: there is no Relaydeck data at {settings.database}: the plan starts from nothing{unpinned}"
            )
        with store_for_apply(may_create=False) as store:
            plan = _provisioner(file, prune)(store).plan()
        if not has_key:
            plan.revision = ""  # computed with the key of the temporary store
        return json_values(apply_report(plan, applied=False))

    def apply(self, file: ApplyFile, *, prune: bool, revision: str) -> Json:
        provisioner = _provisioner(file, prune)
        plan = _rehearsed(provisioner, revision)
        if plan is None or plan.steps:
            with store_for_apply(may_create=True) as store, _naming_changes():
                plan = provisioner(store).apply(
                    now=int(time.time()), actor=actor(), progress=_with_progress, expected=revision
                )
        return json_values(apply_report(plan, applied=True))

    def export(self) -> Iterator[str]:
        with existing_store() as store, closing(exported(store)) as pieces:
            yield from pieces


def _provisioner(file: ApplyFile, prune: bool) -> Callable[[Store], Provisioner]:
    """For one store after another. The file, which may be a pipe, is read once, and key systems are asked once."""
    planner = FilePlanner(read_file(file.content, Resolver(os.environ, file.folder)), prune, url_rules())
    return partial(Provisioner, planner=planner, file_name=file.name, keys=asking_once(key_source()))


def _rehearsed(provisioner: Callable[[Store], Provisioner], revision: str) -> Plan | None:
    """The plan for a home that does not exist yet, so that nothing that is refused creates one. None if it exists."""
    settings = read_settings()
    if has_data(settings):
        return None
    if revision and not revision.startswith(_PLANNED_FROM_NOTHING):
        require_data(settings)  # the plan was made for another home
    with store_for_apply(may_create=False) as store, _naming_changes():
        return provisioner(store).rehearse(revision)


@contextmanager
def _naming_changes() -> Iterator[None]:
    """A plan that is no longer the reviewed one is refused with what has changed since."""
    try:
        yield
    except PlanChanged as refusal:
        raise OutdatedPlan(refusal.changes, refusal.records) from None


def _with_progress(steps: list[Step]) -> Iterable[Step]:
    with progress_bar("applying", len(steps), at_least=_MANY_STEPS) as advance:
        for step in steps:
            yield step
            advance(1)
