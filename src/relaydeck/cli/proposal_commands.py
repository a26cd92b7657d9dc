"""`relaydeck proposal …` and `relaydeck protection …`: changes that need approval, and of which records they are."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, get_args

import click

from relaydeck.api import operations
from relaydeck.api.operation import Operation
from relaydeck.api.records import Proposal, Protection, RecordKind
from relaydeck.cli.operation_commands import derived_command, identity, list_command, scope_options
from relaydeck.cli.options import anywhere, as_json
from relaydeck.cli.output import Shape, about, print_change, print_record, print_steps
from relaydeck.cli.reply import Json, OutdatedPlan, Proposed, Refused
from relaydeck.cli.target import target
from relaydeck.errors import OperatorError

_POLL_SECONDS = 2.0
_OPEN = "open"
_KIND = click.Choice(get_args(RecordKind))

proposal = click.Group("proposal")
protection = click.Group("protection")


class NotApproved(OperatorError):
    exit_code = 4


class NotFollowed(OperatorError):
    """The credential may not, or no longer, read the proposal that it made. The proposal does not depend on it."""

    exit_code = Proposed.exit_code


def awaited(proposed: Proposed, seconds: float) -> Json:
    """The proposal once it is approved, as the report of an apply. Raises Proposed when that takes longer."""
    until = time.monotonic() + seconds
    while (found := _decided(proposed.id)) is None:
        if time.monotonic() >= until:
            raise proposed
        time.sleep(min(_POLL_SECONDS, seconds))
    if found["state"] not in ("applied", "forced"):
        raise NotApproved(f"the proposal {proposed.id} is {found['state']}", found["decision"])
    revision = found["revision"].strip('"')
    return {"applied": True, "revision": revision, "steps": found["steps"], "notes": []}


def _decided(identifier: str) -> Json | None:
    """The proposal; None while it is open, or while the service fails or cannot be reached. Raises NotFollowed."""
    try:
        found: Json = target().call(operations.GET_PROPOSAL, identifier).data
    except Refused as refusal:
        if refusal.status == HTTPStatus.TOO_MANY_REQUESTS or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        raise NotFollowed(
            f"the change needs approval, and this credential cannot wait for it any longer: {refusal.problem}",
            f"Nothing was changed yet, and proposal {identifier} stays open. Follow it with another credential:"
            f" 'relaydeck proposal show {identifier}'.",
        ) from None
    except OperatorError:
        return None
    return None if found["state"] == _OPEN else found


def _subject(view: Json) -> str:
    first = ", ".join(f"{each['action']} {each['kind']} {each['name']}" for each in view["steps"][:3])
    return f"{first} and {len(view['steps']) - 3} more" if len(view["steps"]) > 3 else first


proposal.add_command(
    list_command(
        operations.LIST_PROPOSALS,
        "list",
        "List proposed changes, newest first.",
        {
            "id": "id",
            "state": "state",
            "author": "author",
            "change": _subject,
            "reason": "reason",
            "expires": "expires_at",
            "decided by": "decided_by",
        },
        most=100,
        newest=True,
        epilog="Example:  relaydeck proposal list --state open",
    )
)


def _print_proposal(found: Json) -> None:
    print_record({name: value for name, value in found.items() if name != "steps"})
    print_steps(found["steps"])


proposal.add_command(
    derived_command(
        operations.GET_PROPOSAL, "show", "Show the proposal with this ID: author, reason, steps.", _print_proposal
    )
)


def _deciding(operation: Operation, done: str, help: str) -> None:
    """The command of an operation that decides. With a body, it takes the reason."""

    @as_json(Proposal)
    @anywhere
    def run(identifier: str, as_json: bool, reason: str = "") -> None:
        document = {"reason": reason} if operation.request else None
        try:
            found = target().call(operation, identifier, document=document).data
        except Refused as refusal:
            if refusal.status != HTTPStatus.PRECONDITION_FAILED:
                raise
            changes, records = (refusal.members.get(each, ()) for each in ("changes", "records"))
            raise OutdatedPlan(changes, records, "Its author has to propose the change again.") from None
        print_change(found, as_json, f"{done} proposal {identifier}")

    command: Callable[..., Any] = click.argument("reason")(run) if operation.request else run
    name = operation.name.partition("_")[0]
    proposal.add_command(click.command(name, help=help)(identity(operation)(command)))


_deciding(
    operations.APPROVE_PROPOSAL,
    "applied",
    "Approve the proposal with this ID: its change is made at once. Its author cannot approve it.",
)
_deciding(operations.REJECT_PROPOSAL, "rejected", "Reject the proposal with this ID, with a REASON.")
_deciding(operations.WITHDRAW_PROPOSAL, "withdrew", "Withdraw the proposal with this ID. Only its author can.")
_deciding(
    operations.FORCE_PROPOSAL,
    "forced",
    "Make the change of the proposal with this ID without an approval. Only owners can. The audit log and an event"
    " record it with the REASON.",
)


def _covered(view: Json) -> str:
    scope = view["scope"] or {}
    found = [f"relayer {each}" for each in scope.get("relayers", ())]
    found += [f"network {each}" for each in scope.get("networks", ())]
    found += [f"label {key}={value}" for key, value in scope.get("labels", {}).items()]
    return ", ".join(found) or "every record"


protection.add_command(
    list_command(
        operations.LIST_PROTECTIONS,
        "list",
        "List protections and the records that they cover.",
        {
            "name": "name",
            "kinds": lambda view: ", ".join(view["kinds"]) or "every kind",
            "records": _covered,
            "closed": lambda view: "yes" if view.get("closed") else "",
            "note": "note",
            "made by": "made_by",
        },
    )
)


class Ended(Shape, frozen=True):
    name: Annotated[str, about("The protection that was ended.")]


@protection.command("create", epilog="Example:  relaydeck protection create mainnet --network mainnet")
@click.argument("name")
@click.option("--kind", "kinds", multiple=True, type=_KIND, help="Only records of this kind. Repeatable.")
@scope_options("This relayer and what belongs to it", "This network and the relayers on it", "Records")
@click.option("--note", default="", help="Purpose, shown in lists.")
@click.option("--closed", is_flag=True, help="Also hide the records from tokens with the roles api and readonly.")
@as_json(Protection)
@anywhere
def protection_create(
    name: str, kinds: tuple[str, ...], scope: Json | None, note: str, closed: bool, as_json: bool
) -> None:
    """Protect records: somebody else has to approve each change of them.

    A record is protected if it meets every option that you give. Without options, all records are protected.
    """
    document = {"name": name, "kinds": kinds, "scope": scope, "note": note, "closed": closed}
    found = target().call(operations.CREATE_PROTECTION, document=document).data
    print_change(found, as_json, f"created protection {name}")


@protection.command("delete")
@identity(operations.DELETE_PROTECTION)
@as_json(Ended)
@anywhere
def protection_delete(identifier: str, as_json: bool) -> None:
    """End the protection called NAME. Somebody else has to approve this, too."""
    target().call(operations.DELETE_PROTECTION, identifier)
    print_change(Ended(identifier), as_json, f"deleted protection {identifier}")
