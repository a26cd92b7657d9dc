"""Clients that announce a body or a chunk of 1 MiB and send all of it but one byte: on every kind of route, with and
without a credential.

`python -m tests.proofs.unfinished_bodies PORT COUNT TOKEN COOKIE` opens so many connections at once, waits until the
service has ended each of them, and prints how many got which status; 0: the connection was closed without a response.
"""

import asyncio
import json
import resource
import socket
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle, islice, product

MIB = 1_048_576
BODY = memoryview(b"x" * (MIB - 1))
SECONDS = 40.0  # more than the service takes
AT_A_TIME = 100  # connections that are being opened
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
OPERATIONS = [
    ("GET", "/api/v1/signers"),
    ("POST", "/api/v1/signers"),
    ("PATCH", "/api/v1/notifications/none"),
    ("GET", "/api/v1/relayers"),
    ("POST", "/api/v1/relayers/none/rpc"),
    ("GET", "/admin/v1/relayers"),
    ("POST", "/admin/v1/relayers"),
    ("POST", "/admin/v1/relayers/none/pause"),
    ("PATCH", "/admin/v1/networks/none"),
    ("DELETE", "/admin/v1/signers/none"),
    ("POST", "/admin/v1/apply"),
    ("GET", "/admin/v1/openapi.json"),
    ("GET", "/healthz"),
    ("HEAD", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/"),
    ("GET", "/nothing"),
    ("PUT", "/api/v1/signers"),
]
PAGES = [
    ("GET", "/console"),
    ("GET", "/console/sign-in"),
    ("POST", "/console/sign-in"),
    ("POST", "/console/relayers"),
    ("POST", "/console/apply"),
    ("POST", "/console/nothing"),
    ("GET", "/console/assets/console.css"),
]


def heads(port: int, token: str, cookie: str) -> list[bytes]:
    """The beginnings of the requests, every kind once."""
    host = f"127.0.0.1:{port}"
    common = [f"Host: {host}", f"Origin: http://{host}"]
    framings = [(f"Content-Length: {MIB}", ""), ("Transfer-Encoding: chunked", f"{MIB:x}\r\n")]
    kinds = [(each, JSON, f"Authorization: Bearer {token}") for each in OPERATIONS]
    kinds += [(each, FORM, f"Cookie: {cookie}") for each in PAGES]
    found = []
    for ((method, path), content_type, credential), known, (framing, begin) in product(kinds, (True, False), framings):
        lines = [f"{method} {path} HTTP/1.1", *common, framing, f"Content-Type: {content_type}"]
        found.append("\r\n".join([*lines, *([credential] if known else []), "", begin]).encode())
    return found


async def one(port: int, head: bytes, opening: asyncio.Semaphore) -> int:
    """Hold the connection for as long as the service lets it."""
    loop, received = asyncio.get_running_loop(), b""
    with socket.socket() as connection, suppress(OSError, TimeoutError):
        connection.setblocking(False)
        async with opening:
            await loop.sock_connect(connection, ("127.0.0.1", port))
        async with asyncio.timeout(SECONDS):
            sending = loop.create_task(send(connection, head))
            try:
                while part := await loop.sock_recv(connection, 65_536):
                    received = received or part
            finally:
                sending.cancel()
                await asyncio.wait({sending})
    return int(received.split()[1]) if received else 0


async def send(connection: socket.socket, head: bytes) -> None:
    with suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(connection, head)
        await asyncio.get_running_loop().sock_sendall(connection, BODY)


async def attack(port: int, count: int, token: str, cookie: str) -> Counter[int]:
    opening = asyncio.Semaphore(AT_A_TIME)
    every = islice(cycle(heads(port, token, cookie)), count)
    return Counter(await asyncio.gather(*(one(port, head, opening) for head in every)))


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5]))))
