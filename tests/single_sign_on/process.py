"""Starts and stops the provider of the tests, and signs in at it as a browser does."""

import html
import json
import re
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from relaydeck.credentials import people
from tests.node.process import node_command
from tests.support.issuer import new_key, public
from tests.support.running import free_port
from tests.support.seeding import opened

HERE = Path(__file__).parent
SECRET = "a secret of the test"
_ACTION = re.compile(r'<form[^>]* action="([^"]+)"')
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


class RunningProvider:
    def __init__(self, folder: Path, console: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.callback = f"{console}/sso/callback"
        self._logout = f"{console}/sso/logout/company"
        self._people = folder / "people.json"
        self._secret = folder / "client-secret"
        self._secret.write_text(SECRET)
        self.process: subprocess.Popen[str] | None = None
        self.change({})

    def change(self, people: dict[str, dict[str, Any]]) -> None:
        """The claims of each account, from now on."""
        self._people.write_text(json.dumps(people))

    def start(self, kid: str) -> None:
        key = new_key()
        private = key.private_numbers().private_value.to_bytes(32, "big")
        keys = {"keys": [public(kid, key) | {"d": _base64url(private)}]}
        command = [node_command(), str(HERE / "provider.js"), str(self.port), self.callback, self._logout]
        self.process = subprocess.Popen(
            [*command, json.dumps(keys), str(self._people)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def settings(self, **changed: Any) -> dict[str, Any]:
        usual = {
            "name": "company",
            "url": self.url,
            "client_id": "relaydeck",
            "client_secret_file": str(self._secret),
            "redirect_uri": self.callback,
            "scopes": ["openid", "email", "groups", "offline_access"],
            "allow": ["127.0.0.1"],
            "algorithms": ["ES256"],
            "rules": [
                {"claims": {"groups": "relaydeck-owners"}, "role": "owner"},
                {"claims": {"groups": "relaydeck"}, "role": "viewer"},
            ],
        }
        return usual | changed


def age_checks(home: Path, seconds: int) -> None:
    """Make the last checks of all sessions older, as Relaydeck would have written them."""
    with opened(home) as store:
        for row in store.database.read("SELECT * FROM person_sessions"):
            person = people.Person(row.issuer, row.subject, row.person, row.role, row.rule, row.sid)
            times = row.created_at, int(time.time()), row.checked_at - seconds
            found = people.PersonSession(person, row.digest, *times, row.encrypted_refresh_token)
            with store.database.transaction() as transaction:
                people.save(transaction, store.vault.proofs, found)


def place_of_refresh(response: httpx.Response) -> str:
    found = re.search(r'content="0;url=([^"]+)"', response.text)
    assert found is not None, response.text
    return html.unescape(found[1])


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


@contextmanager
def running_provider(folder: Path, console: str) -> Iterator[RunningProvider]:
    provider = RunningProvider(folder, console)
    provider.start("first")
    try:
        yield provider
    finally:
        provider.stop()


class Browser:
    """Keeps cookies by host and port, and follows links and forms."""

    def __init__(self, console: str) -> None:
        self.console = console
        self._ours, self._theirs = httpx.Client(timeout=60), httpx.Client(timeout=60)

    @property
    def cookies(self) -> dict[str, str]:
        """Those of the console."""
        return dict(self._ours.cookies.items())

    def _client(self, url: str) -> httpx.Client:
        return self._ours if url.startswith(self.console) else self._theirs

    def get(self, url: str) -> httpx.Response:
        return self._client(url).get(url)

    def post(self, url: str, fields: dict[str, str]) -> httpx.Response:
        origin = {"Origin": url.partition("/console")[0], "Sec-Fetch-Site": "same-origin"}
        return self._client(url).post(url, data=fields, headers=origin if self._client(url) is self._ours else {})

    def authorise(self, account: str, begin: str = "/sso/begin?issuer=company") -> str:
        """Begin at the console, sign in at the provider. Returns where it sends the browser back to."""
        return self.authorise_at(account, f"{self.console}{begin}")

    def authorise_for_command(self, account: str, place: str) -> str:
        """Continue a sign-in that a command began. Returns where it listens, with the code for it."""
        fields = dict(_HIDDEN.findall(self.get(place).text)) | {"issuer": "company"}
        onward = self.post(f"{self.console}/sso/command", fields)
        return place_of_refresh(self.get(self.authorise_at(account, place_of_refresh(onward))))

    def authorise_at(self, account: str, place: str) -> str:
        response = self.get(place)
        while True:
            while response.is_redirect:
                place = str(response.url.join(response.headers["location"]))
                if place.startswith(self.console):
                    return place
                response = self.get(place)
            (action,) = _ACTION.findall(response.text)[:1]
            fields = {html.unescape(name): html.unescape(value) for name, value in _HIDDEN.findall(response.text)}
            if 'name="login"' in response.text:
                fields |= {"login": account, "password": "any"}
            response = self.post(str(response.url.join(html.unescape(action))), fields)

    def sign_in(self, account: str) -> httpx.Response:
        """The page that the console answers the provider's redirect with."""
        return self.get(self.authorise(account))

    def page(self, path: str = "") -> httpx.Response:
        return self.get(f"{self.console}{path}")

    def send(self, path: str, **fields: str) -> httpx.Response:
        """A form of a page of the console."""
        (token,) = set(re.findall(r'name="form_token" value="([0-9a-f]{64})"', self.page("/tokens").text))
        return self.post(f"{self.console}{path}", {"form_token": token, **fields})


if __name__ == "__main__":  # the browser of a command: process.py CONSOLE ACCOUNT PLACE
    Browser(sys.argv[1]).get(Browser(sys.argv[1]).authorise_for_command(sys.argv[2], sys.argv[3]))
