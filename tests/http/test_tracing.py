"""Traces, received over OTLP by a real HTTP server: requests, estimates, node calls and deliveries, and no secret."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ExportedSpan
from opentelemetry.sdk.trace import Span

from relaydeck import __version__
from relaydeck.errors import OperatorError
from relaydeck.http.tracing import Tracing
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Policies
from relaydeck.secret import Secret
from relaydeck.worker.core_worker import open_tracing
from tests.support.fault_node import FaultNode
from tests.support.receiver import Receiver
from tests.support.running import COMMAND, Running, clean_environment, free_port
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.stored_rows import create_row

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class HeaderNode(FaultNode):
    """Remembers the `traceparent` of the requests that ask for the gas price."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = {"eth_gasPrice": "0x3b9aca00"}
        self.parents: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super()._serve(_Noting(reader, self.parents), writer)  # type: ignore[arg-type]


class _Noting:
    def __init__(self, reader: asyncio.StreamReader, parents: list[str]) -> None:
        self._reader, self._parents = reader, parents
        self.readexactly = reader.readexactly

    async def readuntil(self, separator: bytes) -> bytes:
        head = await self._reader.readuntil(separator)
        lines = head.decode().lower().split("\r\n")
        self._parents += [line.split(": ")[1] for line in lines if line.startswith("traceparent:")]
        return head


