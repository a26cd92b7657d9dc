"""`apply`, `plan` and `export` with a scope: records outside of it are unknown to a file, and stay as they are."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.bounded_toml import parse_toml
from relaydeck.credentials.grants import Grant
from relaydeck.scope import OUTSIDE, SHARED_RECORD, Scope
from tests.admin.test_scope_leaks import KEY, fleet, only_inside
from tests.support.running import Answer, Running, ask, run_command
from tests.support.seeding import issue

LABELS, IDS = Scope(labels={"team": "a"}), Scope(relayers=("a-1", "a-2", "new"))
RELAYER = {"network": "net-a", "network_type": "evm", "signer_id": "sign-a", "name": "New"}
SIGNER = {"type": "plain", "config": {"key": KEY}}

NETWORK = {
    "network_type": "evm",
    "chain_id": 5,
    "native_symbol": "ETH",
    "rpc_urls": [{"url": "https://node.example/"}],
}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole fleet, and copies of it with what is inside a scope."""
    folder = tmp_path_factory.mktemp("applied")
    done = run_command(folder / "whole", "apply", "-", stdin=fleet())
    assert done.returncode == 0, done.stderr
    issue(folder / "whole", "root", "admin")
    return folder


class Team:
    """A service, as somebody with a scope uses it, and as an owner does."""

    def __init__(self, running: Running, token: str) -> None:
        self.running, self._token = running, token

    def apply(self, document: Any, *, revision: str = "", plan_only: bool = False, prune: bool = False) -> Answer:
        body = {"document": document, "plan_only": plan_only, "prune": prune}
        headers = {"If-Match": f'"{revision}"'} if revision else {}
        return ask(self.running.port, "POST", "/admin/v1/apply", body, token=self._token, headers=headers)

    def plan(self, document: Any, *, prune: bool = False) -> Any:
        answer = self.apply(document, plan_only=True, prune=prune)
        return answer.json["data"] if answer.status == 200 else answer.json["mistakes"]

    def steps(self, document: Any, *, prune: bool = False) -> list[tuple[str, str, str]]:
        return [(each["action"], each["kind"], each["name"]) for each in self.plan(document, prune=prune)["steps"]]

    def export(self) -> Any:
        answer = ask(self.running.port, "GET", "/admin/v1/export", token=self._token)
        return parse_toml(answer.json["data"]["toml"])

    def everything(self) -> str:
        """As an owner sees it."""
        toml: str = self.running.ask("GET", "/admin/v1/export").json["data"]["toml"]
        return toml


def team(homes: Path, home: Path, scope: Scope) -> Iterator[Team]:
    shutil.copytree(homes / "whole", home)
    token = issue(home, "limited", Grant(role="editor", scope=scope).stored)
    with Running(home, token=issue(home, "owner", "admin"), monitor_interval_seconds="0") as running:
        yield Team(running, token)


@pytest.fixture
def labelled(homes: Path, tmp_path: Path) -> Iterator[Team]:
    yield from team(homes, tmp_path / "home", LABELS)


@pytest.fixture
def numbered(homes: Path, tmp_path: Path) -> Iterator[Team]:
    yield from team(homes, tmp_path / "home", IDS)


def test_an_export_is_planned_without_a_step_and_names_nothing_outside(labelled: Team) -> None:
    exported = labelled.export()
    assert [each["id"] for each in exported["relayers"]] == ["a-1", "a-2", "a-3"]
    assert sorted(exported["networks"]) == ["both", "net-a"]
    for each in exported["signers"]:  # written as references
        each["config"] = {"key": KEY}
    assert labelled.steps(exported, prune=True) == []


def test_what_is_created_gets_the_labels_of_the_scope_and_keeps_them(labelled: Team) -> None:
    document: Any = {
        "networks": {"net-new": NETWORK},
        "signers": [{"id": "sign-new", **SIGNER}],
        "notifications": [{"id": "hook-new", "type": "webhook", "url": "https://new.example/"}],
        "relayers": [{"id": "new", **RELAYER, "network": "net-new", "signer_id": "sign-new", "labels": {"env": "x"}}],
    }
    plan = labelled.plan(document)
    assert len(plan["steps"]) == 4
    done = labelled.apply(document, revision=plan["revision"])
    assert done.status == 200, done.json
    for path in ("networks/net-new", "signers/sign-new", "notifications/hook-new"):
        assert labelled.running.ask("GET", f"/admin/v1/{path}").json["data"]["labels"] == {"team": "a"}
    stored = labelled.running.ask("GET", "/admin/v1/relayers/new").json["data"]["labels"]
    assert stored == {"team": "a", "env": "x"}
    assert labelled.steps(document) == []


@pytest.mark.parametrize(
    ("document", "place", "problem"),
    [
        ({"relayers": [{"id": "n", **RELAYER, "network": "net-b"}]}, "relayers[0].network", "there is no such network"),
        ({"relayers": [{"id": "n", **RELAYER, "signer_id": "sign-b"}]}, "relayers[0].signer_id", "there is no such"),
        ({"relayers": [{"id": "a-1", **RELAYER, "labels": {"team": "b"}}]}, "relayers[0]", OUTSIDE),
        ({"signers": [{"id": "n", **SIGNER, "labels": {"team": "b"}}]}, "signers[0]", OUTSIDE),
        (
            {"networks": {"both": NETWORK}},
            "networks.both",
            SHARED_RECORD,
        ),
    ],
)
def test_what_is_refused_names_its_place(labelled: Team, document: Any, place: str, problem: str) -> None:
    before = labelled.everything()
    mistakes = labelled.plan(document)
    assert [(each["place"], each["problem"].startswith(problem)) for each in mistakes] == [(place, True)]
    assert labelled.apply(document).status == 400
    assert labelled.everything() == before


