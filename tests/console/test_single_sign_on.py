"""People sign in to the console at a certified provider: in, checked again, and out; and what attacks on it meet."""

import hashlib
import html
import json
import re
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from relaydeck.credentials import people
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.store.audit import AuditLog
from tests.single_sign_on.process import Browser, RunningProvider, age_checks, place_of_refresh, running_provider
from tests.support.fork_server import Done
from tests.support.issuer import TestIssuer, serving_issuer
from tests.support.running import COMMAND, Running, clean_environment, eventually, free_port
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement

VIEWER = {"email": "vera@example.com", "email_verified": True, "groups": ["relaydeck"]}
OWNER = {"email": "olga@example.com", "email_verified": True, "groups": ["staff", "relaydeck-owners"]}
EDITOR = {"email": "edda@example.com", "email_verified": True, "groups": ["payments"]}
STRANGER = {"email": "sam@example.com", "email_verified": True, "groups": ["staff"]}
UNVERIFIED = VIEWER | {"email_verified": False}
PEOPLE = {
    "vera": VIEWER,
    "edda": EDITOR,
    "olga": OWNER,
    "sam": STRANGER,
    "uma": UNVERIFIED,
    "una": VIEWER | {"email_verified": "false"},
    "undine": VIEWER | {"email_verified": None},
    "vito": VIEWER | {"email": "vito@example.com", "email_verified": "true"},
    "viola": VIEWER | {"email": "a via token:b"},
}
NOT_BEGUN = "This sign-in was not begun in this browser, or too long ago. Begin again."


class Scene(NamedTuple):
    running: Running
    provider: RunningProvider
    console: str
    other: TestIssuer  # a provider that answers as a test says

    def browser(self) -> Browser:
        return Browser(self.console)

    def signed_in(self, account: str) -> Browser:
        browser = self.browser()
        answer = browser.sign_in(account)
        assert answer.status_code == 200 and 'content="0;url=/console' in answer.text, answer.text
        return browser

    def audit(self, action: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.running.ask("GET", "/admin/v1/audit?per_page=100").json["data"]
        return [each for each in found if each["action"] == action]

    def age(self, seconds: int) -> None:
        age_checks(self.running.home, seconds)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("people")
    home = folder / "home"
    token, port = issue(home, "root", "admin"), free_port()
    console = f"http://127.0.0.1:{port}/console"
    with running_provider(folder, console) as provider, serving_issuer() as other:
        evil = {"name": "other", "url": other.url, "client_id": "relaydeck", "redirect_uri": provider.callback}
        rules = provider.settings()["rules"]
        limited = {"claims": {"groups": "payments"}, "role": "editor", "scope": {"networks": ["sepolia"]}}
        company = provider.settings(rules=[*rules, limited])
        issuers = json.dumps([company, evil | {"allow": ["127.0.0.1"], "rules": rules}])
        with Running(home, at=str(port), token=token, monitor_interval_seconds="0", issuers=issuers) as running:
            yield Scene(running, provider, console, other)


@pytest.fixture(autouse=True)
def everybody(scene: Scene) -> None:
    scene.provider.change(PEOPLE)


def test_a_person_signs_in_with_the_role_of_the_group(scene: Scene) -> None:
    vera, olga = scene.signed_in("vera"), scene.signed_in("olga")
    assert [each.send("/tokens", name="role", kind="api").status_code for each in (vera, olga)] == [403, 201]
    assert {"person:vera@example.com", "person:olga@example.com"} <= {e["actor"] for e in scene.audit("session.opened")}


def test_the_audit_log_names_the_person(scene: Scene) -> None:
    answer = scene.signed_in("olga").send("/tokens", name="made-by-olga", kind="api")
    assert answer.status_code == 201
    (entry,) = [each for each in scene.audit("token.created") if each["record"] == "made-by-olga"]
    assert (entry["actor"], entry["origin"]) == ("person:olga@example.com", "console")


def test_the_audit_log_names_the_person_behind_a_token(scene: Scene) -> None:
    answer = scene.signed_in("olga").send("/tokens", name="of olga", kind="owner")
    token = re.findall(r"rdk_[0-9A-Za-z]{49}", answer.text)[0]
    behind = "person:olga@example.com via token:of olga"
    assert scene.running.ask("GET", "/admin/v1/whoami", token=token).json["data"]["actor"] == behind
    assert scene.running.ask("POST", "/admin/v1/tokens", {"name": "made again"}, token=token).status == 201
    found = scene.running.ask("GET", "/admin/v1/audit?actor=person:olga@example.com&per_page=100").json["data"]
    assert {each["actor"] for each in found} == {"person:olga@example.com", behind}


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ("viola", "the name of the person is one that a token could have"),
        ("sam", "no rule of the settings gives this person a role"),
        ("uma", "the provider has not verified the e-mail address"),
        ("una", "the provider has not verified the e-mail address"),
        ("undine", "the provider has not verified the e-mail address"),
    ],
)
def test_somebody_without_a_rule_is_not_signed_in(scene: Scene, account: str, reason: str) -> None:
    browser = scene.browser()
    answer = browser.sign_in(account)
    assert (answer.status_code, f"Reason: {reason}." in answer.text) == (401, True)
    assert browser.page("/relayers").status_code == 303


