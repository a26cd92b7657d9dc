"""What a closed protection hides from applications, in each of the five operations and the console, until it ends."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.admin.conftest import Admin, refusal
from tests.admin.test_limited_tokens import token_of
from tests.console.conftest import Operator, plain
from tests.support.issuer import TestIssuer, serving_issuer
from tests.support.places import ENGINES, choose
from tests.support.postgres import PostgresServer
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue

TEAM_A = {"labels": {"team": "a"}}
MAIN = {"networks": ["main"]}
URL = {"url": "https://changed.example/"}
RELAYERS, SIGNERS = ["main-1", "side-1", "side-2"], ["key-main", "key-side", "key-free"]
HOOKS = ["hook-main", "hook-side", "hook-free"]
NETWORK = """
[networks.{name}]
network_type = "evm"
chain_id = 1
native_symbol = "ETH"
rpc_urls = [{{ url = "http://127.0.0.1:9/" }}]
[[signers]]
id = "key-{name}"
type = "plain"
config = {{ key = "0x4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c" }}
[[notifications]]
id = "hook-{name}"
type = "webhook"
url = "https://{name}.example/"
labels = {{ team = "{team}" }}
"""
RELAYER = """
[[relayers]]
id = "{network}-{number}"
name = "One"
network = "{network}"
network_type = "evm"
signer_id = "key-{network}"
notification_id = "hook-{network}"
labels = {{ team = "{team}" }}
"""
FREE = NETWORK.partition("[[signers]]")
FLEET = (
    NETWORK.format(name="main", team="a")
    + NETWORK.format(name="side", team="b")
    + (FREE[1] + FREE[2]).format(name="free", team="b")
    + RELAYER.format(network="main", number=1, team="a")
    + RELAYER.format(network="side", number=1, team="b")
    + RELAYER.format(network="side", number=2, team="a")
)


class Seen(NamedTuple):
    """The ids of the relayers and signers that a credential sees, and of the notifications that it may change."""

    relayers: list[str]
    signers: list[str]
    hooks: list[str]

    def without(self, *gone: str) -> "Seen":
        return Seen(*([each for each in names if each not in gone] for names in self))


ON_PAGES = {"relayers": RELAYERS, "signers": SIGNERS, "notifications": HOOKS}
# Pages of the console about several records.
LISTS = (
    *("", "/relayers", "/relayers/csv", "/signers", "/notifications", "/networks", "/runway", "/events", "/audit"),
    *("/deliveries", "/find?text=main", "/find?text=side", "/estimate"),
)
ALL = Seen(RELAYERS, SIGNERS, HOOKS)
OF_TEAM_A = Seen(["main-1", "side-2"], ["key-main", "key-side"], ["hook-main"])
# By name: the protection, and what it covers.
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a network": ({"scope": MAIN}, ("main-1", "key-main", "hook-main")),
    "a label": ({"scope": TEAM_A}, ("main-1", "side-2", "key-main", "key-side", "hook-main", "hook-side")),
    "relayers of a network": ({"scope": MAIN, "kinds": ["relayer"]}, ("main-1",)),
    "notifications of a network": ({"scope": MAIN, "kinds": ["notification"]}, ("hook-main",)),
    "every signer": ({"kinds": ["signer"]}, tuple(SIGNERS)),
    "everything": ({}, (*RELAYERS, *SIGNERS, *HOOKS)),
}
FindToken = Callable[[Admin, TestIssuer], str]
# By name: what makes the credential, and what it sees before.
APPLICATIONS: dict[str, tuple[FindToken, Seen]] = {
    "api": (lambda admin, _: token_of(admin, "api", kind="api"), ALL),
    "readonly": (lambda admin, _: token_of(admin, "readonly", kind="readonly"), ALL),
    "api with a scope": (lambda admin, _: token_of(admin, "scoped", kind="api", scope=TEAM_A), OF_TEAM_A),
    "a workload": (lambda _, issuer: issuer.token(sub="app"), ALL),
    "a workload with a scope": (lambda _, issuer: issuer.token(sub="team-a"), OF_TEAM_A),
}


class Scene(NamedTuple):
    admin: Admin
    tokens: dict[str, str]
    owner: str
    operator: Operator  # signed in to the console with the token `readonly`

    def ask(self, who: str, method: str, path: str, body: Any = None) -> Answer:
        return self.admin.running.ask(method, f"/api/v1/{path}", body, token=self.tokens[who])

    def listed(self, who: str, table: str) -> list[str]:
        answer = self.ask(who, "GET", f"{table}?per_page=100").json
        assert answer["pagination"]["total_items"] == len(answer["data"])
        return [each["id"] for each in answer["data"]]

    def calls(self, who: str, name: str) -> Answer:
        body = {"jsonrpc": "2.0", "method": "none", "params": {}, "id": 1}
        return self.ask(who, "POST", f"relayers/{name}/rpc", body)

    def changes(self, who: str, name: str) -> Answer:
        return self.ask(who, "PATCH", f"notifications/{name}", URL)

    def seen(self, who: str) -> Seen:
        """What the lists show and the other operations find; what is not found has the answer of an unknown id."""
        relayers, signers = (self.listed(who, table) for table in ("relayers", "signers"))
        if who == "readonly":
            return self.seen_on_pages(relayers, signers)
        assert relayers == [name for name in RELAYERS if is_found(self.calls, who, name)]
        return Seen(relayers, signers, [name for name in HOOKS if is_found(self.changes, who, name)])

    def seen_on_pages(self, relayers: list[str], signers: list[str]) -> Seen:
        """What the lists show, and the notifications that have a page: in the console, nothing else exists."""
        found = [[name for name in names if is_found(self.page, kind, name)] for kind, names in ON_PAGES.items()]
        assert found[:2] == [relayers, signers]
        for path in LISTS:
            answer = self.operator.get(path)
            assert answer.status == 200, path
            assert [each for each in RELAYERS if each not in relayers and each in plain(answer)] == [], path
        return Seen(*found)

    def page(self, kind: str, name: str) -> Answer:
        """Without the revision, with which another write may go on."""
        found = self.operator.get(f"/{kind}/{name}")
        return found._replace(body=re.sub(rb'data-revision="\d+"', b"", found.body))

    def made(self, method: str, path: str, body: Any = None) -> None:
        """A change, whether it needs an approval or not."""
        answer = self.admin.ask(method, path, body)
        assert answer.status in (200, 201, 202), answer.body
        if answer.status == 202:
            force = self.admin.ask("POST", f"proposals/{answer.json['data']['id']}/force", {"reason": "a test"})
            assert force.status == 200, force.body

    @contextmanager
    def closed(self, **given: Any) -> Iterator[None]:
        self.made("POST", "protections", {"name": "closed", "closed": True, **given})
        try:
            yield
        finally:
            self.made("DELETE", "protections/closed")


def is_found(ask: Callable[[str, str], Answer], who: str, name: str) -> bool:
    answer = ask(who, name)
    if answer.status == 200:
        return True
    unknown = ask(who, "nobody")
    assert (answer.status, answer.body.replace(name.encode(), b"nobody")) == (404, unknown.body)
    assert answer.headers.get("relaydeck-reason") == unknown.headers.get("relaydeck-reason")
    return False


@pytest.fixture(scope="module", params=ENGINES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A service with two workers: new connections reach either."""
    home: Path = tmp_path_factory.mktemp("closed") / "home"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        choose(home, server.url(server.fresh()))
    done = run_command(home, "apply", "-", stdin=FLEET)
    assert done.returncode == 0, done.stderr
    owner = issue(home, "root", "owner")
    with serving_issuer() as issuer:
        rules = [
            {"claims": {"sub": "app"}, "role": "api"},
            {"claims": {"sub": "team-a"}, "role": "api", "scope": TEAM_A},
        ]
        issuers = json.dumps([issuer.settings(rules=rules)])
        settings = {"monitor_interval_seconds": "0", "rate_limit_per_second": "0", "issuers": issuers}
        with Running(home, "--workers", "2", token=owner, **settings) as running:
            admin = Admin(running)
            tokens = {who: make(admin, issuer) for who, (make, _) in APPLICATIONS.items()}
            yield Scene(admin, tokens, owner, Operator(running.port).sign_in(tokens["readonly"]))


