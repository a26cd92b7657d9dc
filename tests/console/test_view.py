"""Theme and times, as a browser keeps the choice."""

import re

from tests.console.conftest import Operator, plain


def test_the_theme_is_that_of_the_system_until_another_is_chosen(looker: Operator) -> None:
    assert '<html lang="en" data-theme="auto">' in looker.text("")
    assert 'data-times="ago"' in looker.text("")
    session = looker.cookie
    answer = looker.post("/view", {"theme": "dark", "times": "local"})
    assert (answer.status, answer.headers["location"]) == (303, "/console/view?done=saved")
    assert answer.headers["set-cookie"] == (
        "relaydeck_times=local; Path=/console; Max-Age=31536000; SameSite=Strict; HttpOnly"
    )
    looker.cookie = f"{session}; relaydeck_theme=dark; relaydeck_times=local"
    page = looker.text("/view")
    assert '<html lang="en" data-theme="dark">' in page and 'data-times="local"' in page
    assert '<option value="dark" selected>' in page and '<option value="local" selected>' in page


def test_a_cookie_that_we_did_not_write_is_ignored(operator: Operator) -> None:
    operator.cookie += '; relaydeck_theme="><b>; relaydeck_times=mars'
    page = operator.text("")
    assert '<html lang="en" data-theme="auto">' in page and 'data-times="ago"' in page


def test_another_theme_is_refused(operator: Operator) -> None:
    answer = operator.post("/view", {"theme": "pink", "times": "UTC"})
    assert (answer.status, "theme must be one of auto, light, dark" in plain(answer)) == (400, True)


def test_times_are_shown_as_the_person_chose(looker: Operator) -> None:
    shown = re.compile(r'<time datetime="([^"]+)" title="([^"]+)">([^<]+)</time>')
    moment, exact, relative = shown.findall(looker.text("/audit"))[0]
    assert exact == moment.replace("T", " ").replace("Z", " UTC") and relative.endswith(("ago", "now"))
    looker.cookie += "; relaydeck_times=UTC"
    moment, relative, exact = shown.findall(looker.text("/audit"))[0]
    assert exact == moment.replace("T", " ").replace("Z", " UTC") and relative.endswith(("ago", "now"))
