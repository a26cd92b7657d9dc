"""What the console refuses: forms of other sites and sessions, and every change by a readonly session."""

import pytest

from relaydeck.console.page_request import PAGES
from tests.console.conftest import Operator, plain
from tests.support.running import Running

PAUSE = "/relayers/sepolia-1/pause"
# That of the view changes nothing but a cookie of the browser.
FORMS = sorted(path for path, methods in PAGES.items() if "POST" in methods and path != "/view")
STORED = ("networks", "signers", "notifications", "relayers", "tokens", "audit")


def stored(served: Running) -> list[bytes]:
    return [served.ask("GET", f"/admin/v1/{each}?per_page=1000").body for each in STORED]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": "", "Origin": ""},
    ],
)
def test_a_form_of_another_site(served: Running, operator: Operator, headers: dict[str, str]) -> None:
    before = stored(served)
    answer = operator.post(PAUSE, {}, **headers)
    assert (answer.status, stored(served)) == (403, before)
    assert "the form comes from another site" in plain(answer)


def test_another_site_cannot_sign_in(served: Running) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": served.token}, Sec_Fetch_Site="cross-site")
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("given", ["", "0" * 64, "ü"])
def test_a_form_without_the_token_of_its_session(served: Running, operator: Operator, given: str) -> None:
    before = stored(served)
    assert (operator.post(PAUSE, {"form_token": given}).status, stored(served)) == (403, before)


def test_a_form_with_the_token_of_another_session(served: Running, operator: Operator) -> None:
    other, before = Operator(served.port).sign_in(served.token), stored(served)
    assert (operator.post(PAUSE, {"form_token": other.form_token}).status, stored(served)) == (403, before)


def test_a_body_that_is_not_a_form(served: Running, operator: Operator) -> None:
    before = stored(served)
    assert (operator.post(PAUSE, Content_Type="text/plain").status, stored(served)) == (400, before)


def test_every_form_of_a_readonly_session(served: Running, looker: Operator) -> None:
    before = stored(served)
    answers = {path: looker.post(path.replace("{id}", "sepolia-1"), {"confirmed": "yes"}).status for path in FORMS}
    assert answers == dict.fromkeys(FORMS, 403)
    assert stored(served) == before


def test_there_are_forms_to_refuse() -> None:
    assert len(FORMS) > 12


def test_a_readonly_session_sees_every_list(looker: Operator) -> None:
    lists = ("", "/relayers", "/signers", "/notifications", "/networks", "/deliveries", "/events", "/audit", "/tokens")
    assert [looker.get(path).status for path in lists] == [200] * len(lists)


def test_only_a_refused_form_says_that_nothing_was_changed(operator: Operator) -> None:
    answers = [operator.get("/relayers/none"), operator.post("/relayers/none/pause")]
    assert [(each.status, "Nothing was changed." in plain(each)) for each in answers] == [(404, False), (404, True)]


def test_a_wrong_method(operator: Operator) -> None:
    answer = operator.ask("DELETE", "/relayers/sepolia-1")
    assert answer.status in (400, 403, 405)


def test_no_page_can_be_framed_or_kept(operator: Operator) -> None:
    for path in ("", "/relayers", "/sign-in", "/no/such/page", "/relayers/none"):
        headers = operator.get(path).headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
        assert (headers["x-frame-options"], headers["cache-control"]) == ("DENY", "no-store")


def test_an_estimate_needs_a_session_that_may_change(operator: Operator, looker: Operator) -> None:
    """A readonly token may not call feeEstimate either."""
    asked = {"relayer": "sepolia-1", "transaction": "0x00"}
    assert [each.post("/estimate", asked).status for each in (operator, looker)] == [200, 403]
    assert "disabled title=" in looker.text("/estimate").partition("<main")[2]
