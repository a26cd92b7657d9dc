"""A command on a server, from its start to its end, and the same command on the home, in turn."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from statistics import median

from bench.comparing import ratio_of
from bench.homes import Home, change, make_home
from bench.processes import ROOT
from bench.rows import Row
from bench.run import Run, started_relaydeck
from relaydeck.credentials import tokens
from relaydeck.credentials.tokens import new_token
from relaydeck.roles import Role

_COMMAND = (sys.executable, "-m", "relaydeck", "relayer", "list")
_AT_MOST_LOCAL = 1.5


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "commands", signers=10, relayers=10)
    token = _admin_token(home)
    with ExitStack() as stack:
        server = started_relaydeck(stack, home)
        url = f"http://127.0.0.1:{server.port}"
        pairs = []
        for _ in range(run.pace.starts):
            remote = _seconds(RELAYDECK_URL=url, RELAYDECK_TOKEN=token)
            local = _seconds(RELAYDECK_HOME=str(home.folder))
            pairs.append((remote, local))
            run.advance(remote + local)
    there, here = (median(each) for each in zip(*pairs, strict=True))
    run.small_print.append(f"relaydeck relayer list: on a server {there:.2f} s, on the home {here:.2f} s")
    return [
        Row(
            "relaydeck relayer list on a server", "on the home", "start to end", ratio_of(pairs), at_most=_AT_MOST_LOCAL
        )
    ]


def _admin_token(home: Home) -> str:
    token = new_token()
    change(
        home,
        lambda transaction, vault: tokens.add(
            transaction, vault.proofs, "commands", Role.ADMIN, token, now=int(time.time())
        ),
    )
    return token.reveal()


def _seconds(**settings: str) -> float:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
    started = time.monotonic()
    subprocess.run(_COMMAND, cwd=ROOT, env=kept | settings, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started
