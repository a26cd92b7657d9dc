"""`relaydeck event …`."""

import sys
from typing import Any

from relaydeck.admin.events import delivery_view, replay_dead, replay_one, whole_delivery
from relaydeck.cli.local_changes import local_change, opened
from relaydeck.cli.showing import print_json, print_record, print_table
from relaydeck.notifications import deliveries, events


def show_all(after: int, limit: int, as_json: bool) -> None:
    with opened() as store:
        shown = [event.shown() for event in events.list_events(store.database.read, after, limit)]
    _print(shown, ("sequence", "timestamp", "type", "id"), as_json)


def show_deliveries(filters: dict[str, str], after: int, limit: int, as_json: bool) -> None:
    with opened() as store:
        rows = deliveries.list_deliveries(store.database.read, after, limit, **filters)
    names = ("sequence", "id", "type", "notification_id", "state", "tries", "next_try_at", "last_problem")
    _print([delivery_view(row) for row in rows], names, as_json)


def show(name: str, as_json: bool) -> None:
    with opened() as store:
        delivery = whole_delivery(store.database.read, name)
    if as_json:
        print_json(delivery)
    else:
        print_record(delivery)


def replay(name: str) -> None:
    with local_change() as change:
        replay_one(change, name)
    sys.stderr.write(f"replaying {name}; a running service delivers it\n")


def replay_all() -> None:
    with local_change() as change:
        count = replay_dead(change)
    sys.stderr.write(f"replaying {count} dead {'delivery' if count == 1 else 'deliveries'}\n")


def _print(views: list[dict[str, Any]], names: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(views)
        return
    print_table(views, {name: lambda view, name=name: view[name] for name in names})  # type: ignore[misc]
