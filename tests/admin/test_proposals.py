"""Changes that need approval, over HTTP: what becomes a proposal, who decides, and what an approval does."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from relaydeck.admin import api, proposals  # noqa: F401
from relaydeck.admin.handling import Request, Services
from relaydeck.api.operations import APPROVE_PROPOSAL
from relaydeck.client import Client
from relaydeck.client.errors import ChangeProposed
from relaydeck.errors import NotPossible
from relaydeck.http.pipeline import Call
from relaydeck.provisioning.planner import NO_RULES
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from tests.admin.conftest import Admin, refusal
from tests.admin.test_limited_tokens import token_of
from tests.conftest import DEMO
from tests.support.places import ENGINES, choose
from tests.support.postgres import PostgresServer
from tests.support.running import Running, run_command
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement

KEY = "0x" + "5e" * 32
NEEDS_ANOTHER = "a change that needs approval cannot be approved by its author, nor by a token that the author made"
OWNER = "root"  # the token of the tests
NEW = {"name": "New", "network": "sepolia", "network_type": "evm", "signer_id": "other"}


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    home = tmp_path / "home"
    if getattr(request, "param", "") == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        choose(home, server.url(server.fresh()))
    return home


@pytest.fixture
def guarded(home: Path) -> Iterator[Admin]:
    """The demo state, of which everything on its network is protected; `root` and `second` are owners."""
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "owner"), monitor_interval_seconds="3600") as running:
        found = Admin(running)
        protect(found, "main", scope={"networks": ["sepolia"]})
        yield found


def protect(admin: Admin, name: str, **given: Any) -> None:
    answer = admin.ask("POST", "protections", {"name": name, **given})
    assert answer.status == 201, answer.body


def proposed(admin: Admin, method: str, path: str, body: Any = None, token: str | None = None) -> str:
    answer = admin.ask(method, path, body, token=token)
    assert (answer.status, answer.json["changed"], answer.json["data"]["state"]) == (202, False, "open"), answer.body
    identifier: str = answer.json["data"]["id"]
    return identifier


def second(admin: Admin) -> str:
    return issue(admin.running.home, "second", "owner")


def relayer_name(admin: Admin) -> str:
    name: str = admin.get("relayers/sepolia-1")["name"]
    return name


def actions(admin: Admin, count: int) -> list[tuple[str, str]]:
    return [(each["action"], each["actor"]) for each in admin.audited()[-count:]]


def test_what_is_protected_is_listed_and_its_end_needs_two(guarded: Admin) -> None:
    assert guarded.get("protections") == [
        {
            "name": "main",
            "kinds": [],
            "scope": {"networks": ["sepolia"]},
            "note": "",
            "closed": False,
            "made_by": "token:root",
        }
    ]
    assert refusal(guarded.ask("POST", "protections", {"name": "main"})) == (409, "Protection already exists")
    no_limit = guarded.ask("POST", "protections", {"name": "other", "scope": {}})
    assert refusal(no_limit) == (400, "scope must give relayers, networks or labels")
    assert refusal(guarded.ask("DELETE", "protections/none")) == (404, "Protection not found")
    proposal = proposed(guarded, "DELETE", "protections/main")
    assert [each["name"] for each in guarded.get("protections")] == ["main"]
    assert guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded)).status == 200
    assert guarded.get("protections") == []


def test_a_change_becomes_a_proposal_and_an_approval_makes_it(guarded: Admin) -> None:
    answer = guarded.ask("PATCH", "relayers/sepolia-1?reason=tidy+%C3%BCp", {"name": "Other"})
    assert (answer.status, relayer_name(guarded)) == (202, "Sepolia one")
    shown = answer.json["data"]
    pinned, expires = shown.pop("revision"), shown.pop("expires_at")
    assert pinned == guarded.ask("GET", "relayers/sepolia-1").headers["etag"]
    assert expires > shown.pop("created_at")
    assert shown == {
        "id": shown["id"],
        "state": "open",
        "operation": "update_relayer",
        "author": "token:root",
        "reason": "tidy üp",
        "protections": ["main"],
        "steps": [
            {
                "action": "change",
                "kind": "relayer",
                "name": "sepolia-1",
                "fields": [{"name": "name", "before": "Sepolia one", "after": "Other"}],
            }
        ],
        "decided_by": None,
        "decided_at": None,
        "decision": "",
    }
    path = f"proposals/{shown['id']}"
    assert refusal(guarded.ask("POST", f"{path}/approve")) == (403, NEEDS_ANOTHER)
    approved = guarded.ask("POST", f"{path}/approve", token=second(guarded)).json["data"]
    assert (approved["state"], approved["decided_by"], relayer_name(guarded)) == ("applied", "token:second", "Other")
    assert actions(guarded, 3) == [
        ("change.proposed", "token:root"),
        ("change.applied", "token:second"),
        ("relayer.updated", "token:root"),
    ]
    again = guarded.ask("POST", f"{path}/approve", token=issue(guarded.running.home, "third", "owner"))
    assert refusal(again) == (409, "the proposal is applied")
    assert [each["id"] for each in guarded.get("proposals?state=applied")] == [shown["id"]]
    assert guarded.get("proposals?state=open") == []


def test_a_value_that_is_set_or_removed_is_unset_on_the_other_side(guarded: Admin) -> None:
    values: list[dict[str, Any]] = [{"labels": {"team": "a"}}, {"labels": None, "policies": {"gas_price_cap": None}}]
    found = []
    for value in values:
        answer = guarded.ask("PATCH", "relayers/sepolia-1", value)
        found.append(answer.json["data"]["steps"][0]["fields"])
        path = f"proposals/{answer.json['data']['id']}/force"
        assert guarded.ask("POST", path, {"reason": "alone"}).status == 200
    assert found == [
        [{"name": "labels", "before": "unset", "after": '{"team":"a"}'}],
        [
            {"name": "labels", "before": '{"team":"a"}', "after": "unset"},
            {"name": "policies.gas_price_cap", "before": "100000000000", "after": "unset"},
        ],
    ]


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_every_kind_of_change_is_held_up(guarded: Admin) -> None:
    relayer = {"name": "New", "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    changes: list[tuple[str, str, Any]] = [
        ("POST", "relayers", {"id": "new", **relayer}),
        ("DELETE", "relayers/sepolia-1", None),
        ("PATCH", "networks/sepolia", {"native_symbol": "X"}),
        ("PATCH", "signers/ops", {"labels": {"a": "b"}}),
        ("PATCH", "notifications/pager", {"url": "https://hooks.example.com/other"}),
        ("POST", "apply", {"document": {"relayers": [{"id": "applied", **relayer}]}}),
    ]
    before = guarded.get("export")
    found = {proposed(guarded, *each) for each in changes}
    assert (len(found), guarded.get("export")) == (6, before)
    approver = second(guarded)
    order = [each["id"] for each in guarded.get("proposals") if each["operation"] != "delete_relayer"]
    answers = [guarded.ask("POST", f"proposals/{each}/approve", token=approver) for each in order]
    assert [each.status for each in answers] == [200] * 5, [each.body for each in answers]
    assert sorted(each["id"] for each in guarded.get("relayers")) == ["applied", "new", "sepolia-1"]


def test_what_is_not_protected_changes_at_once(guarded: Admin) -> None:
    signer = {"id": "free", "type": "plain", "config": {"key": KEY}}
    assert guarded.ask("POST", "signers", signer).status == 201
    assert guarded.ask("PATCH", "relayers/sepolia-1", {"name": "Sepolia one"}).json["changed"] is False
    assert guarded.get("proposals") == []


def test_pausing_and_the_five_operations_are_never_held_up(guarded: Admin) -> None:
    assert guarded.ask("POST", "relayers/sepolia-1/pause").status == 200
    assert guarded.ask("POST", "relayers/sepolia-1/resume").status == 200
    url = {"url": "https://hooks.example.com/other"}
    answer = guarded.running.ask("PATCH", "/api/v1/notifications/pager", url)
    assert (answer.status, guarded.get("notifications/pager")["url"]) == (200, "https://hooks.example.com/other")


@pytest.mark.parametrize("change", [{"labels": {"team": None}}, {"labels": {"team": "a"}}])
def test_a_label_protects_before_and_after_the_change(admin: Admin, change: dict[str, Any]) -> None:
    before = {"team": "a"} if change["labels"]["team"] is None else {"team": "b"}
    assert admin.ask("PATCH", "relayers/sepolia-1", {"labels": before}).status == 200
    protect(admin, "team", kinds=["relayer"], scope={"labels": {"team": "a"}})
    proposed(admin, "PATCH", "relayers/sepolia-1", change)
    assert admin.ask("PATCH", "networks/sepolia", {"native_symbol": "X"}).status == 200


def test_a_refused_change_is_refused_at_once(guarded: Admin) -> None:
    assert refusal(guarded.ask("DELETE", "networks/sepolia")) == (409, "Network is still used by relayer sepolia-1")
    long = guarded.ask("PATCH", f"relayers/sepolia-1?reason={'x' * 501}", {"name": "Other"})
    assert refusal(long) == (400, "reason must have at most 500 characters")
    assert guarded.get("proposals") == []


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_an_approval_against_a_change_in_between_says_what_changed(guarded: Admin) -> None:
    first = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "First"})
    document = {"networks": {"sepolia": {"network_type": "evm", "chain_id": 11155111, "native_symbol": "Y"}}}
    applied = proposed(guarded, "POST", "apply", {"document": document})
    for path, body in {"relayers/sepolia-1": {"name": "Forced"}, "networks/sepolia": {"native_symbol": "X"}}.items():
        forced = proposed(guarded, "PATCH", path, body)
        assert guarded.ask("POST", f"proposals/{forced}/force", {"reason": "now"}).status == 200
    approver = second(guarded)
    answers = [guarded.ask("POST", f"proposals/{each}/approve", token=approver) for each in (first, applied)]
    for answer, action, record in zip(
        answers, ("relayer.updated", "network.updated"), ("sepolia-1", "sepolia"), strict=True
    ):
        changes = [(each["actor"], each["action"], each["record"]) for each in answer.json["changes"]]
        assert (answer.status, changes[-1]) == (412, ("token:root", action, record))
        assert answer.json["records"] == [{"kind": action.partition(".")[0], "name": record}]
    states = {each["id"]: each["state"] for each in guarded.get("proposals")}
    assert (states[first], states[applied], relayer_name(guarded)) == ("open", "open", "Forced")


@pytest.mark.parametrize(
    ("method", "path", "body", "used"),
    [
        ("POST", "relayers", NEW, "signer"),
        ("PATCH", "relayers/sepolia-1", {"signer_id": "other"}, "signer"),
        ("PATCH", "relayers/sepolia-1", {"notification_id": "other"}, "notification"),
        ("POST", "apply", {"document": {"relayers": [NEW]}}, "signer"),
    ],
)
def test_an_approval_is_for_the_records_that_existed_when_the_change_was_proposed(
    guarded: Admin, method: str, path: str, body: Any, used: str
) -> None:
    """Not for others that have got their names since, with another key or another address."""
    signer: Any = {"id": "other", "type": "plain", "config": {"key": KEY}}
    receiver = {"id": "other", "type": "webhook", "url": "https://hooks.example.com/other"}
    made = {"signers": signer, "notifications": receiver}
    for kind, record in made.items():
        assert guarded.ask("POST", kind, record).status == 201
    before, proposal = guarded.get("relayers"), proposed(guarded, method, path, body)
    signer["config"], receiver["url"] = {"key": "0x" + "6f" * 32}, "https://elsewhere.example.com/"
    for kind, record in made.items():
        assert guarded.ask("DELETE", f"{kind}/other").status == 200
        assert guarded.ask("POST", kind, record).status == 201
    answer = guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded))
    changes = [(each["action"], each["record"]) for each in answer.json["changes"]]
    assert (answer.status, {(f"{used}.deleted", "other"), (f"{used}.created", "other")} <= {*changes}) == (412, True)
    assert (guarded.get("relayers"), guarded.get(f"proposals/{proposal}")["state"]) == (before, "open")


def test_an_approval_makes_what_the_proposal_shows_or_nothing(guarded: Admin) -> None:
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"policies": {"min_balance": 5}})
    shown = 'UPDATE proposals SET plan = replace(plan, \'"after":"5"\', \'"after":"6"\')'
    with opened(guarded.running.home) as store:
        run_statement(store.database, shown)
    assert guarded.get(f"proposals/{proposal}")["steps"][0]["fields"][0]["after"] == "6"
    answer = guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded))
    assert (answer.status, answer.json["records"]) == (412, [{"kind": "relayer", "name": "sepolia-1"}])
    assert guarded.get("relayers/sepolia-1")["policies"]["min_balance"] == 0


@pytest.mark.parametrize(
    ("path", "body"), [("relayers", NEW), ("apply", {"document": {"relayers": [NEW, NEW | {"name": "Newer"}]}})]
)
def test_a_relayer_without_an_id_is_proposed_and_created(guarded: Admin, path: str, body: Any) -> None:
    assert guarded.ask("POST", "signers", {"id": "other", "type": "plain", "config": {"key": KEY}}).status == 201
    proposal = proposed(guarded, "POST", path, body)
    assert guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded)).status == 200
    assert [each["name"] for each in guarded.get("relayers")][1:] == ["New", "Newer"][: 1 + (path == "apply")]


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_of_two_approvals_at_once_one_applies(guarded: Admin) -> None:
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"})
    tokens = [issue(guarded.running.home, f"approver {number}", "owner") for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        paths = [f"proposals/{proposal}/approve"] * len(tokens)
        answers = list(threads.map(lambda path, token: guarded.ask("POST", path, token=token), paths, tokens))
    assert sorted(each.status for each in answers) == [200] + [409] * 7
    audited = [each["action"] for each in guarded.audited()]
    assert (audited.count("change.applied"), audited.count("relayer.updated")) == (1, 1)


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_a_token_is_the_author_and_whom_the_author_made_and_who_made_the_author(guarded: Admin) -> None:
    made = token_of(guarded, "made", kind="owner")
    by_made = guarded.ask("POST", "tokens", {"name": "grandchild", "kind": "owner"}, token=made).json["data"]["token"]
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"})
    refused = [guarded.ask("POST", f"proposals/{proposal}/approve", token=each) for each in (made, by_made)]
    assert [refusal(each) for each in refused] == [(403, NEEDS_ANOTHER)] * 2
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"}, token=by_made)
    assert refusal(guarded.ask("POST", f"proposals/{proposal}/approve")) == (403, NEEDS_ANOTHER)


def test_the_old_secret_of_a_rotated_token_is_its_author(guarded: Admin) -> None:
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"})
    rotated = guarded.ask("POST", f"tokens/{OWNER}/rotate", {"overlap": "1h"}).json["data"]["token"]
    refused = [guarded.ask("POST", f"proposals/{proposal}/approve", token=each) for each in (None, rotated)]
    assert [refusal(each) for each in refused] == [(403, NEEDS_ANOTHER)] * 2


def test_an_editor_with_approve_decides_and_cannot_force(guarded: Admin) -> None:
    editor = issue(guarded.running.home, "editor", 'editor {"approve":true}')
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"})
    forced = guarded.ask("POST", f"proposals/{proposal}/force", {"reason": "x"}, token=editor)
    assert refusal(forced) == (403, "this needs a credential with the role owner")
    plain = guarded.ask("POST", f"proposals/{proposal}/approve", token=issue(guarded.running.home, "plain", "editor"))
    assert refusal(plain) == (403, "this needs a credential with the role owner, or a token made with --approve")
    rejected = guarded.ask("POST", f"proposals/{proposal}/reject", {"reason": "not today"}, token=editor)
    shown = rejected.json["data"]
    assert (shown["state"], shown["decided_by"], shown["decision"]) == ("rejected", "token:editor", "not today")
    again = guarded.ask("POST", f"proposals/{proposal}/force", {"reason": "x"})
    assert (refusal(again), relayer_name(guarded)) == ((409, "the proposal is rejected"), "Sepolia one")


def test_its_author_withdraws_a_proposal_and_nobody_else_does(guarded: Admin) -> None:
    editor = issue(guarded.running.home, "editor", "editor")
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1?reason=tidy", {"name": "Other"}, token=editor)
    path = f"proposals/{proposal}/withdraw"
    assert refusal(guarded.ask("POST", path)) == (403, "only its author can withdraw a proposal")
    shown = guarded.ask("POST", path, token=editor).json["data"]
    assert (shown["state"], shown["decided_by"], shown["decision"]) == ("withdrawn", "token:editor", "")
    assert actions(guarded, 1) == [("change.withdrawn", "token:editor")]
    facts = {"proposal_id": proposal, "operation": "update_relayer", "author": "token:editor", "actor": "token:editor"}
    assert guarded.get("events")[-1]["data"] == {"details": facts | {"reason": ""}}
    assert [each["id"] for each in guarded.get("proposals?state=withdrawn")] == [proposal]
    again = [guarded.ask("POST", path, token=editor), guarded.ask("POST", f"proposals/{proposal}/approve")]
    assert [refusal(each) for each in again] == [(409, "the proposal is withdrawn")] * 2
    with opened(guarded.running.home) as store:
        rows = store.database.read("SELECT id FROM proposals WHERE sealed_request IS NOT NULL")
    assert (rows, relayer_name(guarded)) == ([], "Sepolia one")


def test_an_owner_forces_a_change_and_everybody_hears_of_it(guarded: Admin) -> None:
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1?reason=halted", {"name": "Other"})
    assert guarded.ask("POST", f"proposals/{proposal}/force", {}).status == 400
    forced = guarded.ask("POST", f"proposals/{proposal}/force", {"reason": "nobody is awake"})
    assert (forced.json["data"]["state"], relayer_name(guarded)) == ("forced", "Other")
    assert actions(guarded, 2) == [("change.forced", "token:root"), ("relayer.updated", "token:root")]
    facts = {"proposal_id": proposal, "operation": "update_relayer", "author": "token:root", "actor": "token:root"}
    assert [(each["type"], each["data"]) for each in guarded.get("events")] == [
        ("change.proposed", {"details": facts | {"reason": "halted"}}),
        ("change.forced", {"details": facts | {"reason": "nobody is awake"}}),
    ]
    assert [each["notification_id"] for each in guarded.get("deliveries")] == ["pager", "pager"]


MINE = {"relayers": ["sepolia-1"]}


def test_scoped_credentials_propose_and_decide_nothing(guarded: Admin) -> None:
    scoped = token_of(guarded, "team", kind="editor", scope=MINE, approve=True)
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"}, token=scoped)
    calls: list[tuple[str, str, Any]] = [
        ("GET", "proposals", None),
        ("POST", f"proposals/{proposal}/approve", None),
        ("POST", f"proposals/{proposal}/reject", {"reason": "x"}),
        ("GET", "protections", None),
    ]
    assert [guarded.ask(*each, token=scoped).status for each in calls] == [403] * 4
    assert guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded)).status == 200
    assert relayer_name(guarded) == "Other"


def test_a_scoped_author_follows_and_withdraws_its_proposal(guarded: Admin) -> None:
    scoped = token_of(guarded, "team", kind="editor", scope=MINE)
    proposal = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Other"}, token=scoped)
    shown = guarded.ask("GET", f"proposals/{proposal}", token=scoped).json["data"]
    assert (shown["id"], shown["state"], shown["author"]) == (proposal, "open", "token:team")
    assert (shown["protections"], guarded.get(f"proposals/{proposal}")["protections"]) == ([], ["main"])
    rotated = guarded.ask("POST", "tokens/team/rotate", {"overlap": "1h"}).json["data"]["token"]
    seen = [guarded.ask("GET", f"proposals/{proposal}", token=each).json["data"] for each in (scoped, rotated)]
    assert seen == [shown, shown]
    withdrawn = guarded.ask("POST", f"proposals/{proposal}/withdraw", token=scoped).json["data"]
    assert (withdrawn["id"], withdrawn["state"]) == (proposal, "withdrawn")
    assert guarded.get("proposals?state=open") == []


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_a_proposal_of_another_is_as_unknown_to_a_scoped_credential(guarded: Admin) -> None:
    """Byte for byte, also to a token that got the name of the author with another scope."""
    author = token_of(guarded, "team", kind="editor", scope=MINE | {"networks": ["sepolia"]})
    name = "5e" * 16  # of the author's request
    made = guarded.ask("PATCH", "relayers/sepolia-1", {"name": name}, token=author).json["data"]["id"]
    guarded.ask("DELETE", "tokens/team")
    senders = [token_of(guarded, each, kind="editor", scope=MINE) for each in ("team", "other")]
    unknown = made[:-4] + "0000"
    for method, path in (("GET", "proposals/{}"), ("POST", "proposals/{}/withdraw")):
        for token in senders:
            answers = [
                guarded.ask(method, path.format(each), token=token, X_Request_Id="one") for each in (made, unknown)
            ]
            for each in answers:
                each.headers.pop("date", None)
            theirs, none = answers
            assert (theirs.status, theirs.headers) == (404, none.headers)
            assert theirs.body == none.body.replace(unknown.encode(), made.encode())
    assert guarded.get(f"proposals/{made}")["state"] == "open"


def test_a_scoped_author_gets_no_further_by_an_approval(guarded: Admin) -> None:
    scoped = token_of(guarded, "team", kind="editor", scope={"labels": {"team": "a"}})
    relayer = {"id": "new", "name": "New", "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    assert guarded.ask("POST", "relayers", relayer, token=scoped).status == 400  # outside, the network does not exist
    protect(guarded, "a", scope={"labels": {"team": "a"}})
    signer = {"id": "theirs", "type": "plain", "config": {"key": KEY}}
    proposal = proposed(guarded, "POST", "signers", signer, token=scoped)
    assert guarded.ask("POST", f"proposals/{proposal}/approve", token=second(guarded)).status == 200
    assert guarded.get("signers/theirs")["labels"] == {"team": "a"}


def test_secrets_of_a_proposal_are_sealed_and_never_shown(guarded: Admin) -> None:
    protect(guarded, "signers", kinds=["signer"])
    signer = {"id": "new", "type": "plain", "config": {"key": KEY}}
    document = {"signers": [{"id": "applied", "type": "plain", "config": {"key": {"env": "K"}}}]}
    references = [{"kind": "env", "name": "K", "value": KEY}]
    created = proposed(guarded, "POST", "signers", signer)
    applied = proposed(guarded, "POST", "apply", {"document": document, "references": references})
    shown = [guarded.ask("GET", path).body for path in ("proposals", f"proposals/{created}", "audit", "events")]
    assert [KEY.removeprefix("0x").encode() in each for each in shown] == [False] * 4
    stored = b"".join(each.read_bytes() for each in guarded.running.home.iterdir() if each.is_file())
    assert KEY.removeprefix("0x").encode() not in stored
    approver = second(guarded)
    assert guarded.ask("POST", f"proposals/{created}/reject", {"reason": "no"}, token=approver).status == 200
    assert guarded.ask("POST", f"proposals/{applied}/approve", token=approver).status == 200
    with opened(guarded.running.home) as store:
        rows = store.database.read("SELECT id FROM proposals WHERE sealed_request IS NOT NULL")
    assert (rows, [each["id"] for each in guarded.get("signers")]) == ([], ["ops", "applied"])


def test_a_repeated_request_is_one_proposal(guarded: Admin) -> None:
    signer = {"id": "new", "type": "plain", "config": {"key": KEY}}
    protect(guarded, "signers", kinds=["signer"])
    answers = [guarded.ask("POST", "signers", signer, Idempotency_Key="k") for _ in range(2)]
    assert [each.status for each in answers] == [202, 202]
    assert {each.json["data"]["id"] for each in answers} == {each["id"] for each in guarded.get("proposals")}


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_the_same_change_asked_for_again_is_the_open_proposal(guarded: Admin) -> None:
    """A pipeline that runs again, with the whole request of before, secrets included."""

    def creating(key: str) -> dict[str, Any]:
        return {"document": {"signers": [{"id": "new", "type": "plain", "config": {"key": key}}]}}

    protect(guarded, "signers", kinds=["signer"])
    path, request, third = "apply?reason=one", creating(KEY), issue(guarded.running.home, "third", "owner")
    answers = [guarded.ask("POST", path, request) for _ in range(2)]
    assert (answers[0].status, answers[0].json) == (answers[1].status, answers[1].json)
    first = answers[0].json["data"]["id"]
    entries = guarded.audited()
    assert proposed(guarded, "POST", path, request) == first
    assert guarded.audited() == entries
    others = {
        "the reason": proposed(guarded, "POST", "apply?reason=two", request),
        "the author": proposed(guarded, "POST", path, request, token=second(guarded)),
        "a secret": proposed(guarded, "POST", path, creating("0x" + "5f" * 32)),
    }
    assert guarded.ask("POST", f"proposals/{first}/reject", {"reason": "no"}, token=third).status == 200
    others["after the first was rejected"] = proposed(guarded, "POST", path, request)
    assert len({first, *others.values()}) == 5


def test_the_same_change_of_a_record_that_changed_since_is_another_proposal(guarded: Admin) -> None:
    change = ("PATCH", "relayers/sepolia-1", {"name": "Other"})
    first = proposed(guarded, *change)
    assert proposed(guarded, *change) == first
    forced = proposed(guarded, "PATCH", "relayers/sepolia-1", {"labels": {"team": "x"}})
    assert guarded.ask("POST", f"proposals/{forced}/force", {"reason": "now"}).status == 200
    assert proposed(guarded, *change) not in (first, forced)


def test_the_same_file_is_another_proposal_once_a_record_of_it_has_changed_and_changed_back(guarded: Admin) -> None:
    name = relayer_name(guarded)
    relayer = {"id": "sepolia-1", "name": "Other", "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    file = {"document": {"relayers": [relayer]}}
    first = proposed(guarded, "POST", "apply", file)
    assert proposed(guarded, "POST", "apply", file) == first
    for each in ("Another", name):
        change = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": each})
        assert guarded.ask("POST", f"proposals/{change}/force", {"reason": "now"}).status == 200
    assert proposed(guarded, "POST", "apply", file) != first


def test_what_is_too_large_for_a_proposal_is_refused(guarded: Admin) -> None:
    protect(guarded, "signers", kinds=["signer"])
    signers = [{"id": f"s{number}", "type": "plain", "config": {"key": KEY}} for number in range(1001)]
    answer = guarded.ask("POST", "apply", {"document": {"signers": signers}})
    assert refusal(answer) == (
        409,
        "the change needs approval, because records of it are protected, and is too large for a proposal: split it into"
        " documents of at most 1000 steps and 1048576 bytes",
    )


def test_the_number_of_open_proposals_is_bounded(guarded: Admin) -> None:
    """Those of an author too, so that the others can still propose."""
    authors = [issue(guarded.running.home, f"author {number}", "editor") for number in range(5)]
    for author in authors:
        for number in range(20):
            proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": f"Name {number}"}, token=author)
        answer = guarded.ask("PATCH", "relayers/sepolia-1", {"name": "Other"}, token=author)
        message = "20 of your changes wait for an approval already: withdraw some first"
        assert refusal(answer) == (409, message)
    answer = guarded.ask("PATCH", "relayers/sepolia-1", {"name": "Other"})
    message = "100 changes wait for an approval already: approve or reject some first"
    assert refusal(answer) == (409, message)


@pytest.mark.parametrize("home", ENGINES, indirect=True)
def test_an_expired_proposal_cannot_be_approved_and_its_request_is_erased(guarded: Admin) -> None:
    first = proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "First"})
    with opened(guarded.running.home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE proposals SET expires_at = created_at - 1")
    approver = second(guarded)
    answer = guarded.ask("POST", f"proposals/{first}/approve", token=approver)
    assert refusal(answer) == (409, "the proposal is expired")
    assert [each["id"] for each in guarded.get("proposals?state=expired")] == [first]
    proposed(guarded, "PATCH", "relayers/sepolia-1", {"name": "Second"})
    with opened(guarded.running.home) as store:
        rows = store.database.read("SELECT id FROM proposals WHERE sealed_request IS NULL")
    assert [row.id for row in rows] == [first]
    assert proposals.OPEN_SECONDS == 7 * 86_400


class _Services:
    """As a worker has them, on one store."""

    local_actor = ""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.urls = NO_RULES

    async def read(self, work: Callable[[Store], Any]) -> Any:
        with self._store.database.snapshot():
            return work(self._store)


@pytest.mark.parametrize("home", ENGINES, indirect=True)
async def test_a_proposal_that_expires_during_its_approval_is_not_applied(guarded: Admin) -> None:
    proposal = proposed(guarded, "PATCH", "signers/ops", {"labels": {"a": "b"}})
    with opened(guarded.running.home) as store:
        call = Call(proposal, {}, b"", b"", None)
        change: Any = await proposals.approve_proposal(
            cast(Services, _Services(store)), Request(call, APPROVE_PROPOSAL)
        )
        (row,) = store.database.read("SELECT expires_at FROM proposals")
        for now, outcome in ((row.expires_at, "the proposal is expired"), (row.expires_at - 1, "")):
            try:
                with store.database.transaction() as transaction:
                    change(ChangeContext(transaction, AuditLog(store.vault), "token:second", now))
                problem = ""
            except NotPossible as refusal:
                problem = refusal.reason
            assert problem == outcome
    assert guarded.get("signers/ops")["labels"] == {"a": "b"}


def test_the_client_raises_the_proposal(guarded: Admin) -> None:
    with Client(f"http://127.0.0.1:{guarded.running.port}", guarded.running.token) as client:
        with pytest.raises(ChangeProposed) as raised:
            client.admin.update_relayer("sepolia-1", name="Other", reason="tidy up")
        (found,) = client.admin.list_proposals()
        assert (raised.value.problem["id"], found.reason, found.state) == (found.id, "tidy up", "open")
        assert client.admin.replay_dead(notification_id="none").replayed == 0
