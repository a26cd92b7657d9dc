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
        self._connections: list[_Connection] = []
        self._trigger = b""
        self.silenced = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passing.clear()

    def heal(self) -> None:
        """Connections from before end, as with a router that has forgotten them."""
        self._end_connections()
        self._passing.set()

    def silence(self) -> None:
        """Nothing passes on the present connections any more, and nobody learns that. New ones work."""
        for each in self._connections:
            each.is_silent = True

    def silence_after(self, request: bytes) -> None:
        """The same for the next connection that sends this to the server: it arrives, and nothing comes back."""
        self.silenced.clear()
        self._trigger = request

    def close(self) -> None:
        self._listener.close()
        self.heal()

    def _end_connections(self) -> None:
        old, self._connections = self._connections, []
        for each in old:
            each.end()

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
        connection = _Connection(client, server)
        self._connections.append(connection)
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(connection, source, sink), daemon=True).start()

    def _forward(self, connection: "_Connection", source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                self._passing.wait()
                if connection.is_silent:
                    return
                if self._trigger and sink is connection.server and self._trigger in content:
                    self._trigger, connection.is_silent = b"", True
                    sink.sendall(content)
                    self.silenced.set()
                    return
                sink.sendall(content)
        if not connection.is_silent:
            connection.end()


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self.server = client, server
        self.is_silent = False

    def end(self) -> None:
        for each in (self._client, self.server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
