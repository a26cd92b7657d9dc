"""A served home with operators that use its console as a browser does, without the browser."""

import html
import http.client
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from relaydeck.console import pages  # noqa: F401  # registers them
from tests.conftest import DEMO
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue

Fields = Mapping[str, str] | Sequence[tuple[str, str]]
_CODE = re.compile(r'name="code" value="([^"]+)"')
_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Operator:
    """Keeps its cookie and sends forms from the pages of the console itself."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""
        self.form_token = ""

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/console{path}", body, sent | dict(headers or {}))
            with connection.getresponse() as response:
                answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        if found := _FORM_TOKEN.search(answer.body.decode("utf-8", "replace")):
            self.form_token = found[1]
        return answer

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    def post(self, path: str, fields: Fields = (), **headers: str) -> Answer:
        """Send a form as a page of the console does. A header without a value is left out."""
        pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
        if not any(name == "form_token" for name, _ in pairs):
            pairs.append(("form_token", self.form_token))
        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://127.0.0.1:{self.port}",
            "Sec-Fetch-Site": "same-origin",
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, urlencode(pairs).encode(), {k: v for k, v in sent.items() if v})

    def sign_in(self, token: str) -> "Operator":
        assert self.post("/sign-in", {"token": token}).status == 303
        self.get("")
        return self

    def enter(self, link: str) -> Answer:
        """Open a one-time link and press its button."""
        (code,) = _CODE.findall(self.text(link))
        return self.post("/enter", {"code": code})


def plain(answer: Answer) -> str:
    """The text of a page, without markup."""
    return html.unescape(re.sub(r"<[^>]*>", "", answer.body.decode()))


def new_link(running: Running) -> str:
    """The path below the console of a new one-time link."""
    done = run_command(running.home, "console", "--url", f"http://127.0.0.1:{running.port}")
    assert done.returncode == 0, done.stderr
    parts = urlsplit(done.stdout.strip())
    return f"{parts.path.removeprefix('/console')}?{parts.query}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A home with the demo state; its nodes do not exist, so the monitor leaves it alone."""
    home: Path = tmp_path_factory.mktemp("console") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="3600") as running:
        yield running


@pytest.fixture
def operator(served: Running) -> Operator:
    """Signed in as an administrator."""
    return Operator(served.port).sign_in(served.token)


@pytest.fixture(scope="module")
def readonly_token(served: Running) -> str:
    return issue(served.home, "looker", "readonly")


@pytest.fixture
def looker(served: Running, readonly_token: str) -> Operator:
    """Signed in with a readonly token."""
    return Operator(served.port).sign_in(readonly_token)
