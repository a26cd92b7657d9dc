"""A plan as the admin API and the commands show it."""

from relaydeck.admin.bodies import ApplyReport, PlannedField, PlannedStep
from relaydeck.provisioning.plan import Change, Create, Plan, Step


def apply_report(plan: Plan, *, applied: bool) -> ApplyReport:
    return ApplyReport(applied, plan.revision, tuple(_step(each) for each in plan.steps), tuple(plan.notes))


def _step(step: Step) -> PlannedStep:
    if isinstance(step, Change):
        fields = tuple(PlannedField(*each) for each in step.fields)
        return PlannedStep("change", step.resource[:-1], step.name, fields)
    return PlannedStep("create" if isinstance(step, Create) else "remove", step.resource[:-1], step.name, ())
