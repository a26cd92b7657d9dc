"""A service that is served over TLS."""

import datetime
import http.client
import ssl
import time
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.running import Running


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for `localhost` and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


class RunningTls(Running):
    """Waits for a TLS handshake instead of a plain answer."""

    def __init__(self, home: Path, cert: Path, key: Path, **options: Any) -> None:
        self.context = ssl.create_default_context(cafile=cert)
        super().__init__(home, "--tls-cert", str(cert), "--tls-key", str(key), **options)

    def await_answer(self) -> None:
        deadline = time.monotonic() + 300
        while True:
            try:
                self.get("/healthz", "")
                return
            except OSError:
                assert self.process.poll() is None, f"it did not start: {self.log}"
                assert time.monotonic() < deadline, f"it did not answer: {self.log}"
                time.sleep(0.01)

    def __enter__(self) -> "RunningTls":
        return self

    def get(self, path: str, token: str) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.context)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
