"""Durable creates from 64 clients, against a bare application with the same durability."""

from contextlib import ExitStack
from functools import partial

from bench.comparing import Side
from bench.homes import Home, make_home
from bench.load import NUMBER, Request
from bench.rows import CPU, THROUGHPUT, Row
from bench.run import SIGNERS, Run, warm_relaydeck
from bench.service import first_answer, serve_bare_create

_AT_LEAST_BARE = 0.5
_WHAT = "create-signer, 64 clients, answered after the sync"
_AGAINST = "bare application: same body decoded, one plain row group-committed, same durability"
# A key of 32 bytes, each time another.
_BODY = '{"type": "plain", "config": {"key": "0x' + "5a" * 24 + NUMBER + '"}}'


def create_request(home: Home) -> Request:
    headers = {"Authorization": f"Bearer {home.token}", "Content-Type": "application/json"}
    return Request("POST", SIGNERS, headers, _BODY)


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "creates", signers=10, relayers=10)
    found = run.compare_fresh("create-signer", partial(_sides, run, home))
    return [
        Row(_WHAT, _AGAINST, THROUGHPUT, found.throughput("ours", "bare"), at_least=_AT_LEAST_BARE),
        Row(_WHAT, _AGAINST, CPU, found.cpu("ours", "bare")),
    ]


def _sides(run: Run, home: Home, stack: ExitStack) -> list[Side]:
    request = create_request(home)
    ours = warm_relaydeck(stack, home)
    answer = run.capture("create", ours, request)
    bare = stack.enter_context(serve_bare_create(answer, run.folder / "plain.db"))
    first_answer(bare, request)
    return [Side("ours", ours, request), Side("bare", bare, request)]