class Scene:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.node, self.collector, self.hook = HeaderNode(), Receiver(), Receiver()

    async def start(self) -> None:
        await self.node.start()
        await self.collector.start()
        await self.hook.start()
        fill(self.home)
        policies = Policies(eip1559_pricing=False, gas_limit_estimation=False)
        with opened(self.home) as store, store.database.transaction() as transaction:
            pager = Notification("pager", "webhook", f"{self.hook.url}?key=hook-secret", Secret(SIGNING_KEY))
            create_row(notification_changes.TABLE, transaction, store.vault, pager)
            urls = (RpcUrl(f"{self.node.url}?key=node-secret"),)
            made = relayer("r1", notification_id="pager", custom_rpc_urls=urls, policies=policies)
            create_row(relayer_rows.TABLE, transaction, store.vault, made)
        self.token = issue(self.home, "root", "admin")
        endpoint = f"http://127.0.0.1:{self.collector.port}"
        settings = {"otel_endpoint": endpoint, "monitor_interval_seconds": "0", "webhook_allow": "127.0.0.0/8"}
        self.service = await asyncio.to_thread(lambda: Running(self.home, token=self.token, **settings))

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        return (await asyncio.to_thread(self.service.ask, method, path, body, headers=headers)).status

    async def stop(self) -> None:
        await asyncio.to_thread(self.service.stop)
        await self.node.stop()
        await self.hook.stop()

    @property
    def spans(self) -> list[Any]:
        """Everything that was exported, in no order."""
        requests = [ExportTraceServiceRequest.FromString(each.body) for each in self.collector.got]
        scopes = [scope for each in requests for resource in each.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


async def play(home: Path) -> Scene:
    scene = Scene(home)
    await scene.start()
    estimate = {"fee_token": "ETH", "network": "dev", "transaction": TRANSFER}
    call = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": estimate}
    assert await scene.ask("POST", "/api/v1/relayers/r1/rpc", call) == 200
    assert await scene.ask("GET", "/api/v1/relayers?page=1&secret=query-secret") == 200
    assert await scene.ask("POST", "/admin/v1/relayers/r1/pause") == 200
    assert await scene.ask("GET", "/console/relayers/path-secret") == 303
    assert await scene.ask("GET", "/path-secret") == 404
    async with asyncio.timeout(60):
        while not scene.hook.got:
            await asyncio.sleep(0.02)
    await scene.stop()  # sends the spans that are left
    await scene.collector.stop()
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """What was sent where, after requests, an estimate and a delivery."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_SERVICE_NAME", "relayers-eu")
        return asyncio.run(play(tmp_path_factory.mktemp("traces") / "home"))


def passed_on(span: Any) -> str:
    """The `traceparent` header of a span, without its flags."""
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}"


def facts(span: Any) -> dict[str, Any]:
    found = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
    return {name: value for name, value in found.items() if name != "relaydeck.request_id"}


def test_a_request_its_estimate_and_its_node_calls_are_one_trace(scene: Scene) -> None:
    (request,) = scene.named("POST /api/v1/relayers/{relayer_id}/rpc")
    (estimate,) = scene.named("feeEstimate")
    calls = [span for span in scene.named("node call") if span.trace_id.hex() == TRACE]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert estimate.parent_span_id == request.span_id
    assert calls
    assert {span.parent_span_id for span in calls} == {estimate.span_id}
    assert facts(request) == {
        "http.request.method": "POST",
        "http.route": "/api/v1/relayers/{relayer_id}/rpc",
        "http.response.status_code": 200,
    }
    assert facts(estimate) == {
        "relaydeck.network": "dev",
        "relaydeck.relayer": "r1",
        "relaydeck.outcome": "ok",
    }
    assert facts(calls[0]) == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": scene.node.port,
        "http.response.status_code": 200,
    }


def test_a_request_is_named_after_its_path_template(scene: Scene) -> None:
    requests = [facts(span) | {"name": span.name} for span in scene.spans if span.kind == ExportedSpan.SPAN_KIND_SERVER]
    assert {each["name"]: each.get("http.route") for each in requests} == {
        "GET": None,
        "GET /api/v1/relayers": "/api/v1/relayers",
        "GET /console/{page}": "/console/{page}",
        "GET /healthz": "/healthz",
        "POST /admin/v1/relayers/{id}/pause": "/admin/v1/relayers/{id}/pause",
        "POST /api/v1/relayers/{relayer_id}/rpc": "/api/v1/relayers/{relayer_id}/rpc",
    }


def test_the_service_has_the_name_of_the_environment(scene: Scene) -> None:
    requests = [ExportTraceServiceRequest.FromString(each.body) for each in scene.collector.got]
    resources = [each.resource.attributes for request in requests for each in request.resource_spans]
    assert {each.value.string_value for found in resources for each in found if each.key == "service.name"} == {
        "relayers-eu"
    }


def test_otherwise_the_service_is_called_relaydeck() -> None:
    tracing = Tracing("http://127.0.0.1:9", lambda collector: None)
    span = tracing.tracer.start_span("unused")
    tracing.close()
    assert isinstance(span, Span)
    assert {name: span.resource.attributes[name] for name in ("service.name", "service.version")} == {
        "service.name": "relaydeck",
        "service.version": __version__,
    }


def test_a_collector_that_cannot_be_reached_is_one_line_of_the_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    port, deadline = free_port(), time.monotonic() + 60
    with Running(home, otel_endpoint=f"http://127.0.0.1:{port}/path-secret", log_format="json") as running:
        while "collector" not in running.log:
            assert running.ask("GET", "/healthz").status == 200
            assert time.monotonic() < deadline, running.log
    lines = [json.loads(line) for line in running.log.splitlines()]
    reported = [line for line in lines if "collector" in line]
    assert {(each["level"], each["event"], each["collector"]) for each in reported} == {
        ("warning", "traces do not reach the collector", f"http://127.0.0.1:{port}")
    }
    assert ["repeated" in each for each in reported] in ([False], [False, True])  # the second one when it ended
    assert "path-secret" not in running.log


def test_nodes_get_the_trace_of_the_request(scene: Scene) -> None:
    calls = [span for span in scene.named("node call") if span.trace_id.hex() == TRACE]
    assert {passed_on(span) for span in calls} <= {each.rpartition("-")[0] for each in scene.node.parents}


def test_a_receiver_gets_the_trace_of_the_delivery(scene: Scene) -> None:
    (delivery,) = scene.named("event delivery")
    assert scene.hook.got[0].headers["traceparent"].rpartition("-")[0] == passed_on(delivery)
    assert facts(delivery)["http.response.status_code"] == 204


def test_no_span_has_a_secret(scene: Scene) -> None:
    exported = b"".join(each.body for each in scene.collector.got)
    secrets = (
        scene.token,
        SIGNING_KEY,
        "secret-key",
        "node-secret",
        "hook-secret",
        "query-secret",
        "path-secret",
        TRANSFER,
    )
    assert [secret for secret in secrets if secret.encode() in exported] == []


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "relaydeck.http.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(OperatorError) as refused:
        open_tracing("http://127.0.0.1:4318", lambda collector: None)
    assert str(refused.value) == (
        "RELAYDECK_OTEL_ENDPOINT needs the extra otel, and its package 'opentelemetry.sdk.resources' is not installed "
        "(pip install 'relaydeck[otel]', or '.[otel]' in the clone)\nInstall the extra, or remove the setting."
    )


def test_without_the_extra_the_service_does_not_start(home: Path, tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").touch()  # instead of the installed package
    environment = clean_environment(home, otel_endpoint="http://127.0.0.1:4318") | {"PYTHONPATH": str(tmp_path)}
    command = [*COMMAND, "serve", "--port", str(free_port())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, home.exists()) == (
        1,
        "relaydeck: RELAYDECK_OTEL_ENDPOINT needs the extra otel, and its package 'opentelemetry.exporter' is not "
        "installed (pip install 'relaydeck[otel]', or '.[otel]' in the clone)\n"
        "Correct these settings, or provide what they need, and start again.\n",
        False,
    )


def test_without_the_setting_nothing_of_it_is_imported() -> None:
    code = "import sys, relaydeck.worker.app, relaydeck.fees.estimator; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
