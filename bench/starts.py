"""From the command to the first answer, ours and the bare application's in turn."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.comparing import ratio_of
from bench.homes import Home, make_home
from bench.load import Request
from bench.processes import Server
from bench.rows import Row
from bench.run import RELAYERS, Run, get, started_relaydeck
from bench.service import first_answer, serve_bare, serve_relaydeck

_AT_MOST_BARE = 4
_AGAINST = "bare application"
_MEASURE = "time to first answer"


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "starts", signers=10, relayers=10)
    request = get(home, RELAYERS)
    with ExitStack() as stack:
        answer = run.capture("starts", started_relaydeck(stack, home), request)
    row = compare_starts(run, "start, 10 relayers", home, request, answer, run.pace.starts)
    return [row._replace(at_most=_AT_MOST_BARE)]


def compare_starts(run: Run, what: str, home: Home, request: Request, answer: Path, times: int) -> Row:
    pairs = []
    for _ in range(times):
        ours = seconds_to_answer(lambda: serve_relaydeck(home), request)
        bare = seconds_to_answer(lambda: serve_bare(answer), request)
        pairs.append((ours, bare))
        run.advance(ours + bare + 1)
    ours, bare = (median(each) for each in zip(*pairs, strict=True))
    run.small_print.append(f"{what}, ours: {ours:.2f} s, bare: {bare:.2f} s")
    return Row(what, _AGAINST, _MEASURE, ratio_of(pairs))


def seconds_to_answer(start: Callable[[], Server], request: Request) -> float:
    with start() as server:
        return first_answer(server, request)
