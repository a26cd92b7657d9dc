"""Bytes on a socket, for clients that no library would be."""

import http.client
import socket
from collections.abc import Iterator
from typing import BinaryIO

from tests.support.running import Answer, Running


class Wire:
    """One connection to a running service."""

    def __init__(self, running: Running, seconds: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", running.port), timeout=seconds)
        self._token = running.token

    def head(self, method: str, path: str, *headers: str, token: str | None = None) -> bytes:
        bearer = self._token if token is None else token
        lines = [f"{method} {path} HTTP/1.1", "Host: test", f"Authorization: Bearer {bearer}", *headers, "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """The next whole answer."""
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        body = response.read()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def answers(self, amount: int) -> Iterator[Answer]:
        """So many answers that came one after the other, whatever way they were cut up."""
        with self.socket.makefile("rb") as stream:
            for _ in range(amount):
                first = stream.readline()
                if not first:
                    raise ConnectionResetError
                status = int(first.split()[1])
                headers = dict(_headers(stream))
                yield Answer(status, headers, stream.read(int(headers["content-length"])))

    def closed(self) -> bool:
        """Whether the other side ends the connection, within the time given, without another word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _headers(stream: BinaryIO) -> Iterator[tuple[str, str]]:
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        yield name.lower(), value.strip()


def chunked(body: bytes, size: int = 65_536) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
