"""A network between the service and its database that can be cut."""

import socket
import threading
from contextlib import suppress


class Proxy:
    """Forwards connections to a port. While it is cut nothing passes, and nothing is closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passing.clear()

    def heal(self) -> None:
        """Connections from before end, as with a router that has forgotten them."""
        self._end_connections()
        self._passing.set()

    def close(self) -> None:
        self._listener.close()
        self.heal()

    def _end_connections(self) -> None:
        old, self._connections = self._connections, []
        for each in old:
            _end(each)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._passing.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._connections += [client, server]
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                self._passing.wait()
                sink.sendall(content)
        for each in (source, sink):
            _end(each)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
