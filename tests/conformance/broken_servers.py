"""Servers that do not speak the interface, or no HTTP at all: every connection gets the same treatment."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Treatment = Callable[[socket.socket], None]
_CHUNK = b"x" * 2**16


@contextmanager
def serving(treatment: Treatment) -> Iterator[str]:
    """The URL of a server that reads what arrives first and then does this. It ends with the context."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    held: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                held.append(connection)
                threading.Thread(target=_treat, args=(connection, treatment), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in held:
            each.close()


def _treat(connection: socket.socket, treatment: Treatment) -> None:
    with suppress(OSError), connection:
        connection.recv(65536)
        treatment(connection)


def drop(_: socket.socket) -> None:
    """Closes the connection without a response."""


def hang(connection: socket.socket) -> None:
    """Waits until the client goes away."""
    while connection.recv(65536):
        pass


def drip(connection: socket.socket) -> None:
    """Sends a header byte by byte, each of which comes in time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    stopped = threading.Event()
    while not stopped.wait(0.05):
        connection.sendall(b"x")


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        connection.sendall(_CHUNK)


def endless_continue(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def raw(response: bytes) -> Treatment:
    return lambda connection: connection.sendall(response)


def body(content: bytes, *headers: bytes) -> Treatment:
    head = b"".join(
        each + b"\r\n" for each in (b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(content), *headers, b"")
    )
    return raw(head + content)


def every(number: int, first: Treatment, rest: Treatment) -> Treatment:
    """`first` for every so many connections, `rest` for the others."""
    count = iter(range(10**9))
    return lambda connection: (first if next(count) % number == number - 1 else rest)(connection)


def _envelope(data: object, **more: object) -> bytes:
    listed = {"data": data, "success": True, "error": "", "metadata": {"logs": [], "traces": []}}
    return json.dumps(listed | {"pagination": {"current_page": 1, "per_page": 10, "total_items": 2}} | more).encode()


UNREACHABLE: dict[str, Treatment] = {
    "drops every connection": drop,
    "hangs": hang,
    "drips": drip,
    "endless body": endless,
    "endless interim responses": endless_continue,
    "no HTTP": raw(b"220 mail.example.com ESMTP\r\n"),
    "bad status line": raw(b"HTTP/1.1 abc OK\r\n\r\n"),
    "endless header": raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n"),
    "too many headers": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"),
    "bad chunks": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"),
    "body cut off": raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"data": []'),
}
RUBBISH: dict[str, Treatment] = {
    "empty": body(b""),
    "HTML": body(b"<html><body>It works!</body></html>"),
    "bad headers": body(b"{}", b": no name", b"no colon", b"\xff\xfe: \x00\x1b", b"Content-Type: \xe2\x28"),
    "invalid UTF-8": body(b'{"success": true, "data": "\xff\xfe"}'),
    "lone surrogates": body(b'{"success": true, "data": [{"id": "\\ud800\\udfff\\ud800"}], "message": "\\udc00"}'),
    "terminal escapes": body(b'{"success": "\\u001b[2J\\u0007\\u0000", "data": "\\u202e"}'),
    "deep nesting": body(b"[" * 100_000),
    "nesting at the limit": body(_envelope([{"id": "r", "config": None}]).replace(b"null", b"[" * 900 + b"]" * 900)),
    "duplicate fields": body(b'{"success": false, "success": true, "data": [], "data": {}, "pagination": 1}'),
    "NaN": body(_envelope(float("nan"))),
    "large numbers": body(_envelope([{"id": "r"}]).replace(b"10", b"9" * 4000)),
    "numbers that are too large": body(_envelope([{"id": "r"}]).replace(b"10", b"9" * 10_000)),
    "huge": body(b'{"data": "' + b"x" * 3_000_000 + b'"}'),
    "a list": body(b"[1, 2, 3]"),
    "a string": body(b'"data"'),
    "null": body(b"null"),
    "true": body(b"true"),
    "null everywhere": body(_envelope(None, error=None, metadata=None, pagination=None)),
    "lists everywhere": body(_envelope([[[]]], error=[], metadata=[1], pagination=[], success=[True])),
    "lists in records": body(
        _envelope([{"id": [], "type": [], "config": [], "policies": [], "custom_rpc_urls": {}, "disabled_reason": []}])
    ),
    "numbers in records": body(_envelope([{"id": 1, "config": 1, "policies": 1, "custom_rpc_urls": 1, "network": 1}])),
    "texts in records": body(
        _envelope([{"id": "r", "config": "c", "policies": "p", "custom_rpc_urls": "u", "disabled_reason": "d"}])
    ),
    "texts for objects": body(_envelope("data", metadata="m", pagination="p")),
    "logs of other types": body(_envelope([], metadata={"logs": [1, None, "x", []], "traces": 1})),
    "logs that are an object": body(_envelope({}, metadata={"logs": {"level": 1}, "traces": {}})),
    "negative numbers": body(_envelope([], pagination={"current_page": -1, "per_page": -1, "total_items": -5})),
    "a total that is too large": body(
        _envelope([{"id": "r"}], pagination={"current_page": 1, "per_page": 10, "total_items": 10**30})
    ),
    "infinite numbers": body(_envelope([{"id": "r"}]).replace(b"10", b"1e999")),
    "one object for all": body(_envelope({"id": "x", "type": "webhook", "url": "u", "has_signing_key": True})),
    "an error for all": body(b'{"data": null, "message": "Bad Request", "success": false}'),
    "an error with another message": body(b'{"data": null, "message": ["x"], "success": false}'),
    "JSON-RPC for all": body(b'{"jsonrpc": [], "id": {}, "result": [], "error": [], "success": false, "message": 1}'),
    "JSON-RPC of other types": body(_envelope([{"id": "r"}], jsonrpc=2, error="x", result="y")),
    "a limit of no end": body(
        b'{"data": null, "message": "Too Many Requests", "success": false}', b"Retry-After: 99999999999999999999"
    ),
    "redirects": raw(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "502 of a proxy": raw(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad"),
}
