"""Sends requests over kept-alive connections with the standard library's `http.client`."""

import http.client
import io
import select
import socket
import ssl
import time
from collections import deque
from contextlib import closing
from typing import Any

from relaydeck.client.calls import Outcome, Request, Response
from relaydeck.client.errors import ConnectFailed, ConnectionLost, TimedOut, TransportError
from relaydeck.client.exchange import Address, read_address, too_large

_MOST_IDLE = 16
_NEARLY = 0.95  # of the time that a socket waits by itself: close enough to the time that remains


class ConnectionPool:
    """As many connections as threads use at once; idle ones are kept for the next request."""

    def __init__(self, address: Address, timeout: float, ssl_context: ssl.SSLContext | None, most_bytes: int) -> None:
        self._address = address
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._ssl_context = ssl_context or (ssl.create_default_context() if address.secure else None)
        self._host_line = f"Host: {address.origin.partition('://')[2]}"
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=_MOST_IDLE)

    def send(self, request: Request) -> Outcome:
        """One attempt. What goes wrong on the way is returned, not raised."""
        deadline = time.monotonic() + self._timeout
        connection = self._idle_connection()
        if connection is None:
            connection = self._new_connection()
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                return ConnectFailed(f"cannot connect to {self._address.origin}: {_name(error)}")
        return self._sent(connection, request, deadline)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _sent(self, connection: http.client.HTTPConnection, request: Request, deadline: float) -> Outcome:
        failure: TransportError
        try:
            if connection.sock.gettimeout() != self._timeout:
                connection.sock.settimeout(self._timeout)  # a slow response before this one shortened it
            connection.sock.sendall(self._encoded(request))
            answer = http.client.HTTPResponse(_TimedReader(connection.sock, deadline), method=request.method)  # type: ignore[arg-type]
            answer.begin()
            body = self._body(answer)
            if body is None:
                connection.close()
                return too_large(answer.status, self._most_bytes)
            response = Response(answer.status, answer.headers, body)
            if answer.will_close:
                connection.close()
            else:
                self._keep(connection)
            return response
        except TimeoutError:
            failure = TimedOut(f"no complete response within {self._timeout:g} s")
        except (OSError, http.client.HTTPException, ValueError) as error:
            failure = ConnectionLost(f"the connection broke before the response was complete ({_name(error)})")
        except BaseException:
            connection.close()  # half of a response must not be read as the next one's
            raise
        connection.close()
        return failure

    def _body(self, answer: http.client.HTTPResponse) -> bytes | None:
        if answer.length is not None:
            return answer.read() if answer.length <= self._most_bytes else None
        body = answer.read(self._most_bytes + 1)
        return body if len(body) <= self._most_bytes else None

    def _encoded(self, request: Request) -> bytes:
        """`http.client` would check each header again, for a sixth of the time that a request takes."""
        lines = [f"{request.method} {request.target} HTTP/1.1", self._host_line]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if request.body is None:
            return "\r\n".join([*lines, "\r\n"]).encode("ascii")
        return "\r\n".join([*lines, f"Content-Length: {len(request.body)}", "\r\n"]).encode("ascii") + request.body

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        """The one used last, unless the service has closed it meanwhile."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _is_readable(connection.sock):
                return connection
            connection.close()

    def _new_connection(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._ssl_context is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._ssl_context)


def send_once(url: str, request: Request, seconds: float, most_bytes: int) -> Outcome:
    """One attempt over a connection of its own. The target of the request is below the path of `url`."""
    address = read_address(url)
    with closing(ConnectionPool(address, seconds, None, most_bytes)) as connections:
        return connections.send(request._replace(target=address.prefix + request.target))


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline: a response that arrives byte by byte does not renew its time.

    For `http.client.HTTPResponse` it is the socket.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._socket = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        if remaining < _NEARLY * (self._socket.gettimeout() or 0.0):  # each change is a system call
            self._socket.settimeout(remaining)
        return self._socket.recv_into(buffer)


def _name(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _is_readable(sock: socket.socket) -> bool:
    """Nothing is expected on an idle connection: if there is something, it is its end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
