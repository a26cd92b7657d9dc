"""People sign in at Dex, a provider that differs from the certified one: no logout, no `iss` parameter, no session.

What Dex does not offer is shown at the certified provider only (test_single_sign_on): it sends no logout tokens and has
no page that ends a session, so that signing out ends the session here; and it names no issuer in what it sends a
browser back with. It keeps its keys and sessions in memory here, so that its keys change with a start. The connector
that it has for tests knows one person, whose groups never change: where they do, Dex has people sign in at the
certified provider.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.dex.process import PERSON, Dex, running_dex
from tests.single_sign_on.process import Browser, RunningProvider, age_checks
from tests.support.running import Running, eventually, free_port
from tests.support.seeding import issue

VERIFIER = "v" * 50
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Scene(NamedTuple):
    running: Running
    dex: Dex
    console: str

    def signed_in(self) -> Browser:
        browser = Browser(self.console)
        answer = browser.sign_in("kilgore")
        assert answer.status_code == 200, answer.text
        return browser


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("dex")
    home = folder / "home"
    token, port = issue(home, "root", "admin"), free_port()
    console = f"http://127.0.0.1:{port}/console"
    with running_dex(folder, console) as dex:
        issuers = json.dumps([dex.settings()])
        with Running(home, at=str(port), token=token, monitor_interval_seconds="0", issuers=issuers) as running:
            yield Scene(running, dex, console)


def test_a_person_signs_in_and_is_checked_again_and_again(scene: Scene) -> None:
    kilgore = scene.signed_in()
    for _ in range(3):
        age_checks(scene.running.home, 901)
        assert kilgore.page("/relayers").status_code == 200
    found = scene.running.ask("GET", "/admin/v1/audit?actor=person:kilgore@kilgore.trout").json["data"]
    assert {(each["actor"], each["action"]) for each in found} == {(f"person:{PERSON}", "session.opened")}


def test_a_command_signs_a_person_in(scene: Scene) -> None:
    begun = urlencode({"port": "50000", "challenge": CHALLENGE, "state": "s" * 20})
    place = Browser(scene.console).authorise_for_command("kilgore", f"{scene.console}/sso/command?{begun}")
    form = {"code": parse_qs(urlsplit(place).query)["code"][0], "code_verifier": VERIFIER}
    answers = [httpx.post(f"{scene.console}/sso/token", data=form, timeout=60) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 401]
    session = answers[0].json()["access_token"]
    for _ in range(2):
        who = scene.running.ask("GET", "/admin/v1/whoami", token=session).json["data"]
        assert (who["actor"], who["role"]) == (f"person:{PERSON}", "viewer")
        age_checks(scene.running.home, 901)
    httpx.post(f"{scene.console}/sso/revoke", data={"token": session})
    assert scene.running.ask("GET", "/admin/v1/whoami", token=session).status == 401


@pytest.mark.parametrize("changed", [{"state": "guessed"}, {"iss": "https://evil.example"}])
def test_what_another_sends_back_is_refused(scene: Scene, changed: dict[str, str]) -> None:
    """A wrong state, and the code of another provider."""
    browser = Browser(scene.console)
    parts = urlsplit(browser.authorise("kilgore"))
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changed
    answer = browser.get(parts._replace(query=urlencode(query)).geturl())
    assert (answer.status_code, browser.page("/relayers").status_code) == (400, 303)


def test_a_replayed_code_is_refused(scene: Scene) -> None:
    browser = Browser(scene.console)
    place = browser.authorise("kilgore")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert [httpx.get(place, headers={"Cookie": cookie}).status_code for _ in range(2)] == [200, 401]


def test_signing_out_ends_the_session_here_because_the_provider_has_no_logout(scene: Scene) -> None:
    kilgore = scene.signed_in()
    (token,) = {each for each in kilgore.page("/relayers").text.split('"') if len(each) == 64 and each.isalnum()}
    answer = kilgore.post(f"{scene.console}/sign-out", {"form_token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")
    assert kilgore.page("/relayers").status_code == 303


# Groups and access change at the provider behind Dex


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, RunningProvider]]:
    folder = tmp_path_factory.mktemp("company")
    home = folder / "home"
    token, port = issue(home, "root", "admin"), free_port()
    console = f"http://127.0.0.1:{port}/console"
    provider = RunningProvider(folder, console)
    with running_dex(folder, console, provider) as dex:
        issuers = json.dumps([dex.settings(rules=provider.settings()["rules"])])
        with Running(home, at=str(port), token=token, monitor_interval_seconds="0", issuers=issuers) as running:
            yield Scene(running, dex, console), provider


def member(*groups: str) -> dict[str, Any]:
    return {"email": "vera@example.com", "email_verified": True, "groups": groups}


@pytest.fixture
def vera(company: tuple[Scene, RunningProvider]) -> Browser:
    """A viewer, who has signed in."""
    scene, provider = company
    provider.change({"vera": member("relaydeck")})
    browser = Browser(scene.console)
    answer = browser.sign_in("vera")
    assert answer.status_code == 200, answer.text
    assert browser.send("/tokens", name="too early", kind="api").status_code == 403
    return browser


def test_another_group_changes_the_role_at_the_next_check(
    company: tuple[Scene, RunningProvider], vera: Browser
) -> None:
    scene, provider = company
    provider.change({"vera": member("relaydeck-owners")})
    age_checks(scene.running.home, 601)
    assert vera.send("/tokens", name="newly", kind="api").status_code == 201


@pytest.mark.parametrize("now", [{"vera": member("staff")}, {}], ids=["left the group", "disabled"])
def test_who_left_loses_access_at_the_next_check(
    company: tuple[Scene, RunningProvider], vera: Browser, now: dict[str, Any]
) -> None:
    scene, provider = company
    provider.change(now)
    assert vera.page("/relayers").status_code == 200
    age_checks(scene.running.home, 901)
    assert vera.page("/relayers").status_code == 303


# Last: these restart the provider


def test_after_a_rotation_of_keys_people_sign_in_and_a_forgotten_session_ends(scene: Scene) -> None:
    kilgore, before = scene.signed_in(), scene.dex.keys()
    scene.dex.stop()
    scene.dex.start()
    assert set(before).isdisjoint(scene.dex.keys())
    eventually(lambda: Browser(scene.console).sign_in("kilgore").status_code == 200)
    age_checks(scene.running.home, 601)
    assert kilgore.page("/relayers").status_code == 303


def test_while_the_provider_is_down_sessions_go_on_for_a_bounded_time(scene: Scene) -> None:
    kilgore = scene.signed_in()
    place = Browser(scene.console).authorise("kilgore")
    scene.dex.stop()
    age_checks(scene.running.home, 700)
    assert kilgore.page("/relayers").status_code == 200
    age_checks(scene.running.home, 300)
    assert kilgore.page("/relayers").status_code == 303
    assert place.startswith(scene.dex.callback)
