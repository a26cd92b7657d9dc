"""The option of the listening sockets is set without a trace on the other open files of the process."""

import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from relaydeck.http.unread_responses import limit_unread


def test_it_sets_the_option_of_listening_sockets_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as other:
        assert limit_unread(2.5) == 1
        found = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in (listening, other)]
    assert found == [2500, 0]


def test_a_lock_on_a_file_ends_when_its_holder_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "opening"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    limit_unread(2.5)
    os.close(descriptor)
    with path.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_another_process_cannot_take_a_lock_that_sqlite_holds(tmp_path: Path) -> None:
    path = tmp_path / "relaydeck.db"
    take = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        limit_unread(2.5)
        other = subprocess.run([sys.executable, "-c", take], capture_output=True, text=True, timeout=60, check=False)
    assert "database is locked" in other.stderr
