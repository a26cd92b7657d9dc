"""The history that a scope shows is that of the present records, not that of earlier ones with the same identifiers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relaydeck.scope import Scope
from relaydeck.store.open_store import Store
from tests.support.places import ENGINES
from tests.support.scoped_fleet import THEN, changing, make_records, remove_records
from tests.support.seeding import opened

SCOPES = {"labels": Scope(labels={"team": "a"}), "networks": Scope((), ("vip",)), "relayers": Scope(("vip",))}
AUDIT = "SELECT actor, action FROM audit ORDER BY seq"
EVENTS = "SELECT e.kind, e.created_at, d.state, a.status FROM events e LEFT JOIN deliveries d ON d.seq = e.seq" + (
    " LEFT JOIN attempts a ON a.delivery = d.seq ORDER BY e.seq"
)


def seen(store: Store, scope: Scope | None) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The audit entries, and the events with their deliveries and attempts."""
    with store.database.within(scope):
        audit, found = (store.database.read(sql, {}) for sql in (AUDIT, EVENTS))
    return [tuple(row) for row in audit], [tuple(row) for row in found]


@pytest.mark.parametrize("limit", SCOPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_identifier_that_is_used_again_shows_nothing_of_the_record_before(
    tmp_path: Path, lend: Callable[[Path, str], Path], engine: str, limit: str
) -> None:
    with opened(lend(tmp_path / "home", engine)) as store:
        with changing(store, "token:b", THEN) as context:
            make_records(context, "vip", {"team": "b"})
        with changing(store, "token:b", THEN + 60) as context:
            remove_records(context, "vip")  # within the second in which they are created again
        with changing(store, "token:a", THEN + 60) as context:
            make_records(context, "vip", {"team": "a"})
        assert len(seen(store, None)[0]) == 14
        audit, found = seen(store, SCOPES[limit])
    own = ["signer.created", "network.created", "notification.created", "relayer.created", "relayer.paused"]
    assert audit == [("token:a", each) for each in own]
    assert [each[:2] for each in found] == [("relayer.paused", THEN + 60), ("notification.test", THEN + 60)]
    assert [each[2:] for each in found] == [("pending", 500)] * 2