@pytest.mark.parametrize("who", APPLICATIONS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_closed_is_outside_of_every_operation_until_the_protection_ends(
    scene: Scene, case: str, who: str
) -> None:
    before = APPLICATIONS[who][1]
    given, covered = CASES[case]
    assert scene.seen(who) == before
    with scene.closed(**given):
        assert scene.seen(who) == before.without(*covered)
    assert scene.seen(who) == before


@pytest.mark.parametrize("case", CASES)
def test_a_network_has_a_page_while_a_relayer_that_is_open_works_on_it(scene: Scene, case: str) -> None:
    closed = {"a network": {"main"}, "a label": {"main"}, "everything": {"main", "side"}}.get(case, set())
    with scene.closed(**CASES[case][0]):
        found = {each: scene.page("networks", each).status for each in ("main", "side")}
    assert found == {each: 404 if each in closed else 200 for each in found}


def test_a_session_of_an_application_has_no_page_about_the_whole_service_while_records_are_closed(scene: Scene) -> None:
    paths, found = ("/tokens", "/health", "/proposals"), []
    with scene.closed(scope=MAIN):
        found += [scene.operator.get(path).status for path in paths]
        menu = scene.operator.text("")
    found += [scene.operator.get(path).status for path in paths]
    assert found == [403, 403, 403, 200, 200, 200]
    assert not any(f'href="/console{path}"' in menu for path in paths)


def test_a_protection_that_is_not_closed_hides_nothing(scene: Scene) -> None:
    with scene.closed(closed=False):
        assert scene.seen("api") == ALL


def test_two_closed_protections_hide_what_either_covers(scene: Scene) -> None:
    with scene.closed(scope=MAIN):
        scene.made("POST", "protections", {"name": "other", "closed": True, "scope": {"relayers": ["side-1"]}})
        assert scene.seen("api") == Seen(["side-2"], ["key-free"], ["hook-free"])
        scene.made("DELETE", "protections/other")
        assert scene.seen("api") == ALL.without("main-1", "key-main", "hook-main")


@pytest.mark.parametrize("role", ["viewer", "operator", "editor", "owner"])
def test_other_roles_see_what_is_closed(scene: Scene, role: str) -> None:
    scene.tokens[role] = token_of(scene.admin, f"{role} {id(scene)}", kind=role)
    with scene.closed():
        assert (scene.listed(role, "relayers"), scene.listed(role, "signers")) == (RELAYERS, SIGNERS)


def test_a_token_of_an_application_that_may_approve_still_decides(scene: Scene) -> None:
    token = token_of(scene.admin, "approver", kind="api", approve=True)
    with scene.closed():
        answer = scene.admin.ask("POST", "proposals/none/approve", token=token)
    assert refusal(answer) == (404, "Proposal not found")


def test_lists_follow_a_relayer_that_moves_in_and_out(scene: Scene) -> None:
    with scene.closed(scope={"labels": {"team": "c"}}):
        assert scene.seen("api") == ALL
        scene.made("PATCH", "relayers/side-1", {"labels": {"team": "c"}})
        assert scene.seen("api") == ALL.without("side-1", "key-side", "hook-side")
        scene.made("PATCH", "relayers/side-1", {"labels": {"team": "b"}})
        assert scene.seen("api") == ALL


def test_each_worker_follows_at_once(scene: Scene) -> None:
    for _ in range(5):
        assert [scene.listed("api", "relayers") for _ in range(6)] == [RELAYERS] * 6
        with scene.closed(scope=MAIN):
            assert [scene.listed("api", "relayers") for _ in range(6)] == [["side-1", "side-2"]] * 6
            assert [scene.calls("a workload", "main-1").status for _ in range(6)] == [404] * 6


def test_pages_of_what_is_open(scene: Scene) -> None:
    with scene.closed(scope={"relayers": ["side-1"]}, kinds=["relayer"]):
        pages = [scene.ask("api", "GET", f"relayers?page={page}&per_page=1").json for page in (1, 2, 3)]
    assert [[each["id"] for each in page["data"]] for page in pages] == [["main-1"], ["side-2"], []]
    assert {page["pagination"]["total_items"] for page in pages} == {2}


def creates(scene: Scene, who: str, name: str) -> Answer:
    return scene.ask(who, "POST", "signers", {"id": name, "type": "plain", "config": {"key": "11" * 32}})


def test_the_id_of_a_closed_signer_is_taken_as_that_of_another(scene: Scene) -> None:
    with scene.closed(scope=MAIN):
        closed, seen = creates(scene, "api", "key-main"), creates(scene, "api", "key-free")
    assert (closed.status, closed.body) == (409, seen.body)


@pytest.mark.parametrize(
    ("given", "who", "status"),
    [
        ({"scope": MAIN}, "api", 201),
        ({"scope": TEAM_A}, "api", 201),
        ({"scope": TEAM_A}, "api with a scope", 401),
        ({"scope": TEAM_A, "kinds": ["relayer"]}, "api with a scope", 201),
        ({}, "a workload", 401),
    ],
)
def test_an_application_creates_no_signer_that_would_be_closed(
    scene: Scene, given: dict[str, Any], who: str, status: int
) -> None:
    with scene.closed(**given):
        answer = creates(scene, who, "new")
    if answer.status == 201:
        assert scene.admin.ask("DELETE", "signers/new").status == 200
    assert answer.status == status


def test_the_protection_and_its_audit_entries_say_that_it_is_closed(scene: Scene) -> None:
    with scene.closed(scope=MAIN, note="funds"):
        (shown,) = scene.admin.get("protections")
    fields = {"kinds": [], "scope": MAIN, "note": "funds", "closed": True}
    assert shown == {"name": "closed", **fields, "made_by": "token:root"}
    entries = [each for each in scene.admin.audited() if each["action"].startswith("protection.")][-2:]
    assert [(each["action"], each["before"], each["after"]) for each in entries] == [
        ("protection.created", None, fields),
        ("protection.deleted", fields, dict.fromkeys(fields)),
    ]


def test_the_command_closes_records_and_lists_that(scene: Scene) -> None:
    run = partial(run_command, scene.admin.running.home)
    assert run("protection", "create", "closed", "--network", "main", "--closed").returncode == 0
    (shown,) = json.loads(run("protection", "list", "--json").stdout)
    seen = scene.listed("api", "relayers")
    scene.made("DELETE", "protections/closed")
    assert (shown["closed"], seen) == (True, ["side-1", "side-2"])
