"""Runs `relaydeck` commands in processes of their own without paying for Python's start and our imports each time.

One process imports the package and then forks for each command: arguments, environment, standard input and output and
exit code are a command's own, as if it had been started with `python -m relaydeck`. That saves nine tenths of the time
of a short command, and the tests run hundreds of them.
"""

import atexit
import gc
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple, NoReturn

_MAX_MESSAGE = 1 << 20
_LOADED_LATE = ("click._textwrap", "importlib.readers", "psycopg", "redis", "rich.progress", "rich.table")


class Done(NamedTuple):
    """What a command left; named as in `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


class Forked:
    """A running command; used like a `subprocess.Popen`, of which it has what the tests need."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int(status.recv(100))
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = None

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("relaydeck", timeout)
            self.returncode = int(self._status.recv(100))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkServer:
    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[2],  # the first test that needs it may have left the folder
            )

    def fileno(self) -> int:
        """Of its control socket, for programs that have it run a command."""
        return self._control.fileno()

    def run(self, arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout: float) -> Done:
        """Run a command to its end; one that takes longer than `timeout` is killed."""
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            command = self._start(arguments, environment, [given, out, err], session=False)
            try:
                return Done(command.wait(timeout), _text(out), _text(err))
            except subprocess.TimeoutExpired:
                command.send_signal(signal.SIGKILL)
                raise

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> Forked:
        """Start a command in a session of its own, its standard output to be read, its standard error in `log`."""
        reading, writing = os.pipe()
        with open(os.devnull, "rb") as nothing, open(writing, "wb") as out:
            command = self._start(arguments, environment, [nothing, out, log], session=True)
        command.stdout = os.fdopen(reading, "rb")
        return command

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[IO[bytes]], *, session: bool
    ) -> Forked:
        message = json.dumps([list(arguments), dict(environment), os.getcwd(), session]).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = [file.fileno() for file in files]
            socket.send_fds(self._control, [message], [*numbers, theirs.fileno()])
        return Forked(ours)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def fork_server() -> ForkServer:
    """The one of this test process. It ends when its control socket is closed, at the latest with this process."""
    return ForkServer()


# -- in the server --------------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Fork for every message until there are no more; returns in the child that shall run a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the watchers need no parent
    while True:
        message, files, _, _ = socket.recv_fds(control, _MAX_MESSAGE, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            control.close()
            return _watch(message, files)
        for each in files:
            os.close(each)


def _watch(message: bytes, files: list[int]) -> None:
    """Fork once more; the parent reports the child's process id and exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        return _become(message, files)
    with socket.socket(fileno=files[3]) as status:
        status.send(str(child).encode())
        _, ended = os.waitpid(child, 0)
        status.send(str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def _become(message: bytes, files: list[int]) -> None:
    """Take over the command's arguments, environment and files."""
    arguments, environment, folder, session = json.loads(message)
    if session:
        os.setsid()
    for number, each in enumerate(files[:3]):
        os.dup2(each, number)
    for each in files:
        os.close(each)
    _open_standard_streams()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    random.seed()
    sys.argv[1:] = arguments


def _open_standard_streams() -> None:
    """As Python does at its start: whether one can seek or is a terminal depends on its file."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)


def _import_everything() -> None:
    """Our modules, those of others that commands load late, and the migrations, which every command reads."""
    import relaydeck
    from relaydeck.store.migrate import steps

    for name in _LOADED_LATE:
        import_module(name)

    for module in pkgutil.walk_packages(relaydeck.__path__, "relaydeck."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    assert "" not in [step.checksum for step in steps()]


def _run() -> NoReturn:
    """Run the command and end as Python would, except that nothing is torn down: that would copy all memory."""
    code: object = 0
    try:
        runpy.run_module("relaydeck", run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        code = exit_.code
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        del sys.argv[1:]
        _import_everything()
        gc.freeze()
        serve(listening)
    _run()