def test_a_verified_address_may_be_said_in_text(scene: Scene) -> None:
    browser = scene.browser()
    browser.sign_in("vito")
    assert browser.page("/relayers").status_code == 200


def test_the_page_that_was_asked_for_follows(scene: Scene) -> None:
    browser = scene.browser()
    place = browser.authorise("vera", "/sso/begin?issuer=company&next=%2Frelayers")
    assert 'content="0;url=/console/relayers"' in browser.get(place).text


def kept_in(answer: httpx.Response) -> dict[str, str]:
    """The form of the page, with what it keeps."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', answer.text)
    return {name: html.unescape(value) for name, value in found}


def test_a_form_outlives_a_session_that_began_at_the_provider(scene: Scene) -> None:
    olga, sent = scene.signed_in("olga"), {"id": "after", "url": "https://one.example/", "signing_key": "planted"}
    with opened(scene.running.home) as store:
        run_statement(store.database, "DELETE FROM person_sessions WHERE subject = 'olga'")
    ended = olga.post(f"{scene.console}/notifications", sent)
    assert (ended.status_code, "What you sent is kept." in ended.text) == (401, True)
    link = re.findall(
        r'<a class="button" href="([^"]+)" target="_blank" rel="noopener">Sign in with company', ended.text
    )
    assert [html.unescape(each) for each in link] == ["/console/sso/begin?issuer=company&next="]
    early = olga.post(f"{scene.console}/sign-in", kept_in(ended))
    assert (early.status_code, "You are not signed in yet." in early.text) == (401, True)
    assert kept_in(early) == kept_in(ended)
    assert olga.sign_in("olga").status_code == 200  # in the new tab
    again = olga.post(f"{scene.console}/sign-in", kept_in(early))
    form = kept_in(again)
    assert (again.status_code, form | {"form_token": ""}) == (200, sent | {"form_token": ""})
    assert 'action="/console/notifications"' in again.text
    assert olga.post(f"{scene.console}/notifications", form).status_code == 303
    assert scene.running.ask("DELETE", "/admin/v1/notifications/after").status == 200


def test_the_page_of_a_kept_form_stays_in_the_console(scene: Scene) -> None:
    olga, kept = scene.signed_in("olga"), {"next": "//evil.example/", "kept.id": "x"}
    answer = olga.post(f"{scene.console}/sign-in", kept)
    assert (answer.status_code, 'action="/console"' in answer.text, "evil" in answer.text) == (200, True, False)


def test_a_person_is_limited_to_the_scope_of_the_rule(scene: Scene) -> None:
    edda = scene.signed_in("edda")
    assert [edda.page(path).status_code for path in ("/relayers", "/tokens")] == [200, 403]
    with opened(scene.running.home) as store:
        rows = store.database.read("SELECT role FROM person_sessions WHERE subject = 'edda'")
    assert {row.role for row in rows} == {'editor {"scope":{"networks":["sepolia"]}}'}, "unknown to earlier versions"


# `relaydeck login --sso`


@pytest.fixture
def command(scene: Scene, tmp_path: Path) -> Callable[..., Done]:
    """Runs a command whose browser signs in as that account."""

    def run(account: str, *arguments: str) -> Done:
        root, browser = str(Path(__file__).parents[2]), tmp_path / "browser"
        started = f'{sys.executable} -m tests.single_sign_on.process {scene.console} {account} "$1"'
        browser.write_text(f"#!/bin/sh\nexec {started}\n")
        browser.chmod(0o700)
        environment = {"BROWSER": str(browser), "PYTHONPATH": root, "XDG_CONFIG_HOME": str(tmp_path)}
        done = subprocess.run(
            [*COMMAND, *arguments],
            env={**clean_environment(tmp_path), **environment},
            cwd=root,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def test_a_command_signs_a_person_in_and_out(scene: Scene, command: Callable[..., Done], tmp_path: Path) -> None:
    url = scene.console.removesuffix("/console")
    done = command("edda", "login", url, "--sso", "--profile", "me")
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "relaydeck" / "profiles.json").read_bytes())
    session = stored["me"]["token"]
    assert stored == {"me": {"url": url, "token": session}} and session.startswith("p-")
    assert session not in done.stdout + done.stderr
    who = json.loads(command("", "whoami", "--profile", "me", "--json").stdout)
    assert (who["actor"], who["role"], who["scope"]) == ("person:edda@example.com", "editor", {"networks": ["sepolia"]})
    assert (who["rule"], who["expires_at"] is not None) == ("company: groups = payments", True)
    assert command("", "logout", "--profile", "me").returncode == 0
    assert scene.running.ask("GET", "/admin/v1/whoami", token=session).status == 401
    (ended,) = [each for each in scene.audit("session.ended") if each["actor"] == "person:edda@example.com"]
    assert ended["record"] in {each["record"] for each in scene.audit("session.opened")}


VERIFIER = "v" * 50
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
BEGUN = {"port": "50000", "challenge": CHALLENGE, "state": "s" * 20}


def code_for_command(scene: Scene, account: str) -> str:
    place = scene.browser().authorise_for_command(account, f"{scene.console}/sso/command?{urlencode(BEGUN)}")
    assert place.startswith("http://127.0.0.1:50000/?state=ssssssssssssssssssss&code=")
    return parse_qs(urlsplit(place).query)["code"][0]


def exchanged(scene: Scene, code: str, verifier: str = VERIFIER) -> httpx.Response:
    return httpx.post(f"{scene.console}/sso/token", data={"code": code, "code_verifier": verifier}, timeout=60)


def test_a_session_of_a_command_ends_when_the_person_loses_access(scene: Scene) -> None:
    session = exchanged(scene, code_for_command(scene, "vera")).json()["access_token"]
    assert scene.running.ask("GET", "/admin/v1/whoami", token=session).json["data"]["role"] == "viewer"
    assert scene.running.ask("POST", "/admin/v1/tokens", {"name": "no"}, token=session).status == 403
    scene.provider.change(PEOPLE | {"vera": STRANGER})
    scene.age(601)
    assert scene.running.ask("GET", "/admin/v1/whoami", token=session).status == 401


def test_the_code_of_a_command_is_of_use_once_and_with_its_verifier(scene: Scene) -> None:
    code = code_for_command(scene, "vera")
    for wrong in (exchanged(scene, code, "x" * 50), exchanged(scene, code[:-4] + "AAAA"), exchanged(scene, "")):
        assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_grant")
    assert [exchanged(scene, code).status_code for _ in range(2)] == [200, 401]


@pytest.mark.parametrize(("changed", "status"), [({}, 200), ({"nonce": "guessed"}, 401), ({"aud": "another"}, 401)])
def test_an_id_token_signs_in_only_the_command_that_it_was_asked_for(
    scene: Scene, changed: dict[str, str], status: int
) -> None:
    browser = scene.browser()
    place = place_of_refresh(browser.post(f"{scene.console}/sso/command", BEGUN | {"issuer": "other"}))
    asked = {name: each[0] for name, each in parse_qs(urlsplit(place).query).items()}
    assert asked["code_challenge"] == CHALLENGE
    back = urlencode({"code": "one", "state": asked["state"]})
    listened = place_of_refresh(browser.get(f"{scene.provider.callback}?{back}"))
    claims: dict[str, Any] = {"aud": "relaydeck", "sub": "vera", "nonce": asked["nonce"], **VIEWER} | changed
    scene.other.answers["/token"] = json.dumps({"id_token": scene.other.token(**claims)}).encode()
    assert exchanged(scene, parse_qs(urlsplit(listened).query)["code"][0]).status_code == status


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "access_denied"}, "the provider answered access_denied"),
        ({"error": "<made up>", "error_description": "secret"}, "the provider answered an unknown error"),
        ({}, "the provider answered without a code"),
        ({"code": "one", "iss": "https://evil.example"}, "another issuer sent the browser back"),
    ],
)
def test_a_command_and_the_log_are_told_why_the_provider_signs_nobody_in(
    scene: Scene, answer: dict[str, str], reason: str
) -> None:
    browser = scene.browser()
    place = place_of_refresh(browser.post(f"{scene.console}/sso/command", BEGUN | {"issuer": "other"}))
    state = parse_qs(urlsplit(place).query)["state"][0]
    back = browser.get(f"{scene.provider.callback}?{urlencode({**answer, 'state': state})}")
    told = {"error": "access_denied", "error_description": f"The provider did not sign you in. Reason: {reason}."}
    expected = f"http://127.0.0.1:50000/?{urlencode({'state': BEGUN['state'], **told})}"
    assert (back.status_code, place_of_refresh(back)) == (200, expected)
    assert_logged(scene, "other", reason)


def assert_logged(scene: Scene, issuer: str, reason: str) -> None:
    fields = {"level": "warning", "event": "a person could not sign in", "issuer": issuer, "reason": reason}
    eventually(lambda: json.dumps(fields)[1:] in scene.running.log)


def test_a_command_is_told_at_once_that_its_provider_is_away(scene: Scene) -> None:
    with serving_issuer() as away:
        url = away.url
    place, console = f"http://127.0.0.1:50000/?state={BEGUN['state']}", f"http://127.0.0.1:{(port := free_port())}"
    issuer = scene.provider.settings(url=url, redirect_uri=f"{console}/console/sso/callback")
    home = scene.running.home.with_name("away")
    with Running(home, at=str(port), monitor_interval_seconds="0", issuers=json.dumps([issuer])) as running:
        answer = Browser(f"{console}/console").post(f"{console}/console/sso/command", BEGUN | {"issuer": "company"})
        problem = "The provider does not answer as it should. Try again, or use a token. The cause: relaydeck doctor."
        told = urlencode({"error": "temporarily_unavailable", "error_description": problem})
        assert place_of_refresh(answer) == f"{place}&{told}"
        assert_logged(scene._replace(running=running), "company", "it cannot be reached: connection refused")


def test_a_refused_exchange_of_a_code_is_logged_with_its_error(scene: Scene) -> None:
    browser = scene.browser()
    place = browser.authorise("vera")
    assert browser.get(with_parameter(place, code="replaced")).status_code == 401
    assert_logged(scene, "company", "the provider refused the request: invalid_grant")
    assert "replaced" not in scene.running.log


@pytest.mark.parametrize(
    ("answer", "seconds", "problem"),
    [
        ({"error": "access_denied", "error_description": "Refused."}, 60, "Refused."),
        ({"error": "access_denied"}, 60, "the provider did not sign you in"),
        (None, 0, "nobody signed in within 0 minutes"),
    ],
)
def test_a_command_ends_with_the_reason_or_at_its_time(
    tmp_path: Path, answer: dict[str, str] | None, seconds: int, problem: str
) -> None:
    """The browser goes where the console would lead it."""
    browser = tmp_path / "browser"
    back = "" if answer is None else f"&{urlencode(answer)}"
    program = f"""#!{sys.executable}
