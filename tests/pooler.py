"""A stand-in for a pooler in transaction mode: all its clients share one session of the server, one after the other.

It does no more than a check at the start needs: the first client logs in at the server, every other one is answered
with the same welcome.
"""

import socket
import struct
import threading
from contextlib import suppress

_READY = b"Z\x00\x00\x00\x05I"


class TransactionPooler:
    def __init__(self, server_port: int) -> None:
        self._server = socket.create_connection(("127.0.0.1", server_port), timeout=60)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._welcome = b""
        self._turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            startup = _startup(client)
            with self._turn:
                self._log_in(client, startup)
            while data := client.recv(65536):
                if data[:1] == b"X":
                    return
                with self._turn:
                    self._server.sendall(data)
                    client.sendall(self._until_ready())

    def _log_in(self, client: socket.socket, startup: bytes) -> None:
        if not self._welcome:
            self._server.sendall(startup)
            client.sendall(self._server.recv(65536))  # asks for the password
            self._server.sendall(client.recv(65536))
            self._welcome = self._until_ready()
        client.sendall(self._welcome)

    def _until_ready(self) -> bytes:
        answer = b""
        while not answer.endswith(_READY):
            answer += self._server.recv(65536)
        return answer


def _startup(client: socket.socket) -> bytes:
    """The first message of a client, after it was refused encryption."""
    while True:
        data = client.recv(65536)
        if struct.unpack(">I", data[4:8])[0] >> 16 == 3:
            return data
        client.sendall(b"N")
