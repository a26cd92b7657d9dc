"""An issuer whose private key the test has, to sign what no provider would: a stand-in, also for a hostile one."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key

AUDIENCE = "https://relay.example.com"
SUBJECT = "repo:acme/infra:ref:refs/heads/main"


class TestIssuer:
    __test__ = False

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key, self.kid = new_key(), "first"
        self.reads: list[str] = []  # the paths that were asked for
        self.answers: dict[str, bytes | int] = {}  # instead of the right ones: a body, or a status
        self.held: dict[str, threading.Event] = {}  # a path is not answered before this
        self.published = {self.kid: self.key}

    def rotate(self, kid: str) -> None:
        """Replace the key: the old one is not published any more."""
        self.key, self.kid = new_key(), kid
        self.published = {kid: self.key}

    def answer(self, path: str) -> bytes | int:
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            places = {"jwks_uri": "/keys", "authorization_endpoint": "/auth", "token_endpoint": "/token"}
            return json.dumps({"issuer": self.url} | {name: self.url + path for name, path in places.items()}).encode()
        return json.dumps({"keys": [public(kid, key) for kid, key in self.published.items()]}).encode()

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "exp": now + 600}
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, headers: dict[str, Any] | None = None, **changed: Any) -> str:
        """A valid token, unless claims are changed; None leaves a claim out."""
        return jwt.encode(self.claims(**changed), self.key, "ES256", headers={"kid": self.kid, **(headers or {})})

    def signed_by_hand(self, header: dict[str, Any], secret: bytes | None, **changed: Any) -> str:
        """With an HMAC, or with no signature."""
        content = encoded(header) + b"." + encoded(self.claims(**changed))
        mac = b"" if secret is None else hmac.digest(secret, content, hashlib.sha256)
        return (content + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()

    def settings(self, **changed: Any) -> dict[str, Any]:
        rules = [{"claims": {"sub": SUBJECT}, "role": "admin"}, {"claims": {"sub": "list*"}, "role": "readonly"}]
        usual = {"name": "ci", "url": self.url, "audience": [AUDIENCE], "allow": ["127.0.0.1"], "rules": rules}
        return usual | changed


def encoded(part: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")


def new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def public(kid: str, key: EllipticCurvePrivateKey) -> dict[str, Any]:
    found: dict[str, Any] = jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key(), as_dict=True)
    return found | {"kid": kid, "use": "sig", "alg": "ES256"}


@contextmanager
def serving_issuer() -> Iterator[TestIssuer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.issuer = TestIssuer(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.issuer  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        issuer: TestIssuer = self.server.issuer  # type: ignore[attr-defined]
        issuer.reads.append(self.path)
        if self.path in issuer.held:
            issuer.held[self.path].wait(30)
        answer = issuer.answer(self.path)
        body = b"" if isinstance(answer, int) else answer
        self.send_response(answer if isinstance(answer, int) else 200)
        self.send_header("Content-Length", str(len(body)))
        if isinstance(answer, int):
            self.send_header("Location", f"{issuer.url}/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
