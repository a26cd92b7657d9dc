"""A plan as the admin API and the commands show it."""

from relaydeck.admin.bodies import ApplyReport, PlannedField, PlannedStep
from relaydeck.provisioning.plan import Change, Create, Plan, Step
from relaydeck.relayers.model import Relayer


def apply_report(plan: Plan, *, applied: bool) -> ApplyReport:
    # The next plan generates other ids: before they are stored, a name says more.
    by_name = set() if applied else plan.generated_ids
    return ApplyReport(applied, plan.revision, tuple(_step(each, by_name) for each in plan.steps), tuple(plan.notes))


def _step(step: Step, by_name: set[str]) -> PlannedStep:
    if isinstance(step, Change):
        fields = tuple(PlannedField(*each) for each in step.fields)
        return PlannedStep("change", step.resource[:-1], step.name, fields)
    name = step.name
    if isinstance(step, Create) and isinstance(step.record, Relayer) and name in by_name:
        name = step.record.name
    return PlannedStep("create" if isinstance(step, Create) else "remove", step.resource[:-1], name, ())
