"""A session with a scope sees, on every page, what it would see if the rest of the fleet did not exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from relaydeck.api.operations import SCOPED, WHOLE_SERVICE
from relaydeck.console.page_request import PAGES
from relaydeck.credentials.grants import Grant
from relaydeck.relayers import balance_history, relayer_changes, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.snapshots import Incident, NodeProblem, StoredRunway
from relaydeck.scope import ClosedRecords, OpenRecords, Scope, Visible
from relaydeck.signers import check_results
from relaydeck.signers.check import SignerCheck
from tests.admin.test_scope_leaks import change, fleet, only_inside
from tests.console.conftest import Operator, plain
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue, opened

SCOPES = {"labels": Scope(labels={"team": "a"}), "networks": Scope(networks=("net-a",)), "ids": Scope(("a-1", "a-3"))}
# What is closed to a session of an application: the records of `net-b`, and another relayer of team `b`.
NET_B, B_3 = Scope(networks=("net-b",)), Scope(relayers=("b-3",))
CLOSED = OpenRecords(None, (ClosedRecords((), NET_B), ClosedRecords(("relayer",), B_3)))
NOTHING = OpenRecords(None, (ClosedRecords((), Scope(relayers=("none",))),))
OUTSIDE = re.compile(r"(?<![\w-])(?:b-\d|sign-b|hook-b|net-b|team=b|cli:b)(?![\w-])")
IDS = {
    "networks": ("net-a", "net-b", "both", "nobody"),
    "signers": ("sign-a", "sign-b", "sign-both", "nobody"),
    "notifications": ("hook-a", "hook-b", "hook-both", "nobody"),
    "relayers": ("a-1", "a-3", "b-1", "b-3", "nobody"),
    "audit": tuple(map(str, range(1, 30))),
    "problems": ("8c3174413fdde9dd",),
    "proposals": ("theirs", "nobody"),
}
# Every page that is read, with the queries to try.
READ: dict[str, tuple[str, ...]] = {
    "": ("",),
    "/": ("",),
    "/apply": ("",),
    "/audit": ("", "?record=b-1", "?record=a-1", "?by=people", "?page=2", "?actor=cli:b"),
    "/audit/csv": ("",),
    "/deliveries": ("", "?state=dead", "?relayer_id=b-3", "?notification_id=hook-both", "?notification_id=hook-b"),
    "/deliveries/replay": ("", "?notification_id=hook-b", "?notification_id=hook-both"),
    "/deliveries/{id}": ("",),
    "/estimate": ("", "?relayer=b-1"),
    "/events": ("", "?relayer_id=b-1", "?relayer_id=a-1", "?before=6"),
    "/events/{id}": ("",),
    "/export": ("", "?resource=relayers", "?resource=relayers&record=b-1", "?resource=networks"),
    "/find": ("", "?text=b", "?text=o", "?text=sign", "?text=net", "?text=limited", "?text=0x", "?text=health"),
    "/networks": ("", "?label=team=b", "?name=b", "?problem=any"),
    "/networks/new": ("",),
    "/networks/{id}": ("",),
    "/networks/{id}/backtest": ("",),
    "/networks/{id}/delete": ("",),
    "/networks/{id}/edit": ("",),
    "/networks/{id}/now": ("",),
    "/nodes": ("",),
    "/proposals/{id}": ("",),
    "/notifications": ("", "?label=team=b", "?problem=any"),
    "/notifications/new": ("",),
    "/notifications/{id}": ("",),
    "/notifications/{id}/delete": ("",),
    "/notifications/{id}/send": ("",),
    "/relayers": ("", "?network=both", "?network=net-b", "?problem=any", "?order=runway", "?signer_id=sign-both"),
    "/relayers/csv": ("",),
    "/relayers/new": ("",),
    "/relayers/{id}": ("",),
    "/relayers/{id}/code": ("",),
    "/relayers/{id}/delete": ("",),
    "/relayers/{id}/edit": ("",),
    "/relayers/{id}/why": ("",),
    "/runway": ("", "?network=both"),
    "/runway/csv": ("",),
    "/signers": ("", "?label=team=b"),
    "/signers/new": ("",),
    "/signers/{id}": ("",),
    "/signers/{id}/delete": ("",),
    "/view": ("",),
}
# What is about the whole service, and refused.
HIDDEN = {
    *("/health", "/health/checks", "/audit/verify", "/proposals"),
    *("/tokens", "/tokens/{id}/revoke"),
}


class Pair(NamedTuple):
    """Somebody with a scope, before the whole fleet and before one without the rest."""

    everything: Operator
    inside: Operator
    events: list[str]

    def paths(self, path: str) -> list[str]:
        """One for each record, inside or outside."""
        resource = path.split("/")[1] if "/" in path else ""
        ids = (*self.events, "nobody") if resource in ("events", "deliveries") else IDS.get(resource, ("nobody",))
        return [path.replace("{id}", each) for each in ids] if "{id}" in path else [path]


def seed(home: Path) -> None:
    """Two teams with the same problems, at the same nodes and receivers."""
    done = run_command(home, "apply", "-", stdin=fleet())
    assert done.returncode == 0, done.stderr
    with opened(home) as store:
        for context in change(store):
            for relayer in ("b-1", "a-1", "b-3", "a-3"):
                named = context._replace(actor=f"cli:{relayer[0]}")
                relayer_changes.set_paused(named, relayer, paused=True)
                relayer_changes.set_paused(named, relayer, paused=False)
        refused = Incident(failed_rounds=3, failing_since=1000, evidence=(NodeProblem("http://node", "refused"),))
        with store.database.transaction() as transaction:
            for relayer in ("b-1", "b-3", "a-3"):
                snapshots.save_incident(transaction, relayer, refused)
            transaction.execute("UPDATE relayers SET system_disabled = true WHERE id IN ('b-1', 'b-2', 'a-2')")
            for row in transaction.all("SELECT seq FROM relayers"):
                balance_history.save(transaction, [(row.seq, BalancePeriod(2000, 2060, 10**18 + row.seq, 1))])
                snapshots.save_runway(transaction, row.seq, StoredRunway(1, 7200 + row.seq, 1000))
            for signer in ("sign-b", "sign-both"):
                check_results.keep(
                    transaction, SignerCheck(signer, 9000, 5, "wrong_key_kind", "no", failing_since=1000), "unreachable"
                )
            transaction.execute("UPDATE deliveries SET tries = 1, due_at = 4000000000000")
            transaction.execute("UPDATE deliveries SET state = 'dead', due_at = NULL WHERE seq IN (2, 4, 6)")
            theirs: dict[str, Any] = {
                "id": "theirs",
                "state": "open",
                "operation": "delete_relayer",
                "plan": "[]",
                "protections": "[]",
            }
            theirs |= {"revision": "", "author": "cli:b", "reason": "", "decision": ""}
            theirs |= {"created_at": 1000, "expires_at": 4_000_000_000}
            transaction.insert("proposals", tuple(theirs), [tuple(theirs.values())])
            names = ("delivery", "started_at", "duration", "status", "problem", "answer")
            rows = [
                (row.seq, 1_000_000, 5, None, "tls_failed", "") for row in transaction.all("SELECT seq FROM events")
            ]
            transaction.insert("attempts", names, rows)


def close(home: Path, visible: Visible) -> None:
    if not isinstance(visible, OpenRecords):
        return
    with opened(home) as store, store.database.transaction() as transaction:
        for number, each in enumerate(visible.closed):
            kinds, scope = msgspec.json.encode(each.kinds).decode(), msgspec.json.encode(each.scope).decode()
            given = {"name": f"p{number}", "kinds": kinds, "scope": scope, "note": "", "closed": True}
            given |= {"made_by": "cli:b", "created_at": 1000, "revision": transaction.revision}
            transaction.insert("protections", tuple(given), [tuple(given.values())])


@pytest.fixture(scope="module", params=[*SCOPES, "closed"])
def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Pair]:
    folder, scope = tmp_path_factory.mktemp("scoped"), SCOPES.get(request.param)
    seed(home := folder / "whole")
    token = issue(home, "limited", "readonly" if scope is None else Grant(role="editor", scope=scope).stored)
    copy = only_inside(home, scope or CLOSED, folder / "inside")
    close(home, scope or CLOSED)
    close(copy, scope or NOTHING)
    with opened(home) as store:
        events = [row.id for row in store.database.read("SELECT id FROM events ORDER BY seq", {})]
    settings = {"monitor_interval_seconds": "0"}
    with Running(home, token=token, **settings) as everything, Running(copy, token=token, **settings) as inside:
        people = [Operator(each.port).sign_in(token) for each in (everything, inside)]
        yield Pair(people[0], people[1], events)


def shown(answer: Answer) -> list[str]:
    """Without what differs between two sessions, services and moments."""
    text = answer.body.decode()
    text = re.sub(r'(name="(?:form_token|revision)" value|data-revision|title="By [^"]*until)="?[^"]*"', "", text)
    text = re.sub(r"<time[^>]*>[^<]*</time>|\d+(\.\d+)? ?ms|title=\"By [^\"]*\"|until [\d-]+T[\d:]+Z", "", text)
    if "just now" in text:
        text = re.sub(r'(<td class="number"[^>]*>)\d+', r"\1", text)  # milliseconds
    return [str(answer.status), *re.split("(?=<)", text)]


def test_every_page_has_a_row() -> None:
    assert {path for path, each in PAGES.items() if "GET" in each} == {*READ, *HIDDEN}
    assert {path for path in HIDDEN if PAGES[path]["GET"].operation.name not in SCOPED} == HIDDEN


@pytest.mark.parametrize("path", READ)
def test_a_page_is_that_of_a_fleet_without_the_rest(pair: Pair, path: str) -> None:
    for each in pair.paths(path):
        for query in READ[path]:
            asked, expected = pair.everything.get(each + query), pair.inside.get(each + query)
            assert (shown(asked), asked.status < 500) == (shown(expected), True), each + query
            assert [name for name in OUTSIDE.findall(plain(asked)) if name not in each + query] == [], each + query


# A record outside, and one that does not exist, in the fields of a form.
REFERENCES = (
    {"relayer": "b-1", "network": "net-b", "signer_id": "sign-b", "notification_id": "hook-b", "record": "b-1"},
    {"relayer": "b-0", "network": "net-0", "signer_id": "sign-0", "notification_id": "hook-0", "record": "b-0"},
)
# Every form, with its other fields.
FORMS: dict[str, dict[str, str]] = {
    "/audit/{id}/revert": {},
    "/apply": {"file": '[[relayers]]\nid = "b-1"\nname = "x"\nnetwork = "net-b"\nnetwork_type = "evm"\n'},
    "/apply/plan": {"file": "", "sealed": "x"},
    "/deliveries/replay": {},
    "/deliveries/{id}/replay": {},
    "/estimate": {"transaction": '{"to": "0x' + "11" * 20 + '"}'},
    "/networks/new": {"name": "", "do": "plan"},
    "/networks/{id}/delete": {"typed": "x"},
    "/networks/{id}/edit": {"do": "plan"},
    "/notifications": {"id": "", "url": "https://new.example/"},
    "/notifications/{id}": {"url": "https://new.example/"},
    "/notifications/{id}/delete": {"typed": "x"},
    "/notifications/{id}/send": {},
    "/notifications/{id}/test": {},
    "/problems/{id}/acknowledge": {"note": "told", "until": "1h"},
    "/problems/{id}/reopen": {},
    "/proposals/{id}/withdraw": {},
    "/relayers": {"id": "new", "name": "New", "network_type": "evm", "labels": "team=a"},
    "/relayers/selected": {"verb": "pause"},
    "/relayers/selected/change": {"do": "plan", "labels": "team=x"},
    "/relayers/{id}/delete": {"typed": "x"},
    "/relayers/{id}/edit": {"name": "x"},
    "/relayers/{id}/pause": {},
    "/relayers/{id}/resume": {},
    "/signers": {"id": "", "type": "plain"},
    "/signers/{id}": {"labels": "team=x"},
    "/signers/{id}/check": {},
    "/signers/{id}/delete": {"typed": "x"},
    "/view": {},
}
REFUSED = {
    *("/proposals/{id}/approve", "/proposals/{id}/reject", "/proposals/{id}/force"),
    *("/tokens", "/tokens/{id}/rotate", "/tokens/{id}/revoke"),
}
UNKNOWN = {"networks": "net-0", "signers": "sign-0", "notifications": "hook-0", "relayers": "b-0"}


def test_every_form_has_a_row() -> None:
    assert {path for path, each in PAGES.items() if "POST" in each} == {*FORMS, *REFUSED}


@pytest.mark.parametrize("path", FORMS)
def test_a_form_answers_about_the_rest_as_about_what_does_not_exist(pair: Pair, path: str) -> None:
    resource = path.split("/")[1]
    outside = (
        (next(each for each in IDS[resource] if "b" in each and "both" not in each)) if resource in UNKNOWN else "x"
    )
    outside = "theirs" if resource == "proposals" else outside
    asked = pair.everything.post(path.replace("{id}", outside), REFERENCES[0] | FORMS[path])
    unknown = pair.everything.post(path.replace("{id}", UNKNOWN.get(resource, "x")), REFERENCES[1] | FORMS[path])
    expected = pair.inside.post(path.replace("{id}", outside), REFERENCES[0] | FORMS[path])
    assert shown(asked) == shown(expected)
    assert asked.headers.get("location") == expected.headers.get("location")
    named = re.compile("(?<![a-z0-9])(b|net|sign|hook)-(b|0|1)(?![a-z0-9])")
    assert [named.sub(r"\1", each) for each in shown(asked)] == [named.sub(r"\1", each) for each in shown(unknown)]


@pytest.mark.parametrize("path", sorted(REFUSED))
def test_what_is_about_the_whole_service_cannot_be_changed(pair: Pair, path: str) -> None:
    assert pair.everything.post(path.replace("{id}", "x")).status == 403


@pytest.mark.parametrize("path", sorted(HIDDEN))
def test_what_is_about_the_whole_service_is_not_in_the_menu_and_says_why(pair: Pair, path: str) -> None:
    answer = pair.everything.get(path.replace("{id}", "nobody"))
    assert answer.status == 403
    assert WHOLE_SERVICE in plain(answer)
    assert f'href="/console{path}"' not in answer.body.decode()
