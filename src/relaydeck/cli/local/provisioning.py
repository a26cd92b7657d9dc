"""Apply files, on the home."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.views import json_values
from relaydeck.cli.backend import ApplyFile, Json, OutdatedPlan
from relaydeck.cli.local.signer_addresses import key_source
from relaydeck.cli.local.store import actor, existing_store, has_data, store_for_apply
from relaydeck.cli.output import progress_bar
from relaydeck.errors import PlanChanged
from relaydeck.provisioning.apply import Provisioner
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.references import Resolver
from relaydeck.settings import read_settings

_MANY_STEPS = 1000  # from which on a progress bar is useful


class LocalProvisioning:
    def plan(self, file: ApplyFile, *, prune: bool) -> Json:
        with _provisioner(file, prune=prune, may_create=False) as provisioner:
            return json_values(apply_report(provisioner.plan(), applied=False))

    def apply(self, file: ApplyFile, *, prune: bool, revision: str) -> Json:
        if not has_data(read_settings()):
            with _provisioner(file, prune=prune, may_create=False) as provisioner:
                provisioner.check()  # a file with mistakes creates no home
        with _provisioner(file, prune=prune, may_create=True) as provisioner:
            try:
                plan = provisioner.apply(
                    now=int(time.time()), actor=actor(), progress=_with_progress, expected=revision
                )
            except PlanChanged as refusal:
                raise OutdatedPlan(refusal.changes) from None
        return json_values(apply_report(plan, applied=True))

    def export(self) -> Iterator[str]:
        with existing_store() as store, closing(exported(store)) as pieces:
            yield from pieces


@contextmanager
def _provisioner(file: ApplyFile, *, prune: bool, may_create: bool) -> Iterator[Provisioner]:
    planner = FilePlanner(read_file(file.content, Resolver(os.environ, file.folder)), prune)
    with store_for_apply(may_create=may_create) as store:
        yield Provisioner(store, planner, file_name=file.name, keys=key_source())


def _with_progress(steps: list[Step]) -> Iterable[Step]:
    with progress_bar("applying", len(steps), at_least=_MANY_STEPS) as advance:
        for step in steps:
            yield step
            advance(1)
