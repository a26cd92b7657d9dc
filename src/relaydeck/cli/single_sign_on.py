"""Signs a person in at a server with a browser on this machine: `relaydeck login --sso`.

The server's page leads to the identity provider and from there back to this command, which listens on a free port of
the loopback address (RFC 8252). What the browser brings is of use only with the verifier (PKCE), which stays here.
"""

import base64
import hashlib
import hmac
import secrets
import threading
import time
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import click
import msgspec

from relaydeck.client.blocking_transport import send_once
from relaydeck.client.calls import Request, Response
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret

SESSION = "p-"  # begins the secret of a session of a person
_WAIT_SECONDS = 300
_TIMEOUT_SECONDS = 30.0
_MOST_BYTES, _LONGEST_PROBLEM = 65_536, 500
_AGAIN = "Run 'relaydeck login --sso' again."
_DONE = b"Back to the command: it says whether you are signed in. You can close this page.\n"


class _Answer(msgspec.Struct, frozen=True):
    access_token: str = ""
    error_description: str = ""


class _Listener(HTTPServer):
    """Waits for the browser. Whatever else calls this port gets 404."""

    state, code, problem, is_answered = "", "", "", False


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = 5  # a connection that sends nothing must not keep the browser out

    def do_GET(self) -> None:
        query = {name: each[0] for name, each in parse_qs(urlsplit(self.path).query).items()}
        is_ours = hmac.compare_digest(query.get("state", "").encode(), self.server.state.encode())
        if is_ours:
            self.server.code, self.server.is_answered = query.get("code", ""), True
            self.server.problem = query.get("error_description", "")[:_LONGEST_PROBLEM]
        self.send_response(200 if is_ours else 404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(_DONE if is_ours else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the request has the code."""


def sign_in(url: str, wait_seconds: float = _WAIT_SECONDS) -> Secret:
    """The secret of a session, if the browser comes back in this time. Raises OperatorError."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    with _Listener(("127.0.0.1", 0), _Handler) as listener:
        listener.state, listener.timeout = secrets.token_urlsafe(24), 1
        asked = {"port": listener.server_port, "challenge": challenge, "state": listener.state}
        place = f"{url.rstrip('/')}/console/sso/command?{urlencode(asked)}"
        click.echo(
            f"Sign in with a browser on this machine. The page shows {challenge[:4]}-{challenge[4:8]}.", err=True
        )
        click.echo(place, err=True)
        threading.Thread(target=webbrowser.open, args=(place,), daemon=True).start()  # some wait for the browser's end
        until = time.monotonic() + wait_seconds
        while not listener.is_answered and time.monotonic() < until:
            listener.handle_request()
    if not listener.code:
        problem = listener.problem or "the provider did not sign you in"
        waited = f"nobody signed in within {wait_seconds / 60:g} minutes"
        raise OperatorError(problem if listener.is_answered else waited, _AGAIN)
    answer = _post(url, "token", {"code": listener.code, "code_verifier": verifier})
    try:
        found = msgspec.json.decode(answer.body, type=_Answer)
    except msgspec.DecodeError:
        found = _Answer()
    if answer.status != 200 or not found.access_token.startswith(SESSION):
        raise OperatorError(found.error_description or f"{url} answered HTTP {answer.status}", _AGAIN)
    return Secret(found.access_token)


def sign_out(url: str, session: Secret) -> None:
    """End the session of a profile that was removed. Raises OperatorError."""
    try:
        status = _post(url, "revoke", {"token": session.reveal()}).status
        problem = "" if status == 200 else f"{url} answered HTTP {status}"
    except OperatorError as error:
        problem = error.problem
    if problem:
        raise OperatorError(
            f"the profile was removed, but its session could not be ended: {problem}",
            "The session ends by itself when it is not used.",
        )


def _post(url: str, path: str, form: Mapping[str, str]) -> Response:
    content = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    request = Request("POST", f"/console/sso/{path}", content, urlencode(form).encode())
    outcome = send_once(url, request, _TIMEOUT_SECONDS, _MOST_BYTES)
    if not isinstance(outcome, Response):
        raise OperatorError(f"{url}: {outcome}", "Check the URL, and that the service is running.")
    return outcome
