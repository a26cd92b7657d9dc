"""The two lists, ten items a page, against the bare application and against nginx."""

from contextlib import ExitStack
from functools import partial

from bench.comparing import Side
from bench.homes import Home, make_home
from bench.nginx import serve_files
from bench.rows import CPU, Row, cpu_and_throughput
from bench.run import RELAYERS, SIGNERS, Run, get, started_bare, warm_relaydeck
from bench.service import first_answer

_AT_MOST_BARE = 1.33
_BARE = "bare application, same server, same bytes"
_NGINX = "nginx, same bytes from a file"


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "lists", signers=10, relayers=10)
    return [
        row
        for name, path in (("list-signers", SIGNERS), ("list-relayers", RELAYERS))
        for row in _one_list(run, name, path, home)
    ]


def _one_list(run: Run, name: str, path: str, home: Home) -> list[Row]:
    found = run.compare_fresh(name, partial(_sides, run, path, home))
    rows = cpu_and_throughput(name, _BARE, found, "ours", "bare", at_most=_AT_MOST_BARE)
    if run.nginx is None:
        return [
            *rows,
            Row(name, _NGINX, CPU, None, note="nginx is not installed, and only root may fetch it"),
        ]
    return rows + cpu_and_throughput(name, _NGINX, found, "ours", "nginx")


def _sides(run: Run, path: str, home: Home, stack: ExitStack) -> list[Side]:
    request = get(home, path)
    ours = warm_relaydeck(stack, home)
    answer = run.capture("list", ours, request)
    sides = [Side("ours", ours, request), Side("bare", started_bare(stack, answer), request)]
    if run.nginx is not None:
        nginx = stack.enter_context(serve_files(run.nginx, run.folder / "nginx", {path: answer.read_bytes()}))
        first_answer(nginx, request)
        sides.append(Side("nginx", nginx, request))
    return sides
