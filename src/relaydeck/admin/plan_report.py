"""A plan as the admin API and the commands show it."""

from relaydeck.admin.bodies import ApplyReport, PlannedField, PlannedStep
from relaydeck.provisioning.plan import Change, Plan, Remove, Step
from relaydeck.relayers.model import Relayer


def apply_report(plan: Plan, *, applied: bool) -> ApplyReport:
    # The next plan generates other ids: before they are stored, a name says more.
    by_name = set() if applied else plan.generated_ids
    return ApplyReport(applied, plan.revision, tuple(_step(each, by_name) for each in plan.steps), tuple(plan.notes))


def _step(step: Step, by_name: set[str]) -> PlannedStep:
    kind = step.resource[:-1]
    if isinstance(step, Remove):
        return PlannedStep("remove", kind, step.name, _fields(step), step.title)
    title = step.record.name if isinstance(step.record, Relayer) else ""
    if isinstance(step, Change):
        return PlannedStep("change", kind, step.name, _fields(step), title)
    return PlannedStep("create", kind, title if step.name in by_name else step.name, _fields(step))


def _fields(step: Step) -> tuple[PlannedField, ...]:
    return tuple(PlannedField(*each) for each in step.fields)
