"""What every request leaves: one line in the log, one count in the metrics, its id in the answer."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.test_section_7_errors import store_that_cannot_be_read
from tests.support import shapes
from tests.support.raw_http import Wire
from tests.support.running import Running, eventually
from tests.support.seeding import fill, issue, relayer

SIGNERS = "/api/v1/signers"
RPC = "/api/v1/relayers/one/rpc"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}

# What is asked, and the route, status and reason it is recorded under.
ASKED: list[tuple[tuple[Any, ...], str, int, str | None]] = [
    (("POST", SIGNERS, shapes.request("plain", id="one")), "create_signer", 201, None),
    (("POST", SIGNERS, shapes.request("plain", id="one")), "create_signer", 409, "the given id is taken"),
    (("POST", SIGNERS, b"{"), "create_signer", 400, "the body is not valid JSON (it ends at byte 1)"),
    (("POST", SIGNERS, b""), "create_signer", 400, "the body is not valid JSON (it ends at byte 0)"),
    (("POST", SIGNERS, b'{"id": }'), "create_signer", 400, "the body is not valid JSON (byte 7)"),
    (("POST", SIGNERS, b'{"id": "\xff"}'), "create_signer", 400, "the body is not valid JSON (byte 8)"),
    (
        ("POST", SIGNERS, {"type": "plian", "config": {}}),
        "create_signer",
        400,
        "type is not one of plain, provider_a_kms, provider_c, provider_c_transit, "
        "provider_d, provider_e, provider_b_kms",
    ),
    (("POST", SIGNERS, b" " * 1025), "create_signer", 413, "the body is larger than 1024 bytes"),
    (("GET", SIGNERS), "list_signers", 200, None),
    (("GET", f"{SIGNERS}?page=x"), "list_signers", 400, "page must be a plain decimal integer of at least 0"),
    (("PATCH", "/api/v1/notifications/pager", {}), "update_notification", 200, None),
    (("PATCH", "/api/v1/notifications/none", {}), "update_notification", 404, "no notification has this id"),
    (("GET", "/api/v1/relayers"), "list_relayers", 200, None),
    (("POST", RPC, CALL), "relayer_rpc", 200, None),
    (("POST", "/api/v1/relayers/none/rpc", CALL), "relayer_rpc", 404, "no relayer has this id"),
    (("GET", "/api/v1/nothing"), "unmatched", 404, "nothing is served at this path"),
    (
        ("GET", "/api/v1/signers/"),
        "unmatched",
        404,
        "nothing is served at this path: leave out the slash at its end",
    ),
    (
        ("POST", f"/api/v1{RPC}", CALL),
        "unmatched",
        404,
        "nothing is served at this path: it has two prefixes; the path is /api/v1/relayers/{relayer_id}/rpc",
    ),
    (
        ("GET", "/api/v1/admin/v1/networks"),
        "unmatched",
        404,
        "nothing is served at this path: it has two prefixes; the path is /admin/v1/networks",
    ),
    (
        ("GET", "/admin/v1/api/v1/signers"),
        "unmatched",
        404,
        "nothing is served at this path: it has two prefixes; the path is /api/v1/signers",
    ),
    (
        ("GET", "/api/v1//api/v1/signers/"),
        "unmatched",
        404,
        "nothing is served at this path: it has several slashes in a row; leave out the slash at its end;"
        " it has two prefixes; the path is /api/v1/signers",
    ),
    (("GET", "//api/v1/signers"), "unmatched", 404, "nothing is served at this path: it has several slashes in a row"),
    (("GET", "/api/v1/nothing/"), "unmatched", 404, "nothing is served at this path"),
    (("PUT", SIGNERS), "unmatched", 405, "this path accepts GET, HEAD, POST"),
    (("GET", "/healthz"), "operations", 200, None),
    (("GET", "/readyz"), "operations", 200, None),
]


def serve(home_parent: Any, *arguments: str, **settings: str) -> Running:
    home = home_parent / "home"
    fill(home, notifications={"pager": None}, relayers=[relayer("one")])
    return Running(home, *arguments, token=issue(home, 'a "name"'), **settings)


def lines(running: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in running.log.splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The log's lines of everything in ASKED, after the service has ended."""
    with serve(tmp_path_factory.mktemp("records"), max_body_bytes="1024") as running:
        for number, (request, *_) in enumerate(ASKED):
            running.ask(*request, headers={"X-Request-Id": f"asked-{number}"})
        running.ask("GET", SIGNERS, token="unknown", headers={"X-Request-Id": "nobody"})
        running.ask("GET", SIGNERS, headers={"X-Request-Id": "proxied", "X-Forwarded-For": "203.0.113.9"})
    return [line for line in lines(running) if line["event"] == "request"]


def of(recorded: list[dict[str, Any]], request_id: str) -> dict[str, Any]:
    (line,) = [line for line in recorded if line["request_id"] == request_id]
    return line


@pytest.mark.parametrize("number", range(len(ASKED)), ids=lambda n: f"{ASKED[n][1]} {ASKED[n][2]}")
def test_each_request_leaves_one_line_with_exactly_these_fields(recorded: list[dict[str, Any]], number: int) -> None:
    _, route, status, reason = ASKED[number]
    line = of(recorded, f"asked-{number}")
    assert {name: value for name, value in line.items() if name not in ("time", "duration_us")} == {
        "level": "info",
        "event": "request",
        "request_id": f"asked-{number}",
        "route": route,
        "status": status,
        "token": "-" if route in ("operations", "unmatched") else 'a "name"',
        "client": "127.0.0.1",
    } | ({} if reason is None else {"reason": reason})


