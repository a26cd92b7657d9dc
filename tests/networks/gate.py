"""A reverse proxy in front of a real node, with TLS if it has a certificate, that requires a header."""

import asyncio
import datetime
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from relaydeck.process.background import TaskSet

_REFUSED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Gate:
    """Checks the first request of each connection, and passes on what follows."""

    def __init__(self, node: str, header: str, certificate: Path | None = None) -> None:
        self.port = 0
        self.accepted = self.refused = 0  # connections
        self._node = urlsplit(node)
        self._header = header.lower().encode()
        self._certificate = certificate
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet()

    async def __aenter__(self) -> "Gate":
        context = None
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._tasks.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if self._header not in head.lower().split(b"\r\n"):
                self.refused += 1
                writer.write(_REFUSED)
                await writer.drain()
                return
            self.accepted += 1
            await self._pass_on(head, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._node.hostname, self._node.port)
        try:
            forth.write(head)
            ends = [self._tasks.start(_pump(reader, forth)), self._tasks.start(_pump(back, writer))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forth.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def make_certificate(path: Path) -> Path:
    """Of localhost and 127.0.0.1, signed by itself; with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path
