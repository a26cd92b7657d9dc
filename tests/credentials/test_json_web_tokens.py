"""JSON Web Tokens of workloads as bearer credentials: which are accepted, and what forged ones meet."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from relaydeck.credential import Unverified
from relaydeck.credentials import json_web_tokens
from relaydeck.credentials.json_web_tokens import MOST_KNOWN, TrustedIssuer, WorkloadCredential, Workloads
from relaydeck.errors import Unauthorized
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.scope import Scope
from relaydeck.settings.issuers import Issuer
from tests.support.issuer import AUDIENCE, SUBJECT, TestIssuer, encoded, new_key, public, serving_issuer
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import fill, issue, relayer

RULE_OF_TEAM_A = {"claims": {"sub": "team-a"}, "role": "editor", "scope": {"labels": {"team": "a"}}}


class Scene(NamedTuple):
    issuer: TestIssuer
    workloads: Workloads
    clock: list[float]
    reports: list[tuple[str, str]]

    async def accept(self, token: str) -> WorkloadCredential:
        try:
            return self.workloads.find(token.encode(), self.clock[0])
        except Unverified as unverified:
            found = await unverified.verify()
            assert isinstance(found, WorkloadCredential)
            return found

    async def refusal(self, token: str) -> str:
        with pytest.raises(Unauthorized) as refused:
            await self.accept(token)
        return refused.value.reason


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    with serving_issuer() as found:
        yield found


@pytest.fixture
async def scene(issuer: TestIssuer) -> AsyncIterator[Scene]:
    async with opened(issuer) as found:
        yield found


@asynccontextmanager
async def opened(issuer: TestIssuer, **settings: Any) -> AsyncIterator[Scene]:
    clock, reports = [time.time()], list[tuple[str, str]]()
    given = msgspec.convert(issuer.settings(**settings), Issuer)
    trusted = TrustedIssuer(given, lambda name, problem: reports.append((name, problem)), lambda: clock[0])
    workloads = Workloads([trusted], lambda: clock[0])
    yield Scene(issuer, workloads, clock, reports)
    await workloads.close()


async def test_a_token_of_a_trusted_issuer_has_the_role_of_its_rule(scene: Scene) -> None:
    token = scene.issuer.token()
    found = await scene.accept(token)
    assert (found.actor, found.role, found.rule) == (f"workload:ci:{SUBJECT}", "admin", f"ci: sub = {SUBJECT}")
    assert found.expires_at == jwt.decode(token, options={"verify_signature": False})["exp"]


async def test_a_token_has_the_scope_of_its_rule(issuer: TestIssuer) -> None:
    async with opened(issuer, rules=[RULE_OF_TEAM_A, *issuer.settings()["rules"]]) as scene:
        found = [(await scene.accept(issuer.token(sub=each))).scope for each in ("team-a", SUBJECT)]
    assert found == [Scope(labels={"team": "a"}), None]


async def test_a_token_is_verified_once_and_remembered(scene: Scene) -> None:
    token = scene.issuer.token()
    assert await scene.accept(token) is scene.workloads.find(token.encode(), scene.clock[0])


async def test_a_remembered_token_is_verified_again_with_the_keys_of_now(scene: Scene) -> None:
    token = scene.issuer.token(exp=int(time.time()) + 86_400)
    await scene.accept(token)
    scene.issuer.rotate("second")
    scene.clock[0] += 901
    assert await scene.refusal(token) == "the key that signed the JSON Web Token is not known"


async def test_a_worker_remembers_a_bounded_number_of_tokens(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_web_tokens, "MOST_KNOWN", 3)
    tokens = [scene.issuer.token(jti=str(number)) for number in range(5)]
    for token in tokens:
        await scene.accept(token)
    known = []
    for token in tokens:
        try:
            known.append(scene.workloads.find(token.encode(), scene.clock[0]).name)
        except Unverified:
            known.append("")
    assert ([bool(each) for each in known], MOST_KNOWN) == ([False, False, True, True, True], 4096)


async def test_a_subject_has_one_bucket_whatever_tokens_it_shows(scene: Scene, tmp_path: Any) -> None:
    one, other = await scene.accept(scene.issuer.token()), await scene.accept(scene.issuer.token(jti="other"))
    listing = await scene.accept(scene.issuer.token(sub="lister"))
    limiter = RateLimiter(tmp_path / "limits", 1, 1, nanoseconds=lambda: 1)
    assert (one.digest, one.seq) == (other.digest, other.seq)
    assert [limiter.take(each.seq)[0] for each in (one, other, listing)] == [True, False, True]


# Attacks


async def test_alg_none_is_refused(scene: Scene) -> None:
    token = scene.issuer.signed_by_hand({"alg": "none", "kid": "first"}, None)
    assert await scene.refusal(token) == "the JSON Web Token is signed with an algorithm that its issuer may not use"


@pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo])
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
async def test_hmac_with_the_public_key_is_refused(scene: Scene, encoding: Encoding, form: PublicFormat) -> None:
    secret = scene.issuer.key.public_key().public_bytes(encoding, form)
    token = scene.issuer.signed_by_hand({"alg": "HS256", "kid": "first"}, secret)
    assert await scene.refusal(token) == "the JSON Web Token is signed with an algorithm that its issuer may not use"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"aud": "https://other.example.com"}, "the JSON Web Token is for another audience"),
        ({"aud": None}, "the JSON Web Token lacks one of the claims iss, aud, exp and iat"),
        ({"iss": "https://other.example.com"}, "no issuer of the settings made the JSON Web Token"),
        ({"exp": 1}, "the JSON Web Token has expired"),
        ({"exp": None}, "the JSON Web Token lacks one of the claims iss, aud, exp and iat"),
        ({"nbf": int(time.time()) + 9000}, "the JSON Web Token is not valid yet"),
        ({"iat": int(time.time()) + 9000}, "the JSON Web Token is not valid yet"),
        ({"sub": "a\nb"}, "the JSON Web Token has no usable subject"),
        ({"sub": None}, "the JSON Web Token has no usable subject"),
        ({"sub": "x" * 256}, "the JSON Web Token has no usable subject"),
        ({"sub": f"{SUBJECT} via token:owner"}, "the subject of the JSON Web Token is one that a token could have"),
        ({"sub": "repo:acme/infra:ref:refs/heads/main2"}, "no rule of its issuer gives the JSON Web Token a role"),
        ({"sub": SUBJECT.upper()}, "no rule of its issuer gives the JSON Web Token a role"),
        ({"pad": "x" * 9000}, "the JSON Web Token has more than 8192 bytes"),
    ],
)
async def test_a_token_with_wrong_claims_is_refused(scene: Scene, changed: dict[str, Any], reason: str) -> None:
    assert await scene.refusal(scene.issuer.token(**changed)) == reason


async def test_a_token_with_a_changed_claim_is_refused(scene: Scene) -> None:
    head, _, signature = scene.issuer.token().split(".")
    body = encoded(scene.issuer.claims(extra=1)).decode()
    assert await scene.refusal(f"{head}.{body}.{signature}") == "the signature of the JSON Web Token does not hold"


@pytest.mark.parametrize("header", ["jku", "x5u"])
async def test_a_key_at_an_address_in_the_token_is_not_read(scene: Scene, header: str) -> None:
    theirs = new_key()
    scene.issuer.answers["/theirs"] = json.dumps({"keys": [public("first", theirs)]}).encode()
    given = {"kid": "first", header: f"{scene.issuer.url}/theirs"}
    token = jwt.encode(scene.issuer.claims(), theirs, "ES256", headers=given)
    assert await scene.refusal(token) == "the signature of the JSON Web Token does not hold"
    assert "/theirs" not in scene.issuer.reads


async def test_a_key_in_the_token_is_not_used(scene: Scene) -> None:
    theirs = new_key()
    token = jwt.encode(scene.issuer.claims(), theirs, "ES256", headers={"kid": "first", "jwk": public("first", theirs)})
    assert await scene.refusal(token) == "the signature of the JSON Web Token does not hold"


@pytest.mark.parametrize("seconds", [10**15, 10**300, 10**400])
async def test_a_token_that_ends_in_no_year_is_refused(scene: Scene, seconds: int) -> None:
    assert await scene.refusal(scene.issuer.token(exp=seconds)) == "the JSON Web Token ends after the year 9999"


@pytest.mark.parametrize("typ", ["logout+jwt", "Application/Logout+JWT"])
async def test_a_logout_token_is_no_credential(scene: Scene, typ: str) -> None:
    token = scene.issuer.token(headers={"typ": typ})
    assert await scene.refusal(token) == "the JSON Web Token is of another type"


@pytest.mark.parametrize("token", ["eyJ", "eyJ.eyJ.", "eyJ" * 2000, "eyJhIjog" + "W1tb" * 1500 + ".e30.x", "eyJ.ü.x"])
async def test_what_is_no_token_is_refused(scene: Scene, token: str) -> None:
    assert await scene.refusal(token) == "the credential is not a JSON Web Token"


# Keys


async def test_a_new_key_is_read_when_a_token_names_it(scene: Scene) -> None:
    await scene.accept(scene.issuer.token())
    scene.issuer.rotate("second")
    scene.clock[0] += 11
    assert (await scene.accept(scene.issuer.token())).role == "admin"


async def test_a_flood_of_unknown_keys_reads_them_once(scene: Scene) -> None:
    await scene.accept(scene.issuer.token())
    scene.issuer.reads.clear()
    scene.clock[0] += 11
    reasons = {await scene.refusal(scene.issuer.token(headers={"kid": str(number)})) for number in range(50)}
    assert reasons == {"the key that signed the JSON Web Token is not known"}
    assert scene.issuer.reads == ["/.well-known/openid-configuration", "/keys"]


async def test_what_an_issuer_says_about_itself_is_asked_once_for_all_who_wait(issuer: TestIssuer) -> None:
    """Strangers ask for it, when they begin to sign in."""
    trusted = TrustedIssuer(msgspec.convert(issuer.settings(), Issuer), lambda _name, _problem: None)
    found = await asyncio.gather(*(trusted.metadata() for _ in range(20)))
    assert {each.issuer for each in found} == {issuer.url}
    assert issuer.reads == ["/.well-known/openid-configuration"]
    await trusted.close()


async def test_known_keys_go_on_for_a_day_while_the_issuer_is_down(scene: Scene) -> None:
    token = scene.issuer.token(exp=int(time.time()) + 200_000)
    await scene.accept(token)
    scene.issuer.answers["/keys"] = 503
    scene.clock[0] += 86_000
    assert (await scene.accept(token)).role == "admin"
    scene.clock[0] += 1_000
    assert await scene.refusal(token) == "the key that signed the JSON Web Token is not known"
    assert set(scene.reports) == {("ci", ""), ("ci", "it answered HTTP 503")}


@pytest.mark.parametrize(
    ("path", "answer", "problem"),
    [
        ("/keys", b'{"keys":[]}' + b" " * 300_000, "its answer has more than 262144 bytes"),
        ("/keys", json.dumps({"keys": [{}] * 65}).encode(), "it has more than 64 keys"),
        ("/keys", b"[" * 100_000, "its answer is not what OpenID Connect describes"),
        ("/keys", 302, "it answered HTTP 302"),
        (
            "/.well-known/openid-configuration",
            b'{"issuer":"https://evil.example","jwks_uri":"https://evil.example/keys"}',
            "its discovery document names another issuer",
        ),
    ],
)
async def test_a_hostile_issuer_is_bounded(scene: Scene, path: str, answer: bytes | int, problem: str) -> None:
    scene.issuer.answers[path] = answer
    assert await scene.refusal(scene.issuer.token()) == "the key that signed the JSON Web Token is not known"
    assert scene.reports == [("ci", problem)]
    assert "/elsewhere" not in scene.issuer.reads


async def test_an_issuer_at_a_private_address_needs_permission(issuer: TestIssuer) -> None:
    async with opened(issuer, allow=[]) as scene:
        await scene.refusal(issuer.token())
        problem = "its address is not public: list it in `allow` of the issuer"
        assert (scene.reports, issuer.reads) == ([("ci", problem)], [])


async def test_an_address_of_keys_in_the_settings_needs_no_discovery(issuer: TestIssuer) -> None:
    async with opened(issuer, jwks_uri=f"{issuer.url}/keys") as scene:
        await scene.accept(issuer.token())
        assert issuer.reads == ["/keys"]


@pytest.mark.parametrize(
    ("claims", "found", "matches"),
    [
        ({"groups": "ops"}, {"groups": ["dev", "ops"]}, True),
        ({"groups": "ops"}, {"groups": ["opsx"]}, False),
        ({"groups": "ops"}, {"groups": [["ops"]]}, False),
        ({"verified": True}, {"verified": 1}, False),
        ({"verified": True}, {"verified": True}, True),
        ({"sub": "repo:acme/*"}, {"sub": "repo:acme/x"}, True),
        ({"sub": "repo:acme/*"}, {"sub": "repo:acme-evil/x"}, False),
        ({"sub": "a", "ref": "main"}, {"sub": "a"}, False),
        ({"email": "a@example.com"}, {"email": "a@example.com"}, False),
        ({"email": "a@example.com"}, {"email": "a@example.com", "email_verified": False}, False),
        ({"email": "a@example.com"}, {"email": "a@example.com", "email_verified": True}, True),
        ({"email": "a@example.com"}, {"email": "a@example.com", "email_verified": "true"}, True),
    ],
)
def test_a_rule_matches_claims(claims: dict[str, Any], found: dict[str, Any], matches: bool) -> None:
    settings = {"name": "ci", "url": "https://ci.example.com", "audience": [AUDIENCE]}
    issuer = msgspec.convert(settings | {"rules": [{"claims": claims, "role": "readonly"}]}, Issuer)
    assert (issuer.rule_for(found) is not None) == matches


# A served home


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, TestIssuer]]:
    home = tmp_path_factory.mktemp("workloads") / "home"
    token = issue(home, "root", "admin")
    fill(
        home,
        notifications={"hook-a": None, "hook-b": None},
        relayers=[relayer(f"{team}-1", notification_id=f"hook-{team}", labels={"team": team}) for team in "ab"],
    )
    with serving_issuer() as issuer:
        wide = {"claims": {"sub": "both", "wide": True}, "role": "editor"}
        rules = [wide, RULE_OF_TEAM_A, RULE_OF_TEAM_A | {"claims": {"sub": "both"}}, *issuer.settings()["rules"]]
        issuers = json.dumps([issuer.settings(rules=rules)])
        with Running(home, token=token, monitor_interval_seconds="0", issuers=issuers) as running:
            yield running, issuer


def test_a_pipeline_changes_what_its_rule_allows_under_its_own_name(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    made = running.ask("POST", "/admin/v1/tokens", {"name": "made", "kind": "api"}, token=issuer.token())
    assert made.status == 201
    (entry,) = running.ask("GET", "/admin/v1/audit?per_page=1").json["data"]
    assert (entry["actor"], entry["action"], entry["record"]) == (f"workload:ci:{SUBJECT}", "token.created", "made")


def test_a_repeated_request_of_a_pipeline_has_its_first_response(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    body, key = {"name": "once", "kind": "api"}, {"Idempotency-Key": "one"}
    first, again = (
        running.ask("POST", "/admin/v1/tokens", body, token=issuer.token(jti=each), headers=key) for each in "ab"
    )
    assert (first.body == again.body, again.headers["idempotency-replayed"]) == (True, "true")


def test_a_role_without_access_is_refused(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    token = issuer.token(sub="lister")
    calls = [("GET", "/api/v1/relayers"), ("PATCH", "/api/v1/notifications/x"), ("GET", "/admin/v1/tokens")]
    assert [running.ask(method, path, token=token).status for method, path in calls] == [200, 401, 403]


@pytest.mark.parametrize(
    ("path", "ids"),
    [("relayers", ["a-1"]), ("notifications", ["hook-a"]), ("signers", ["ops"])],
)
def test_a_workload_with_a_scope_lists_its_part(served: tuple[Running, TestIssuer], path: str, ids: list[str]) -> None:
    running, issuer = served
    found = running.ask("GET", f"/admin/v1/{path}", token=issuer.token(sub="team-a")).json
    assert ([each["id"] for each in found["data"]], found["pagination"]["total_items"]) == (ids, len(ids))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/admin/v1/relayers/{}-1", None),
        ("POST", "/admin/v1/relayers/{}-1/pause", None),
        ("DELETE", "/admin/v1/relayers/{}-1", None),
        ("PATCH", "/api/v1/notifications/hook-{}", {"url": "https://new.example/"}),
        ("POST", "/api/v1/relayers/{}-1/rpc", {"jsonrpc": "2.0", "method": "feeEstimate", "params": {}, "id": 1}),
    ],
)
def test_outside_its_scope_nothing_exists_for_a_workload(
    served: tuple[Running, TestIssuer], method: str, path: str, body: dict[str, Any] | None
) -> None:
    running, issuer = served
    token = issuer.token(sub="team-a")
    outside, unknown = (running.ask(method, path.format(each), body, token=token) for each in ("b", "nobody"))
    bodies = [{**each.json, "instance": ""} for each in (outside, unknown)]
    assert (outside.status, json.dumps(bodies[0]).replace("b-1", "nobody-1").replace("hook-b", "hook-nobody")) == (
        unknown.status,
        json.dumps(bodies[1]),
    )
    assert running.ask("GET", "/admin/v1/relayers/b-1").json["data"]["paused"] is False


def test_a_workload_changes_what_is_inside_its_scope(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    running.ask("PATCH", "/admin/v1/notifications/hook-a", {"labels": {"team": "a"}})
    changed = {"url": "https://changed.example/"}
    answer = running.ask("PATCH", "/api/v1/notifications/hook-a", changed, token=issuer.token(sub="team-a"))
    assert (answer.status, answer.json["data"]["url"]) == (200, changed["url"])


def test_the_lists_of_the_contract_show_a_workload_nothing_outside(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    answer = running.ask("GET", "/api/v1/relayers", token=issuer.token(sub="team-a"))
    assert b"b-1" in running.ask("GET", "/api/v1/relayers").body and b"b-1" not in answer.body


def test_the_response_of_another_scope_is_not_repeated(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    url, body, key = "/admin/v1/relayers/b-1/resume", None, {"Idempotency-Key": "scopes"}
    tokens = issuer.token(sub="both", wide=True), issuer.token(sub="both")
    statuses = [running.ask("POST", url, body, token=each, headers=key).status for each in tokens]
    assert statuses == [200, 404]


def test_a_refusal_says_why_in_a_header(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    answer = running.ask("GET", "/api/v1/relayers", token=issuer.token(exp=1))
    assert answer.json == {"data": None, "message": "Unauthorized", "success": False}
    assert answer.headers["relaydeck-reason"] == "the JSON Web Token has expired"


def test_the_log_names_the_workload_and_never_its_token(served: tuple[Running, TestIssuer]) -> None:
    running, issuer = served
    token = issuer.token(sub="lister", jti="logged")
    running.ask("GET", "/api/v1/relayers", token=token)
    eventually(lambda: "workload:ci:lister" in running.log)
    assert token not in running.log and token.rpartition(".")[2] not in running.log


def test_doctor_reads_the_keys_of_each_issuer(home: Path, issuer: TestIssuer) -> None:
    issue(home)
    issuers = json.dumps([issuer.settings(), issuer.settings(name="down", url="http://127.0.0.1:9")])
    done = run_command(home, "doctor", "--json", issuers=issuers)
    found = {each["subject"]: (each["result"], each["remark"]) for each in json.loads(done.stdout)}
    assert found["issuer ci"] == ("ok", "1 key")
    assert found["issuer down"] == (
        "FAIL",
        "it cannot be reached: connection refused; nobody can sign in with it, and its tokens are accepted until the "
        "keys that a service has read are a day old",
    )
