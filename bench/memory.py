"""What a worker holds in memory beyond the bare application's, as a share of what it may."""

from contextlib import ExitStack

from bench.comparing import Ratio
from bench.homes import make_home
from bench.load import run_load
from bench.processes import Server
from bench.rows import Row
from bench.run import RELAYERS, SIGNERS, Run, get, started_bare, started_relaydeck
from bench.service import await_quiet

_SIGNERS = 10_000
_ALLOWED_MEGABYTES = 60


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "memory", signers=_SIGNERS, relayers=10)
    request = get(home, SIGNERS)
    with ExitStack() as stack:
        ours = started_relaydeck(stack, home)
        bare = started_bare(stack, run.capture("memory", ours, request))
        for server in (ours, bare):
            run_load(run.load, server.port, request, 1)
            run.advance(2)
        run_load(run.load, ours.port, get(home, RELAYERS), 1)
        await_quiet(ours)
        return [memory_row(run, f"{_SIGNERS:,} signers", ours, bare, _ALLOWED_MEGABYTES)]


def memory_row(run: Run, what: str, ours: Server, bare: Server, allowed: int) -> Row:
    held, least = ours.worker_megabytes(), bare.worker_megabytes()
    share = (held - least) / allowed
    run.small_print.append(f"memory of a worker, {what}: ours {held:.0f} MB, bare {least:.0f} MB")
    measure = f"memory of a worker above the bare one's, as a share of {allowed:,} MB"
    return Row(f"worker, {what}", "bare application", measure, Ratio(share, share, share), at_most=1)
