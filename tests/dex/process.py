"""Starts and stops Dex, an identity provider, in memory and on loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.single_sign_on.process import SECRET, RunningProvider
from tests.support.running import eventually, free_port

PROGRAM = Path(sys.prefix) / "dex" / "dex"
PERSON = "kilgore@kilgore.trout"  # the only one that Dex has for tests


class Dex:
    def __init__(self, folder: Path, console: str, behind: RunningProvider | None = None) -> None:
        """`behind`: the provider at which Dex has people sign in. None: it knows one person itself."""
        port = free_port()
        self.url, self.callback = f"http://127.0.0.1:{port}/dex", f"{console}/sso/callback"
        self._config, self._secret = folder / "dex.json", folder / "client-secret"
        self._secret.write_text(SECRET)
        login: dict[str, Any] = {"username": "kilgore", "password": "any"}
        connector = {"type": "mockPassword", "id": "mock", "name": "Mock", "config": login}
        if behind is not None:
            behind.callback = f"{self.url}/callback"
            connector = {"type": "oidc", "id": "company", "name": "Company", "config": _signing_in_at(behind)}
        config = {
            "issuer": self.url,
            "storage": {"type": "memory"},
            "web": {"http": f"127.0.0.1:{port}"},
            "oauth2": {"skipApprovalScreen": True},
            "staticClients": [
                {"id": "relaydeck", "name": "Relaydeck", "secret": SECRET, "redirectURIs": [self.callback]}
            ],
            "connectors": [connector],
        }
        self._config.write_text(json.dumps(config))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """With new keys, and without what it knew before."""
        if not PROGRAM.exists():
            raise RuntimeError(f"the test identity provider is not built: run tests/dex/install {PROGRAM}")
        command = [str(PROGRAM), "serve", str(self._config)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/keys").status_code == 200
        except httpx.TransportError:
            return False

    def keys(self) -> list[str]:
        return [each["kid"] for each in httpx.get(f"{self.url}/keys").json()["keys"]]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def settings(self, **changed: Any) -> dict[str, Any]:
        usual = {
            "name": "company",
            "url": self.url,
            "client_id": "relaydeck",
            "client_secret_file": str(self._secret),
            "redirect_uri": self.callback,
            "scopes": ["openid", "email", "groups", "offline_access"],
            "allow": ["127.0.0.1"],
            "rules": [{"claims": {"email": PERSON}, "role": "viewer"}],
        }
        return usual | changed


def _signing_in_at(provider: RunningProvider) -> dict[str, Any]:
    return {
        "issuer": provider.url,
        "clientID": "relaydeck",
        "clientSecret": SECRET,
        "redirectURI": provider.callback,
        "scopes": ["email", "groups", "offline_access"],
        "userNameKey": "email",
        "insecureEnableGroups": True,  # what Dex calls taking them from claims
    }


@contextmanager
def running_dex(folder: Path, console: str, behind: RunningProvider | None = None) -> Iterator[Dex]:
    dex = Dex(folder, console, behind)
    try:
        if behind is not None:
            behind.start("first")  # Dex asks it when it starts
        dex.start()
        yield dex
    finally:
        dex.stop()
        if behind is not None:
            behind.stop()
