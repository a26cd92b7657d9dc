"""Both clients over TLS: they accept what the given authority signed for this host name, and nothing else."""

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relaydeck.client import ClientError, ConnectFailed, ConnectionLost
from tests.support.client_styles import STYLES, Style
from tests.support.fork_server import Done
from tests.support.running import Running, run_command
from tests.support.seeding import issue
from tests.support.tls import RunningTls

CONFIG = {"key_id": "alias/ops", "region": "eu"}
Connect = Callable[[str, ssl.SSLContext | None], Style]


class Authority(NamedTuple):
    """A private certificate authority, and a certificate of its own for `localhost`."""

    certificate: Path
    chain: Path
    key: Path


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey
) -> bytes:
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("authority")
    own, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    made = Authority(folder / "authority.pem", folder / "chain.pem", folder / "key.pem")
    made.certificate.write_bytes(certificate("A private authority", own, "A private authority", own))
    made.chain.write_bytes(certificate("localhost", key, "A private authority", own) + made.certificate.read_bytes())
    made.key.write_bytes(pem(key))
    return made


@pytest.fixture(scope="module")
def served(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTls]:
    home = tmp_path_factory.mktemp("https") / "home"
    with RunningTls(home, authority.chain, authority.key, token=issue(home, "root", "admin")) as running:
        yield running


@pytest.fixture(params=STYLES)
def connect(request: pytest.FixtureRequest, served: RunningTls) -> Iterator[Connect]:
    opened: list[Style] = []

    def open_one(url: str, context: ssl.SSLContext | None) -> Style:
        opened.append(Style(request.param, f"{url}:{served.port}", served.token, ssl_context=context))
        return opened[-1]

    yield open_one
    for style in opened:
        style.__exit__(None, None, None)


def refusal(style: Style) -> ClientError:
    with pytest.raises(ClientError) as caught:
        style.do(lambda client: client.create_signer("provider_a_kms", CONFIG))
    return caught.value


def signers(served: Running, authority: Authority) -> int:
    context = ssl.create_default_context(cafile=authority.certificate)
    with Style("sync", f"https://localhost:{served.port}", served.token, ssl_context=context) as style:
        total: int = style.do(lambda client: client.list_signers()).total_items
        return total


def test_a_certificate_of_the_given_authority_is_accepted(connect: Connect, authority: Authority) -> None:
    style = connect("https://localhost", ssl.create_default_context(cafile=authority.certificate))
    created = style.do(lambda client: client.create_signer("provider_a_kms", CONFIG))
    assert created.id in [each.id for each in style.do(lambda client: client.signers())]


def test_a_certificate_of_an_unknown_authority_is_refused_and_nothing_is_sent(
    connect: Connect, served: RunningTls, authority: Authority
) -> None:
    before = signers(served, authority)
    error = refusal(connect("https://localhost", None))
    assert (type(error), error.uncertain) == (ConnectFailed, False)
    assert str(error).startswith(f"cannot connect to https://localhost:{served.port}: ")
    assert "certificate verify failed" in str(error)
    assert signers(served, authority) == before


def test_a_certificate_for_another_host_name_is_refused_and_nothing_is_sent(
    connect: Connect, served: RunningTls, authority: Authority
) -> None:
    before = signers(served, authority)
    error = refusal(connect("https://127.0.0.1", ssl.create_default_context(cafile=authority.certificate)))
    assert (type(error), error.uncertain) == (ConnectFailed, False)
    assert "certificate is not valid for '127.0.0.1'" in str(error)
    assert signers(served, authority) == before


def test_plain_http_to_a_tls_port_is_a_lost_connection(connect: Connect, served: RunningTls) -> None:
    error = refusal(connect("http://localhost", None))
    assert isinstance(error, ConnectionLost)


def test_no_error_shows_the_token(connect: Connect, served: RunningTls) -> None:
    for url in ("https://localhost", "https://127.0.0.1", "http://localhost"):
        style = connect(url, None)
        assert served.token not in f"{refusal(style)!r} {refusal(style)} {style.client!r}"


# -- commands ------------------------------------------------------------------------------------


def listed(served: RunningTls, tmp_path: Path, url: str) -> Done:
    return run_command(tmp_path, "network", "list", "--json", url=f"{url}:{served.port}", token=served.token)


def test_a_command_trusts_the_authority_that_the_environment_names(
    served: RunningTls, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    assert listed(served, tmp_path, "https://localhost") == (0, "[]\n", "")


def test_a_command_names_what_is_wrong_with_a_certificate(served: RunningTls, tmp_path: Path) -> None:
    done = listed(served, tmp_path, "https://localhost")
    problem, remedy = done.stderr.splitlines()
    assert problem.startswith(
        f"relaydeck: cannot connect to https://localhost:{served.port}: its TLS certificate is not trusted: "
    )
    assert "_ssl.c" not in problem
    assert remedy == "For a private certificate authority, set SSL_CERT_FILE to its certificate (PEM)."


def test_a_command_without_tls_hints_at_it(served: RunningTls, tmp_path: Path) -> None:
    done = listed(served, tmp_path, "http://localhost")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "If the server uses TLS, its URL starts with https://."