import sys, urllib.parse, urllib.request
asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[1]).query))
if {back!r}:
    urllib.request.urlopen("http://127.0.0.1:" + asked["port"] + "/?state=" + asked["state"] + {back!r}).read()
"""
    browser.write_text(program)
    browser.chmod(0o700)
    ended = f"from relaydeck.cli.single_sign_on import sign_in; sign_in('http://127.0.0.1:9', {seconds})"
    done = subprocess.run(
        [sys.executable, "-c", ended],
        env={**clean_environment(tmp_path), "BROWSER": str(browser)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    told = [f"relaydeck.errors.OperatorError: {problem}", "Run 'relaydeck login --sso' again."]
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (1, told)


def test_a_command_says_why_the_person_may_not_sign_in(scene: Scene, command: Callable[..., Done]) -> None:
    done = command("sam", "login", scene.console.removesuffix("/console"), "--sso")
    assert (done.returncode, done.stderr.splitlines()[2:]) == (
        1,
        [
            "relaydeck: The provider did not sign you in. Reason: no rule of the settings gives this person a role.",
            "Run 'relaydeck login --sso' again.",
        ],
    )


def test_a_cookie_of_a_sign_in_is_no_code_of_a_command(scene: Scene) -> None:
    browser = scene.browser()
    browser.authorise("vera")
    assert exchanged(scene, browser.cookies["relaydeck_sso"]).status_code == 400


@pytest.mark.parametrize(
    "changed", [{"port": "80"}, {"port": "50000@evil.example"}, {"challenge": "short"}, {"state": "<b>"}, {"port": ""}]
)
def test_a_command_is_nowhere_else_than_on_this_machine(scene: Scene, changed: dict[str, str]) -> None:
    query = urlencode(BEGUN | changed)
    assert httpx.get(f"{scene.console}/sso/command?{query}").status_code == 400
    sent = scene.browser().post(f"{scene.console}/sso/command", BEGUN | changed | {"issuer": "company"})
    assert sent.status_code == 400


def test_another_site_does_not_begin_the_sign_in_of_a_command(scene: Scene) -> None:
    shown = httpx.get(f"{scene.console}/sso/command?{urlencode(BEGUN)}")
    assert (shown.status_code, f"<b>{CHALLENGE[:4]}-{CHALLENGE[4:8]}</b>" in shown.text) == (200, True)
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    sent = httpx.post(f"{scene.console}/sso/command", data=BEGUN | {"issuer": "company"}, headers=headers)
    assert sent.status_code == 403


# Attacks


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/..//evil", "\\evil"])
def test_a_sign_in_leads_nowhere_else(scene: Scene, wanted: str) -> None:
    browser = scene.browser()
    place = browser.authorise("vera", f"/sso/begin?{urlencode({'issuer': 'company', 'next': wanted})}")
    assert 'content="0;url=/console"' in browser.get(place).text


def test_a_wrong_state_is_refused(scene: Scene) -> None:
    browser = scene.browser()
    answer = browser.get(with_parameter(browser.authorise("vera"), state="guessed"))
    assert (answer.status_code, NOT_BEGUN in answer.text) == (400, True)


def test_a_sign_in_that_another_browser_began_is_refused(scene: Scene) -> None:
    place = scene.browser().authorise("vera")
    answer = scene.browser().get(place)
    assert (answer.status_code, NOT_BEGUN in answer.text) == (400, True)


def test_a_cookie_that_we_did_not_write_is_refused(scene: Scene) -> None:
    place = scene.browser().authorise("vera")
    state = parse_qs(urlsplit(place).query)["state"][0]
    forged = json.dumps(["company", state, "n", "v", "", int(time.time())]).encode()
    cookie = f"relaydeck_sso={urlsafe_b64encode(forged).decode()}.{urlsafe_b64encode(bytes(32)).decode()}"
    assert httpx.get(place, headers={"Cookie": cookie}).status_code == 400


def test_a_sign_in_that_was_begun_too_long_ago_is_refused(scene: Scene) -> None:
    """Its cookie is one that we wrote, with an earlier moment."""
    for seconds, status in ((9, 200), (3600, 400)):
        browser = scene.browser()
        place = browser.authorise("vera")
        content = urlsafe_b64decode(browser.cookies["relaydeck_sso"].strip('"').partition(".")[0])
        *begun, moment = json.loads(content)
        text = json.dumps([*begun, moment - seconds])
        with opened(scene.running.home) as store:
            proof = store.vault.proofs.of("single_sign_on", (text,))
        cookie = ".".join(urlsafe_b64encode(each).decode() for each in (text.encode(), proof))
        answer = httpx.get(place, headers={"Cookie": f"relaydeck_sso={cookie}"})
        assert (answer.status_code, NOT_BEGUN in answer.text) == (status, status == 400)


def test_a_replayed_code_is_refused(scene: Scene) -> None:
    browser = scene.browser()
    place = browser.authorise("vera")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert httpx.get(place, headers={"Cookie": cookie}).status_code == 200
    again = httpx.get(place, headers={"Cookie": cookie})
    assert (again.status_code, "the provider refused the request" in again.text) == (401, True)


@pytest.mark.parametrize("issuer", ["https://evil.example", ""])
def test_a_code_of_another_provider_is_not_sent_to_this_one(scene: Scene, issuer: str) -> None:
    browser = scene.browser()
    answer = browser.get(with_parameter(browser.authorise("vera"), iss=issuer))
    assert (answer.status_code, "The provider did not sign you in." in answer.text) == (400, True)


def test_another_redirect_uri_than_the_registered_one_is_never_asked_for(scene: Scene) -> None:
    address = f"{scene.console}/sso/begin?issuer=company&redirect_uri=https://evil.example"
    answer = httpx.get(address, headers={"Host": "evil.example"})
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == ([scene.provider.callback], ["S256"])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"nonce": "guessed"}, "the claim nonce of the JSON Web Token is not the expected one"),
        ({"nonce": None}, "the claim nonce of the JSON Web Token is not the expected one"),
        ({"aud": "another"}, "the JSON Web Token is for another audience"),
        ({"aud": ["relaydeck", "another"], "azp": "another"}, "the ID token is for another client"),
        ({"iss": "https://evil.example"}, "the JSON Web Token is of another issuer"),
        ({"exp": 1}, "the JSON Web Token has expired"),
        ({"nbf": int(time.time()) + 9000}, "the JSON Web Token is not valid yet"),
        ({"pad": "x" * 9000}, "the JSON Web Token has more than 8192 bytes"),
    ],
)
def test_an_id_token_with_wrong_claims_signs_nobody_in(scene: Scene, changed: dict[str, Any], reason: str) -> None:
    answer = answered(scene, lambda claims: scene.other.token(**(claims | changed)))
    assert (answer.status_code, f"Reason: {reason}." in html.unescape(answer.text)) == (401, True)


def test_an_id_token_of_a_provider_is_accepted(scene: Scene) -> None:
    assert answered(scene, lambda claims: scene.other.token(**claims)).status_code == 200


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_an_id_token_without_a_signature_of_the_provider_signs_nobody_in(scene: Scene, algorithm: str) -> None:
    public_key = scene.other.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secret = public_key if algorithm == "HS256" else None
    header = {"alg": algorithm, "kid": "first"}
    answer = answered(scene, lambda claims: scene.other.signed_by_hand(header, secret, **claims))
    assert (answer.status_code, "an algorithm that its issuer may not use" in answer.text) == (401, True)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id_token":1}', b"[" * 100_000])
def test_a_provider_that_answers_nonsense_signs_nobody_in(scene: Scene, body: bytes) -> None:
    scene.other.answers["/token"] = body
    assert answered(scene).status_code == 401


def test_a_provider_that_answers_too_much_signs_nobody_in(scene: Scene) -> None:
    scene.other.answers["/token"] = b" " * 300_000
    assert answered(scene).status_code == 503


def test_a_worker_asks_providers_for_few_sign_ins_at_a_time(scene: Scene) -> None:
    vera, last = scene.signed_in("vera"), begun_at_other(scene, scene.browser())
    with held_sign_ins(scene):
        assert last[0].get(last[1]).status_code == 429
        for seconds in (601, 901):  # strangers do not keep the sessions of others from being checked
            scene.age(seconds)
            assert vera.page("/relayers").status_code == 200


@contextmanager
def held_sign_ins(scene: Scene) -> Iterator[None]:
    """As many as a worker asks providers for at a time, which the other provider does not answer."""
    most, held = 8, threading.Event()
    begun = [begun_at_other(scene, scene.browser()) for _ in range(most)]
    scene.other.reads.clear()
    scene.other.held["/token"] = held
    try:
        with ThreadPoolExecutor(most) as others:
            waiting = [others.submit(browser.get, place) for browser, place, _ in begun]
            eventually(lambda: scene.other.reads.count("/token") == most)
            try:
                yield
            finally:
                held.set()
            # The answer has no ID token, or comes too late on a busy machine.
            assert {each.result().status_code for each in waiting} <= {401, 503}
    finally:
        del scene.other.held["/token"]


def answered(scene: Scene, make: Callable[[dict[str, Any]], str] | None = None) -> httpx.Response:
    """What the console says when the other provider sends the browser back, and answers with such an ID token."""
    return answered_in(scene.browser(), scene, make)


def answered_in(browser: Browser, scene: Scene, make: Callable[[dict[str, Any]], str] | None = None) -> httpx.Response:
    browser, place, nonce = begun_at_other(scene, browser)
    if make is not None:
        claims = {"aud": "relaydeck", "sub": "vera", "nonce": nonce, **VIEWER}
        scene.other.answers["/token"] = json.dumps({"id_token": make(claims)}).encode()
    return browser.get(place)


def begun_at_other(scene: Scene, browser: Browser) -> tuple[Browser, str, str]:
    """With where the other provider sends it back to, and the nonce."""
    begun = browser.get(f"{scene.console}/sso/begin?issuer=other")
    asked = {name: each[0] for name, each in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    return browser, f"{scene.provider.callback}?{urlencode({'code': 'one', 'state': asked['state']})}", asked["nonce"]


def with_parameter(url: str, **changed: str) -> str:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changed
    return parts._replace(query=urlencode({name: value for name, value in query.items() if value})).geturl()


# Checked again


def test_who_left_the_group_loses_access_at_the_next_check(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    scene.provider.change(PEOPLE | {"vera": STRANGER})
    assert vera.page("/relayers").status_code == 200
    scene.age(601)
    assert vera.page("/relayers").status_code == 303
    assert "person:vera@example.com" in {each["actor"] for each in scene.audit("session.ended")}


def test_another_group_changes_the_role_at_the_next_check(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    scene.provider.change(PEOPLE | {"vera": VIEWER | {"groups": ["relaydeck-owners"]}})
    scene.age(601)
    assert vera.send("/tokens", name="newly", kind="api").status_code == 201


def test_a_disabled_account_loses_access_at_the_next_check(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    scene.provider.change({"olga": OWNER})
    scene.age(601)
    assert vera.page("/relayers").status_code == 303


def test_a_session_is_checked_again_and_again_with_the_newest_refresh_token(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    for _ in range(3):
        scene.age(901)
        assert vera.page("/relayers").status_code == 200


# Out


def test_signing_out_ends_the_session_here_and_leads_to_the_provider(scene: Scene) -> None:
    olga = scene.signed_in("olga")
    answer = olga.send("/sign-out")
    assert f'content="0;url={scene.provider.url}/session/end?client_id=relaydeck' in answer.text
    assert olga.page("/relayers").status_code == 303


def test_a_logout_at_the_provider_ends_the_session(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    response = vera.get(f"{scene.provider.url}/session/end?client_id=relaydeck")
    form = dict_of_form(response)
    vera.post(f"{scene.provider.url}/session/end/confirm", form | {"logout": "yes"})
    eventually(lambda: vera.page("/relayers").status_code == 303)


@pytest.mark.parametrize("token", ["", "x" * 9000, "eyJhbGciOiJub25lIn0.e30."])
def test_a_forged_logout_token_ends_nothing(scene: Scene, token: str) -> None:
    vera = scene.signed_in("vera")
    answer = httpx.post(f"{scene.console}/sso/logout/company", data={"logout_token": token})
    assert (answer.status_code, vera.page("/relayers").status_code) == (401, 200)


EVENTS: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}


@pytest.mark.parametrize(
    ("changed", "status", "page"),
    [
        ({"events": EVENTS}, 200, 303),
        ({"events": None}, 401, 200),
        ({"events": {"http://schemas.openid.net/event/another": {}}}, 401, 200),
        ({"events": list(EVENTS)}, 401, 200),
        ({"events": EVENTS, "nonce": "n"}, 401, 200),
        ({"events": EVENTS, "aud": "another"}, 401, 200),
        ({"events": EVENTS, "exp": 1}, 401, 200),
        ({"events": EVENTS, "sub": "olga"}, 200, 200),
        ({"events": EVENTS, "iat": int(time.time()) - 3600}, 200, 200),  # of sessions before this one
    ],
)
def test_a_signed_logout_token_ends_only_what_it_says(
    scene: Scene, changed: dict[str, Any], status: int, page: int
) -> None:
    browser = scene.browser()
    assert answered_in(browser, scene, lambda claims: scene.other.token(**claims)).status_code == 200
    token = scene.other.token({"typ": "logout+jwt"}, **{"aud": "relaydeck", "sub": "vera"} | changed)
    answer = httpx.post(f"{scene.console}/sso/logout/other", data={"logout_token": token})
    assert (answer.status_code, browser.page("/relayers").status_code) == (status, page)


def dict_of_form(response: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', response.text))


def test_one_session_too_many_of_a_person_ends_the_one_that_was_idle_longest(home: Path) -> None:
    limits, vera, olga = (
        SessionLimits(1000, 1000),
        people.Person("i", "v", "v", "viewer", "r"),
        people.Person("i", "o", "o", "viewer", "r"),
    )
    with opened(home) as store:
        audit = AuditLog(store.vault)
        whose = [olga] + [vera] * (people.MOST_OF_PERSON + 1)
        for number, person in enumerate(whose):
            session = people.PersonSession(person, bytes([number]) * 32, 100 + number, 100 + number, 100, None)
            with store.database.transaction() as transaction:
                people.store(transaction, audit, session, limits, 200)
        kept = [row.digest[0] for row in store.database.read("SELECT digest FROM person_sessions ORDER BY seq")]
    assert kept == [0, *range(2, people.MOST_OF_PERSON + 2)]


# Last: these restart the provider


def test_after_a_rotation_of_keys_people_sign_in(scene: Scene) -> None:
    scene.provider.stop()
    scene.provider.start("second")
    eventually(lambda: scene.browser().sign_in("vera").status_code == 200)


def test_while_the_provider_is_down_sessions_go_on_for_a_bounded_time(scene: Scene) -> None:
    vera = scene.signed_in("vera")
    place = scene.browser().authorise("olga")
    scene.provider.stop()
    scene.age(700)
    assert vera.page("/relayers").status_code == 200
    scene.age(300)
    assert vera.page("/relayers").status_code == 303
    assert place.startswith(scene.provider.callback)
