"""Poolers between Relaydeck and PostgreSQL: the PgBouncer that `make prove` sets up, and a stand-in for tests."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from relaydeck.settings.values import DatabaseUrl
from tests.support.postgres import NOBODY, PASSWORD, PostgresServer, through
from tests.support.running import eventually, free_port

_READY = b"Z\x00\x00\x00\x05I"

PGBOUNCER = Path(sys.prefix) / "bin" / "pgbouncer"


class PgBouncer:
    """A real one in front of a server. `settings` are those of the section `[pgbouncer]`."""

    def __init__(self, server: PostgresServer, **settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="relaydeck-pgbouncer-"))
        self.port = free_port()
        own = {"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "plain"}
        listed = own | {"auth_file": self._folder / "users"} | settings
        (self._folder / "users").write_text(f'"relaydeck" "{PASSWORD}"\n')
        (self._folder / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in listed.items())
        )
        program, self._account = PGBOUNCER, dict[str, Any]()
        if os.getuid() == 0:  # it refuses to run as root, and others may not enter a checkout below /root
            self._account = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            beside = (Path(sys.prefix) / "lib" / "pgbouncer").glob("*")  # with the libraries that the machine lacks
            copies = [Path(shutil.copy(each, self._folder)) for each in [*beside] or [program]]
            program = self._folder / "pgbouncer"
            assert program in copies
        for path in (self._folder, *self._folder.rglob("*")):
            path.chmod(0o755)
        self._program = program
        self.start()

    def start(self) -> None:
        environment = {"LD_LIBRARY_PATH": str(self._program.parent)}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, self._folder / "ini"], env=environment, stderr=log, cwd="/", **self._account
            )
        eventually(self._accepts)

    def _accepts(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10):
            return True
        return False

    def pooled(self, url: DatabaseUrl) -> DatabaseUrl:
        """The same database through the pooler."""
        return through(url, self.port)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)


class TransactionPooler:
    """All its clients share one session of the server, one after the other.

    It does no more than a check at the start needs: the first client logs in at the server, every other one is answered
    with the same welcome.
    """

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
