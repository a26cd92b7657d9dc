"""Requests a second and latencies of one worker: figures of a machine, which ratios are not."""

from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from bench.creates import create_request
from bench.estimates import RECEIVER, NodeUrl
from bench.fees import add_relayer
from bench.homes import Home, change, make_home
from bench.load import CONNECTIONS, NUMBER, Done, Request, ask_once, run_load
from bench.processes import Server
from bench.run import RELAYERS, SIGNERS, Pace, Run, get, warm_relaydeck
from bench.updates import add_notification, update_request

_SLICES = 3  # of the usual length, one after another


class Figure(NamedTuple):
    what: str
    per_second: float  # 64 clients
    p50: float  # milliseconds, 64 clients
    p99: float
    alone_p50: float  # one client
    alone_p99: float


def measure(run: Run) -> list[Figure]:
    from tests.node.process import running_geth

    home = make_home(run.folder / "absolute", signers=10, relayers=10)
    change(home, add_notification)
    requests = {
        "list-signers, 10 items": get(home, SIGNERS),
        "list-relayers, 10 items": get(home, RELAYERS),
        "create-signer, answered after the sync": create_request(home),
        "update-notification, answered after the sync": update_request(home),
    }
    found = [_figure(run, what, home, request) for what, request in requests.items()]
    with running_geth() as url:
        node = NodeUrl(url, 1337)
        change(home, lambda transaction, vault: add_relayer(transaction, vault, node))
        return [*found, _figure(run, "fee estimate, geth on the same machine", home, _estimate(home, node))]


def expected_seconds(pace: Pace) -> float:
    return 10 * pace.fresh_sets * _SLICES * pace.seconds


def _figure(run: Run, what: str, home: Home, request: Request) -> Figure:
    """The medians of several servers, each started for its share."""
    many, alone = [], []
    for _ in range(run.pace.fresh_sets):
        with ExitStack() as stack:
            server = warm_relaydeck(stack, home)
            _require_result(server, request)
            run_load(run.load, server.port, request, 1)  # not counted
            many.append(_slice(run, server, request, CONNECTIONS))
            alone.append(_slice(run, server, request, 1))
    return Figure(
        what,
        median(each.requests / each.seconds for each in many),
        *(median(each.latencies[0] for each in many), median(each.latencies[1] for each in many)),
        *(median(each.latencies[0] for each in alone), median(each.latencies[1] for each in alone)),
    )


def _slice(run: Run, server: Server, request: Request, connections: int) -> Done:
    seconds = _SLICES * run.pace.seconds
    done = run_load(run.load, server.port, request, seconds, connections)
    run.advance(seconds)
    return done


def _require_result(server: Server, request: Request) -> None:
    """An estimate that fails has status 200, too."""
    answer = ask_once(server.port, request)
    if request.path.endswith("/rpc") and b'"result"' not in answer:
        raise RuntimeError(f"the estimate failed: {answer.decode('utf-8', 'replace')}")


def _estimate(home: Home, node: NodeUrl) -> Request:
    """Of another transfer each time: the number is its amount, in hexadecimal digits."""
    import rlp

    amount = 0x1111111111111111
    encoded = rlp.encode([node.chain_id, 0, 1, 2, 21000, bytes.fromhex(RECEIVER[2:]), amount, b"", []]).hex()
    transaction = "0x02" + encoded.replace(f"{amount:x}", NUMBER)
    params = f'{{"fee_token": "ETH", "network": "local", "transaction": "{transaction}"}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {params}}}'
    headers = {"Authorization": f"Bearer {home.token}", "Content-Type": "application/json"}
    return Request("POST", f"{RELAYERS}/estimates/rpc", headers, body)
