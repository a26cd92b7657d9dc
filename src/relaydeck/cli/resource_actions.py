"""`relaydeck network|signer|notification|relayer …`: what these commands print."""

from relaydeck.cli.assignments import document
from relaydeck.cli.backend import IDENTITY, Resource
from relaydeck.cli.confirmation import confirm
from relaydeck.cli.json_shapes import Deleted
from relaydeck.cli.output import print_change, print_json, print_notes, print_record, print_table
from relaydeck.cli.resource_columns import COLUMNS
from relaydeck.cli.target import backend
from relaydeck.errors import OperatorError


def show_all(resource: Resource, filters: dict[str, str], limit: int, as_json: bool) -> None:
    found = backend().records.list_records(resource, filters, limit)
    if as_json:
        print_json(found.bodies)
    else:
        print_table(found.bodies, COLUMNS[resource])
    print_notes(found.notes)
    if found.total > len(found.bodies):
        print_notes([f"{found.total - len(found.bodies)} more are not shown; see --limit"])


def show(resource: Resource, name: str, as_json: bool) -> None:
    view = backend().records.find(resource, name)
    if as_json:
        print_json(view.body)
    else:
        print_record(view.body)
    print_notes(view.notes)


def create(resource: Resource, source: str, assignments: tuple[str, ...], as_json: bool) -> None:
    view = backend().records.create(resource, document(source, assignments))
    print_notes(view.notes)
    print_change(view.body, as_json, f"created {resource[:-1]} {view.body[IDENTITY[resource]]}")


def update(resource: Resource, name: str, source: str, assignments: tuple[str, ...], as_json: bool) -> None:
    content = document(source, assignments)
    if not content:
        raise OperatorError("there is nothing to change", "Give FIELD=TEXT or FIELD:=JSON arguments, or --from FILE.")
    view = backend().records.update(resource, name, content)
    print_notes(view.notes)
    print_change(view.body, as_json, f"updated {resource[:-1]} {name}")


def delete(resource: Resource, name: str, yes: bool, as_json: bool) -> None:
    confirm(f"delete {resource[:-1]} {name}", yes=yes)
    backend().records.delete(resource, name)
    print_change(Deleted(resource[:-1], name), as_json, f"deleted {resource[:-1]} {name}")
