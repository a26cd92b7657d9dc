"""What an operation replies to a command, wherever it ran."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from relaydeck.errors import OperatorError

Json = dict[str, Any]
UNCHANGED = "Nothing was changed."


class Reply(NamedTuple):
    data: Any
    notes: tuple[str, ...] = ()
    changed: bool = True
    total: int = 0  # of a list in pages, with the size of its pages
    per_page: int = 0


class Refused(OperatorError):
    """An operation was refused. `members` are those of the problem details besides the usual ones."""

    def __init__(self, problem: str, remedy: str, status: int, members: Mapping[str, Any]) -> None:
        super().__init__(problem, remedy)
        self.status = status
        self.members = members


class Proposed(OperatorError):
    """A change of protected records became a proposal."""

    exit_code = 3

    def __init__(self, proposal: Mapping[str, Any]) -> None:
        self.id = str(proposal.get("id"))
        super().__init__(
            f"the change needs approval: it is now proposal {self.id}, and somebody else has to approve it",
            f"Nothing was changed yet. See 'relaydeck proposal show {self.id}'.",
        )


class OutdatedPlan(OperatorError):
    """The plan that was reviewed is not the plan that would be applied."""

    def __init__(
        self,
        changes: Sequence[Mapping[str, str]],
        records: Sequence[Mapping[str, str]],
        remedy: str = "Plan again, and review the new plan.",
    ) -> None:
        different = [f"  {each['kind']} {each['name'] or '(more than one, or not in this file)'}" for each in records]
        since = [f"  {each['at']}  {each['actor']}  {each['action']}  {each['record']}" for each in changes]
        super().__init__(
            "\n".join(
                [
                    "the plan is not the one that was reviewed",
                    *(["Different from the reviewed plan:", *different] if different else []),
                    *(["Changed since:", *since] if since else ["No record has changed since."]),
                ]
            ),
            f"{UNCHANGED} {remedy}",
        )