def test_the_time_is_utc_to_the_millisecond(recorded: list[dict[str, Any]]) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", of(recorded, "asked-0")["time"])


def test_the_duration_is_whole_microseconds(recorded: list[dict[str, Any]]) -> None:
    assert type(of(recorded, "asked-0")["duration_us"]) is int


def test_a_request_of_nobody_has_a_dash_for_its_token(recorded: list[dict[str, Any]]) -> None:
    assert of(recorded, "nobody")["token"] == "-"


def test_a_peer_that_is_no_trusted_proxy_is_not_believed(recorded: list[dict[str, Any]]) -> None:
    assert of(recorded, "proxied")["client"] == "127.0.0.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two workers behind a proxy they trust."""
    with serve(tmp_path_factory.mktemp("workers"), "--workers", "2", trusted_proxies="127.0.0.0/8") as running:
        yield running


@pytest.mark.parametrize("given", ["a", "a" * 128, "trace:1/2+3=4@x.y_z-0", "00000000-0000-0000-0000-000000000000"])
def test_a_request_id_is_accepted_and_echoed(served: Running, given: str) -> None:
    assert served.ask("GET", SIGNERS, headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["a" * 129, "a b", 'a"b', "a,b", "é", "a\tb", "{}", "\\"], ids=ascii)
def test_another_request_id_is_replaced(served: Running, given: str) -> None:
    echoed = served.ask("GET", SIGNERS, headers={"X-Request-Id": given}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", echoed)


def test_each_request_without_an_id_gets_its_own(served: Running) -> None:
    assert len({served.ask("GET", SIGNERS).headers["x-request-id"] for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/healthz"), ("GET", "/nothing"), ("PUT", SIGNERS), ("POST", SIGNERS)]
)
def test_every_answer_echoes_the_request_id(served: Running, method: str, path: str) -> None:
    answer = served.ask(method, path, token="", headers={"X-Request-Id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


def test_the_client_behind_a_trusted_proxy_is_logged(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(
            wire.head("GET", SIGNERS, "X-Request-Id: behind", "X-Forwarded-For: 203.0.113.9", "Connection: close")
        )
        wire.answer()
    metrics(served)
    assert of_log(served, "behind")["client"] == "203.0.113.9"


def of_log(running: Running, request_id: str) -> dict[str, Any]:
    """A line of a running service's log; it is written a moment after the answer."""
    deadline = time.monotonic() + 60
    while True:
        found = [json.loads(line) for line in running.log.splitlines() if f'"{request_id}"' in line]
        if found or time.monotonic() > deadline:
            record: dict[str, Any]
            (record,) = found
            return record
        time.sleep(0.01)


def metrics(running: Running) -> dict[str, float]:
    text = running.ask("GET", "/metrics").body.decode()
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def total(found: dict[str, float], route: str) -> float:
    return sum(value for name, value in found.items() if name.startswith(f'relaydeck_requests_total{{route="{route}"'))


def test_metrics_summed_over_workers_equal_the_requests_made(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serve(tmp_path_factory.mktemp("counted"), "--workers", "2") as running:
        for _ in range(10):
            for request, *_ in ASKED:
                running.ask(*request)
        made = Counter((route, status) for _, route, status, _ in ASKED for _ in range(10))
        made["create_signer", 201], made["create_signer", 409] = 1, 19
        made["create_signer", 400] += made.pop(("create_signer", 413))  # its size is allowed here
        expected = {
            f'relaydeck_requests_total{{route="{route}",status="{status}"}}': float(amount)
            for (route, status), amount in made.items()
            if route != "operations"
        }
        deadline = time.monotonic() + 60
        while True:  # a count follows its answer by a moment
            found = metrics(running)
            counted = {
                n: v for n, v in found.items() if n.startswith("relaydeck_requests_total") and "operations" not in n
            }
            if counted == expected or time.monotonic() > deadline:
                break
        assert counted == expected
        for route in ("create_signer", "list_signers", "relayer_rpc"):
            count = found[f'relaydeck_request_seconds_count{{route="{route}"}}']
            assert (
                count == found[f'relaydeck_request_seconds_bucket{{route="{route}",le="+Inf"}}'] == total(found, route)
            )


def test_metrics_are_in_the_prometheus_text_format(served: Running) -> None:
    answer = served.ask("GET", "/metrics", token="")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    for line in answer.body.decode().splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.]+', line), line


def test_healthz_needs_no_credential(served: Running) -> None:
    answer = served.ask("GET", "/healthz", token="")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"ok\n", "text/plain; charset=utf-8")


def test_readyz_needs_no_credential(served: Running) -> None:
    answer = served.ask("GET", "/readyz", token="")
    assert (answer.status, answer.body) == (200, b"ready\n")


@pytest.mark.parametrize("query", ["detail", "detail=1"])
def test_the_detail_of_readyz_says_whether_writes_work(served: Running, query: str) -> None:
    eventually(lambda: served.ask("GET", "/writez", token="").status == 200)
    answer = served.ask("GET", f"/readyz?{query}", token="")
    writes = {"ok": True, "cause": None, "text": "writes work"}
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["writes"].pop("last_success_seconds") in range(6)
    expected = {"ready": True, "text": "ready", "writes": writes, "loading_records": 0, "can_restart": True}
    assert answer.json | {"writes": writes} == expected


def test_readyz_says_when_the_store_cannot_be_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serve(tmp_path_factory.mktemp("unready")) as running:
        with store_that_cannot_be_read(running.home):
            broken = running.ask("GET", "/readyz")
        mended = running.ask("GET", "/readyz")
    assert (broken.status, broken.body, mended.status) == (503, b"the store cannot be read\n", 200)
