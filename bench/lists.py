"""The two lists, ten items a page, against the bare application and against nginx."""

from contextlib import ExitStack
from pathlib import Path

from bench.comparing import Side
from bench.homes import make_home
from bench.load import Request
from bench.nginx import serve_files
from bench.processes import Server
from bench.rows import CPU, Row, cpu_and_throughput
from bench.run import RELAYERS, SIGNERS, Run, get, started_bare, started_relaydeck
from bench.service import first_answer

_AT_MOST_BARE = 1.33
_BARE = "bare application, same server, same bytes"
_NGINX = "nginx, same bytes from a file"


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "lists", signers=10, relayers=10)
    with ExitStack() as stack:
        ours = started_relaydeck(stack, home)
        answers = {path: run.capture(path.rpartition("/")[2], ours, get(home, path)) for path in (SIGNERS, RELAYERS)}
        nginx = _nginx(stack, run, answers)
        rows: list[Row] = []
        for name, path in (("list-signers", SIGNERS), ("list-relayers", RELAYERS)):
            rows += _one_list(run, name, get(home, path), ours, started_bare(stack, answers[path]), nginx)
        return rows


def _nginx(stack: ExitStack, run: Run, answers: dict[str, Path]) -> Server | None:
    if run.nginx is None:
        return None
    files = {path: answer.read_bytes() for path, answer in answers.items()}
    server = stack.enter_context(serve_files(run.nginx, run.folder / "nginx", files))
    first_answer(server, Request("GET", SIGNERS, {}))
    return server


def _one_list(run: Run, name: str, request: Request, ours: Server, bare: Server, nginx: Server | None) -> list[Row]:
    sides = [Side("ours", ours, request), Side("bare", bare, request)]
    if nginx is not None:
        sides.append(Side("nginx", nginx, request))
    found = run.compare(name, sides)
    rows = cpu_and_throughput(name, _BARE, found, "ours", "bare", at_most=_AT_MOST_BARE)
    if nginx is None:
        return [
            *rows,
            Row(name, _NGINX, CPU, None, note="nginx is not installed, and only root may fetch it"),
        ]
    return rows + cpu_and_throughput(name, _NGINX, found, "ours", "nginx")
