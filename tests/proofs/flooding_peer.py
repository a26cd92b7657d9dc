"""A peer that floods its clients, in a process of its own: `python -m tests.proofs.flooding_peer KIND`.

It prints its port. Then it sends without end to each client, or answers each JSON-RPC request with a megabyte.
"""

import base64
import hashlib
import re
import socket
import sys
import threading
from contextlib import suppress

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
# What is sent first, and what is then sent again and again.
HTTP_FLOODS = {
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "header lines": (HEAD, b"X-Flood: y\r\n"),
    "one header line": (HEAD + b"X-Flood: ", b"y" * 64),
    "a status line": (b"HTTP/1.1 200 ", b"OK" * 32),
    "chunks of one byte": (CHUNKED, b"1\r\nx\r\n"),
    "chunks of 32 bytes": (CHUNKED, b"20\r\n" + b"x" * 32 + b"\r\n"),
    "a chunk extension": (CHUNKED + b"1;", b"x" * 64),
    "chunk extensions": (CHUNKED, b"1;x=y\r\nx\r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"X-Flood: y\r\n"),
    "responses": (b"", HEAD + b"Content-Length: 0\r\n\r\n"),
    "a body": (HEAD + b"Content-Length: 999999999999\r\n\r\n", b"x" * 64),
}
WEBSOCKET_FLOODS = {
    "messages": (b"", b"\x81\x02{}"),
    "empty messages": (b"", b"\x82\x00"),
    "pings": (b"", b"\x89\x00"),
    "pongs": (b"", b"\x8a\x01x"),
    "fragments": (b"\x01\x00", b"\x00\x00"),
    "fragments of one byte": (b"\x01\x00", b"\x00\x01x"),
    "a message": (b"\x82\x7f\x00\x00\x00\x00\x00\x40\x00\x00", b"x" * 64),
}
FLOODS = HTTP_FLOODS | WEBSOCKET_FLOODS
MEGABYTE = 1_000_000
# The error object of each JSON-RPC answer.
RPC_FLOODS = {
    "an error message of 1 MB": b'{"code":-32000,"message":"%b"}' % (b"state " * (MEGABYTE // 6)),
    "1 MB of empty arrays": b'{"code":-32000,"message":"m","data":[%b[]]}' % (b"[]," * (MEGABYTE // 3)),
}


def send_to(client: socket.socket, kind: str) -> None:
    first, again = FLOODS[kind]
    with suppress(OSError), client:
        request = client.recv(65_536)
        if not request:
            return
        client.sendall((upgrade(request) if kind in WEBSOCKET_FLOODS else b"") + first)
        while True:
            client.sendall(again * 4096)


def answer_rpc(client: socket.socket, kind: str) -> None:
    """Over HTTP, or over a WebSocket if the client opens one."""
    with suppress(OSError), client:
        received = client.recv(65_536)
        is_websocket = b"Sec-WebSocket-Key" in received
        if is_websocket:
            client.sendall(upgrade(received))
            received = client.recv(65_536)
        while received:
            for number in re.findall(rb'"id":(\d+)', unmasked(received) if is_websocket else received):
                body = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (number, RPC_FLOODS[kind])
                length = b"\x81\x7f" + len(body).to_bytes(8, "big") if is_websocket else head_of(body)
                client.sendall(length + body)
            received = client.recv(65_536)


def head_of(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body)


def unmasked(frames: bytes) -> bytes:
    """The payloads of short frames (RFC 6455, section 5.2)."""
    payloads = b""
    while len(frames) >= 6:
        length, mask = frames[1] & 0x7F, frames[2:6]
        payloads += bytes(byte ^ mask[i % 4] for i, byte in enumerate(frames[6 : 6 + length]))
        frames = frames[6 + length :]
    return payloads


def upgrade(request: bytes) -> bytes:
    """RFC 6455, section 4.2.2."""
    found = re.search(rb"Sec-WebSocket-Key: (\S+)", request)
    assert found is not None
    accepted = base64.b64encode(hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    return head + b"Sec-WebSocket-Accept: " + accepted + b"\r\n\r\n"


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        serve = answer_rpc if sys.argv[1] in RPC_FLOODS else send_to
        while True:
            threading.Thread(target=serve, args=(server.accept()[0], sys.argv[1]), daemon=True).start()