def test_a_relayer_outside_is_planned_as_unknown_and_never_changed(labelled: Team) -> None:
    document = {"relayers": [{"id": "b-1", **RELAYER}]}
    assert labelled.steps(document) == [("create", "relayer", "b-1")]
    before = labelled.everything()
    refused = labelled.apply(document)
    assert (refused.status, refused.json["detail"]) == (409, "the relayer 'b-1' cannot be created: its id is taken")
    assert labelled.everything() == before


def test_pruning_removes_only_what_is_inside(labelled: Team) -> None:
    assert labelled.steps({}, prune=True) == [
        *(("remove", "relayer", f"a-{number}") for number in (1, 2, 3)),
        ("remove", "signer", "sign-a"),
        ("remove", "network", "net-a"),
    ]
    assert labelled.apply({}, prune=True).status == 200
    left = parse_toml(labelled.everything())
    assert [each["id"] for each in left["relayers"]] == ["b-1", "b-2", "b-3"]
    assert [each["id"] for each in left["notifications"]] == ["hook-a", "hook-b", "hook-both"]
    assert [each["id"] for each in left["signers"]] == ["sign-b", "sign-both"]
    assert sorted(left["networks"]) == ["both", "net-b"]


def test_pruning_does_not_remove_what_a_relayer_outside_uses(labelled: Team) -> None:
    used = labelled.running.ask("PATCH", "/admin/v1/relayers/b-1", {"signer_id": "sign-a"})
    assert used.status == 200
    (mistake,) = labelled.plan({}, prune=True)
    assert mistake["problem"] == "the signer 'sign-a' cannot be removed: another relayer refers to it"


def test_a_scope_of_ids_prunes_relayers_alone_and_creates_only_its_own(numbered: Team) -> None:
    kept = {"relayers": [{"id": "new", **RELAYER, "name": "Kept"}]}
    assert numbered.steps(kept, prune=True) == [
        ("create", "relayer", "new"),
        *(("remove", "relayer", f"a-{number}") for number in (1, 2)),
    ]
    assert numbered.apply(kept, prune=True).status == 200
    (mistake,) = numbered.plan({"relayers": [{"id": "other", **RELAYER}]})
    assert mistake == {"place": "relayers[0]", "problem": OUTSIDE}
    (mistake,) = numbered.plan({"signers": [{"id": "other", **SIGNER}]})
    assert mistake == {"place": "signers[0]", "problem": OUTSIDE}


def test_a_plan_that_was_pinned_outlives_changes_outside_and_no_change_inside(labelled: Team) -> None:
    document = {"relayers": [{"id": "new", **RELAYER}], "signers": [{"id": "s", **SIGNER}]}
    pinned = labelled.plan(document)["revision"]
    assert labelled.running.ask("DELETE", "/admin/v1/relayers/b-1").status == 200
    body = {"id": "new", **RELAYER, "labels": {"team": "a"}, "notification_id": "hook-a"}
    assert labelled.running.ask("POST", "/admin/v1/relayers", body).status == 201
    refused = labelled.apply(document, revision=pinned)
    assert refused.status == 412
    assert [each["record"] for each in refused.json["changes"]] == ["new"]
    again = labelled.plan(document)["revision"]
    assert labelled.running.ask("DELETE", "/admin/v1/relayers/b-2").status == 200
    assert labelled.apply(document, revision=again).status == 200


@pytest.mark.parametrize("scope", [LABELS, IDS], ids=["labels", "ids"])
def test_a_plan_is_that_of_a_fleet_without_the_rest(homes: Path, tmp_path: Path, scope: Scope) -> None:
    documents: list[Any] = [
        {},
        {"relayers": [{"id": "b-1", **RELAYER}, {**RELAYER, "name": "One"}]},
        {"relayers": [{"id": "new", **RELAYER, "network": "net-b"}]},
        {"networks": {"net-b": NETWORK}},
        {"signers": [{"id": "sign-b", **SIGNER, "labels": {"team": "a"}}]},
        {"notifications": [{"id": "hook-b", "type": "webhook", "url": "https://x.example/"}]},
    ]
    copy, found = only_inside(homes / "whole", scope, tmp_path / "inside"), []
    shutil.copytree(homes / "whole", tmp_path / "whole")
    for home in (tmp_path / "whole", copy):
        token = issue(home, "limited", Grant(role="editor", scope=scope).stored)
        with Running(home, token=token) as running:
            asked = Team(running, token)
            answers = [
                asked.apply(each, plan_only=True, prune=prune).json for each in documents for prune in (True, False)
            ]
            for each in answers:
                each.pop("instance", None)
                each.get("data", {}).pop("revision", None)
            found.append(answers)
    assert found[0] == found[1]


def test_a_proposal_of_a_scoped_author_is_made_within_the_scope(labelled: Team) -> None:
    protected = {"name": "relayers", "kinds": ["relayer"], "note": "two"}
    assert labelled.running.ask("POST", "/admin/v1/protections", protected).status == 201
    proposed = labelled.apply({"relayers": [{"id": "new", **RELAYER}]})
    assert proposed.status == 202
    approved = labelled.running.ask("POST", f"/admin/v1/proposals/{proposed.json['data']['id']}/approve")
    assert (approved.status, approved.json["data"]["state"]) == (200, "applied")
    assert labelled.running.ask("GET", "/admin/v1/relayers/new").json["data"]["labels"] == {"team": "a"}
    taken = labelled.apply({"relayers": [{"id": "b-1", **RELAYER}]})
    assert (taken.status, taken.json["detail"]) == (409, "the relayer 'b-1' cannot be created: its id is taken")
